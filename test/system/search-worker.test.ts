// A search worker in a process of its own: errors that nothing handles.

import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { type SpawnedCli, startCli } from '../support/system-cli.ts';

const ENGINE = `import { setTimeout as pause } from 'node:timers/promises';
export const createEngine = () => ({ kind: 'own', documentation: '', types: ['web'],
  async search({ query }) {
    if (query === 'wrong') throw new RangeError(query);
    if (query === 'throw') setImmediate(() => { throw new Error('on its own'); });
    if (query === 'reject') void Promise.reject(new Error('on its own'));
    if (query === 'unknown') void Promise.reject('on its own');
    await pause(query === 'unknown' ? 60_000 : 1);
    return [{ title: query, url: 'https://own.example/', snippet: '' }];
  } });`;

async function start(t: Test): Promise<{ cli: SpawnedCli; search: (query: string) => Promise<Response> }> {
  const folder = t.testdir({ 'own.mjs': ENGINE, 'engine.json': '' });
  const file = join(folder, 'engine.json');
  writeFileSync(file, JSON.stringify({ kind: 'module', path: join(folder, 'own.mjs') }));
  const cli = startCli(t, ['search-worker', '--port', '0', '--config', file]);
  const [, url = ''] = await cli.shows(/^search worker listening on (\S+)\n/);
  const search = (query: string): Promise<Response> =>
    fetch(`${url}/search`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ engine: 'own', query, max_results: 5, search_type: 'web' }),
    });
  return { cli, search };
}

t.test('what a module throws on its own is logged, and costs no search', async (t) => {
  const { cli, search } = await start(t);
  for (const query of ['throw', 'reject', 'calm']) {
    const answer = await search(query);
    t.equal(answer.status, 200, query);
    t.match(await answer.json(), { results: [{ title: query }] });
  }
  t.equal(cli.stderr.split('the module of a search engine threw outside of a search').length, 3);
  t.not((await search('wrong')).status, 200);
  await cli.complains(/"msg":"the code of a search engine threw: RangeError at \S+ \(\S+own\.mjs\S*:4:/);
  cli.signal('SIGTERM');
  t.strictSame(await cli.ends(), { code: 0, signal: null });
});

t.test('an error that cannot be told from one of the worker ends it with code 1, and is logged', async (t) => {
  const { cli, search } = await start(t);
  await t.rejects(search('unknown'));
  t.strictSame(await cli.ends(), { code: 1, signal: null });
  t.match(cli.log, [{ level: 60, msg: 'the search worker cannot go on' }]);
});
