// Requests as clients of the responses dialect send them; neutral text stands in place of prose.
import { readFileSync } from 'node:fs';
import t from 'tap';
import { ResponsesRequest } from '../../../src/dialect/translation/responses-request.ts';
import { factsOfChat, factsOfResponses, list, optionsOfResponses } from './responses-facts.ts';
import type { Json } from './random-responses.ts';

function recorded(file: string): { client: string; version: string; requests: Json[] } {
  const url = new URL(`../../../../test/fixtures/${file}.json`, import.meta.url);
  return JSON.parse(readFileSync(url, 'utf8')) as { client: string; version: string; requests: Json[] };
}

function chatOf(request: Json): Json {
  return JSON.parse(new ResponsesRequest(Buffer.from(JSON.stringify(request))).body.toString()) as Json;
}

for (const file of ['openai', 'ai-sdk', 'openai-agents', 'codex']) {
  const { client, requests, version } = recorded(`responses/${file}`);
  t.test(`loses nothing of the requests of ${client} ${version}`, (t) => {
    for (const request of requests) {
      const stored = list(request['input']).findIndex(({ type }) => type === 'item_reference');
      if (stored >= 0) {
        t.throws(() => chatOf(request), {
          code: 'HR_REQUEST_UNTRANSLATABLE',
          subject: `input.${stored}.type: item_reference: No stored item has this id.`,
        });
        (request['input'] as Json[]).splice(stored, 1);
      }
      const { messages, ...options } = chatOf(request);
      t.strictSame(factsOfChat(messages as Json[], request), factsOfResponses(request));
      t.strictSame(options, optionsOfResponses(request));
    }
    t.end();
  });
}

t.test('leaves the web search out that Codex offers unasked, and refuses any other by name', (t) => {
  const [request = {}] = recorded('responses/codex').requests;
  const tools = list(request['tools']);
  const offering = (tool: Json): Json => ({ ...request, tools: [...tools, tool] });
  t.strictSame(chatOf(offering({ type: 'web_search', external_web_access: false })), chatOf(request));
  for (const external of [true, null, undefined]) {
    t.throws(() => chatOf(offering({ type: 'web_search', external_web_access: external })), {
      code: 'HR_REQUEST_UNTRANSLATABLE',
      subject: `tools.${tools.length}.type: web_search: Without \`webSearchTool\`, only the vendor of the API can run this tool.`,
    });
  }
  t.end();
});
