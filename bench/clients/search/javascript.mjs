// The JavaScript clients of Tavily and Firecrawl. Each case prints a line of JSON; BASE_URL, SITE and KEY say whom to ask.

import assert from 'node:assert/strict';
import Firecrawl from '@mendable/firecrawl-js';
import { tavily } from '@tavily/core';

const { BASE_URL: base, KEY: key, SITE: site } = process.env;
const page = `${site}/article`;

async function test(client, title, run) {
  let error = null;
  try {
    await run();
  } catch (thrown) {
    error = String(thrown?.stack ?? thrown);
  }
  process.stdout.write(`${JSON.stringify({ client, title, error })}\n`);
}

const apiBaseURL = `${base}/tavily`;
const client = tavily({ apiKey: key, apiBaseURL });
await test('@tavily/core', 'search', async () => {
  const options = { maxResults: 3, includeRawContent: 'markdown', includeImages: true, timeRange: 'week' };
  const { answer, images, requestId, responseTime, results } = await client.search('weirs', options);
  assert.equal(results.length, 3);
  assert.match(results[0].rawContent, /A weir/);
  assert.ok(results[0].score >= results[1].score);
  assert.equal(answer, null);
  assert.deepEqual(images, []);
  assert.equal(typeof responseTime, 'number');
  assert.ok(requestId);
});
await test('@tavily/core', 'page', async () => {
  const { failedResults, results } = await client.extract([page, `${site}/none`]);
  assert.match(results[0].rawContent, /A weir/);
  assert.match(failedResults[0].error, /status 404/);
});
await test('@tavily/core', 'errors', async () => {
  await assert.rejects(tavily({ apiKey: 'hr_wrong', apiBaseURL }).search('weirs'), { message: 'Invalid API key' });
  await assert.rejects(client.search('weirs', { topic: 'sports' }), /^Error: topic: /);
});

for (const apiUrl of [`${base}/firecrawl`, base]) {
  const name = apiUrl === base ? 'firecrawl-js at the root' : '@mendable/firecrawl-js';
  const firecrawl = new Firecrawl({ apiKey: key, apiUrl });
  await test(name, 'search', async () => {
    const { web } = await firecrawl.search('weirs', { limit: 2, scrapeOptions: { formats: ['markdown'] } });
    assert.equal(web.length, 2);
    assert.match(web[0].markdown, /A weir/);
    const { news } = await firecrawl.search('weirs', { limit: 2, sources: ['news'] });
    assert.equal(news[0].title, 'Title 0');
  });
  await test(name, 'page', async () => {
    const found = await firecrawl.scrape(page, { formats: ['markdown', 'html', 'links'] });
    assert.match(found.markdown, /A weir/);
    assert.match(found.html, /<p>A weir/);
    assert.deepEqual(found.links, [`${site}/race`]);
    assert.equal(found.metadata.title, 'On weirs');
    const old = await firecrawl.v1.scrapeUrl(page, { formats: ['markdown'] });
    assert.match(old.markdown, /A weir/);
  });
  await test(name, 'errors', async () => {
    await assert.rejects(firecrawl.scrape('http://[::1]/'), { status: 400, code: 'HR_FETCH_BLOCKED' });
    await assert.rejects(firecrawl.scrape(`${site}/none`), { status: 500 });
    await assert.rejects(new Firecrawl({ apiKey: 'hr_wrong', apiUrl }).scrape(page), { status: 401 });
  });
}
