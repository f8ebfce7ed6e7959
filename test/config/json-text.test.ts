// JSON of strangers: what JSON.parse reads, but for text that would end the process.
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import fc from 'fast-check';
import t from 'tap';
import { parseJson } from '../../src/config/json-text.ts';
import { createGateway } from '../../src/index.ts';
import { clean } from '../../src/extract/clean.ts';
import { brave } from '../../src/search/engines/brave.ts';

/** Refused by the parser at its last bracket: without a bound the process ends with a segmentation fault soon after. */
const HOSTILE = `${'[1,'.repeat(20_000)}{x`;

t.test('any text is read as JSON.parse reads it', async () => {
  const outcomeOf = (read: (text: string) => unknown, text: string): string => {
    try {
      return JSON.stringify(read(text)) ?? 'undefined';
    } catch {
      return 'error';
    }
  };
  const texts = fc.oneof(
    fc.json(),
    fc.array(fc.constantFrom('[', ']', '{', '}', '"', '\\', '\\\\', ',', ':', '1', 'a', '"a"'), { maxLength: 30 }).map((parts) => parts.join('')),
  ); // oxfmt-ignore
  fc.assert(
    fc.property(texts, (text) => {
      const long = `[${'0,'.repeat(600)}${text}]`;
      return outcomeOf(parseJson, long) === outcomeOf(JSON.parse, long);
    }),
    { numRuns: 1000 },
  );
});

t.test('text is read to a depth of 1000, and not deeper', async (t) => {
  const nested = (depth: number): string => `${'["[[\\"",'.repeat(depth)}1${']'.repeat(depth)}`;
  t.ok(parseJson(nested(1000)));
  t.throws(() => parseJson(nested(1001)), { name: 'SyntaxError', message: 'JSON is nested deeper than 1000 levels' });
  t.throws(() => parseJson(HOSTILE), SyntaxError);
});

t.test('pages and engines with deep JSON do not end the process', async (t) => {
  const scripts = [
    `<script type="application/ld+json">${HOSTILE}</script>`,
    `<script id="__NEXT_DATA__" type="application/json">${HOSTILE}</script>`,
    `<script>self.__next_f.push([1,${JSON.stringify(`0:${HOSTILE}\n`)}])</script>`,
  ];
  const engine = brave({ apiKey: 'k' });
  const response = { status: 200, headers: {}, body: Buffer.from(HOSTILE) };
  const query = { query: 'x', type: 'web', maxResults: 10 } as const;
  for (let round = 0; round < 20; round++) {
    for (const script of scripts)
      t.equal(clean(`${script}<p>the text of a page</p>`, { url: 'http://a.test/' }).content, 'the text of a page');
    const context = { query, state: undefined, collected: 0, nowMs: 0 };
    t.throws(() => engine.parse(response, context), { name: 'EngineError', failure: 'invalid' });
  }
  // The damage shows when memory is collected.
  t.equal(Array.from({ length: 1_000_000 }, (_, index) => [index]).length, 1_000_000);
});

t.test('a server with deep JSON in its events does not end the process', async (t) => {
  const server = createServer((_request, response) => {
    response.setHeader('content-type', 'text/event-stream');
    response.end(`data: ${HOSTILE}\n\ndata: {"choices":[{"delta":{"content":${HOSTILE}\n\ndata: [DONE]\n\n`);
  });
  await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve));
  const gateway = createGateway({
    models: { m: { servers: [`http://127.0.0.1:${(server.address() as AddressInfo).port}`] } },
    keys: { static: [{ key: 'hr_test', account: 'a' }] },
    log: { level: 'silent' },
  });
  t.teardown(async () => {
    await gateway.close();
    server.close();
  });
  const headers = { authorization: 'Bearer hr_test' };
  const asked = { model: 'm', max_tokens: 5, messages: [{ role: 'user', content: 'x' }] };
  for (let round = 0; round < 10; round++) {
    await gateway.inject({ path: '/v1/chat/completions', headers, body: { ...asked, stream: true } });
    await gateway.inject({ path: '/v1/messages', headers, body: asked });
  }
  t.equal(Array.from({ length: 1_000_000 }, (_, index) => [index]).length, 1_000_000);
});
