// The billing line of Claude Code on its way through a gateway: taken out before routing and forwarding, also of translated requests.

import t, { type Test } from 'tap';
import { createGateway } from '../../src/gateway/gateway.ts';
import { type FakeEngine, json, startFakeEngine } from '../support/fake-engine.ts';
import { CHAT_PATH, wholeAnswer } from '../support/scripted-chat.ts';
import { MODEL } from '../support/system.ts';

const LINE = 'x-anthropic-billing-header: cc_version=2.1.37.0d9; cc_entrypoint=cli; cch=0a1b2;';
const REST = `{"type":"text", "text":"You are Claude Code."}]`;
const WITH = `{"model":"${MODEL}","max_tokens": 16,"system":[{"type":"text","text":"${LINE}"}, ${REST},"messages":[]}`;
const WITHOUT = WITH.replace(`{"type":"text","text":"${LINE}"}, `, '');
const MESSAGES = '/v1/messages';

const MESSAGE = {
  ...{ id: 'msg_1', type: 'message', role: 'assistant', model: MODEL, stop_reason: 'end_turn', stop_sequence: null },
  content: [{ type: 'text', text: 'Hi.' }],
  usage: { input_tokens: 1, output_tokens: 1 },
};

/** A gateway, and a request that goes through it; returns what the CRN got. */
async function start(
  t: Pick<Test, 'teardown'>,
  dialects: readonly ('chat' | 'messages')[],
  volatileSystem?: boolean,
): Promise<(path: string, body: string) => Promise<string>> {
  const engine: FakeEngine = await startFakeEngine(
    new Map([
      ['/health', json({ status: 'ok' })],
      [CHAT_PATH, json(wholeAnswer({ content: 'Hi.' }))],
      [MESSAGES, json(MESSAGE)],
    ]),
    json({ input_tokens: 1 }),
  );
  t.teardown(() => engine.close());
  const gateway = createGateway({
    models: { [MODEL]: { servers: [{ url: engine.url, dialects: [...dialects] }] } },
    keys: { required: false },
    log: { level: 'silent' },
    ...(volatileSystem !== undefined && { rewrite: { volatileSystem } }),
  });
  t.teardown(() => gateway.close());
  await gateway.ready();
  return async (path, body) => {
    const answer = await gateway.inject({ path, headers: { 'content-type': 'application/json' }, body });
    if (answer.status !== 200) throw new Error(answer.text());
    return engine.requests.findLast(({ method }) => method === 'POST')?.text ?? '';
  };
}

t.test('the line is taken out, and all other bytes stay', async (t) => {
  const ask = await start(t, ['chat', 'messages']);
  t.equal(await ask(MESSAGES, WITH), WITHOUT);
  t.equal(await ask(MESSAGES, WITHOUT), WITHOUT);
  t.equal(await ask(`${MESSAGES}/count_tokens`, WITH), WITHOUT, 'tokens are counted without it');
  t.equal(await ask(CHAT_PATH, WITH), WITH, 'other dialects have no such member');
});

t.test('a translated request is without it', async (t) => {
  const ask = await start(t, ['chat']);
  t.match(JSON.parse(await ask(MESSAGES, WITH)), { messages: [{ role: 'system', content: 'You are Claude Code.' }] });
});

t.test('rewrite.volatileSystem: false keeps it', async (t) => {
  const ask = await start(t, ['messages'], false);
  t.equal(await ask(MESSAGES, WITH), WITH);
});
