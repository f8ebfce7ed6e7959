// Text that an engine lets wait, on its way out: it leaves with the next, when told to, or with the end.
import { type ModelEngine, createSimulatedEngine } from '../../../src/host/index.ts';
import type { CompletionEnd, Sink } from '../../../src/host/model-engine.ts';
import { send, startHost } from './ask.ts';
import t from 'tap';

const END: CompletionEnd = {
  reason: 'limit',
  stoppingWord: '',
  message: '',
  slotId: 0,
  promptTokens: 1,
  cachedTokens: 0,
  generatedTokens: 5,
  isTruncated: false,
  queueMs: 0,
  promptMs: 0,
  generationMs: 0,
  seed: 1,
};

/** An engine that hands out its sinks and says nothing by itself. */
function silentEngine(): { engine: ModelEngine; sinks: Sink[] } {
  const sinks: Sink[] = [];
  const engine = createSimulatedEngine({ models: ['m'], speed: 'virtual' });
  engine.complete = (_task, sink) => {
    sinks.push(sink);
    return { cancel() {} };
  };
  return { engine, sinks };
}

const CHAT = { model: 'm', messages: [{ role: 'user', content: 'hi' }] };
const REQUESTS = [
  ['/completion', { prompt: 'hi' }],
  ['/v1/chat/completions', CHAT],
] as const;

t.test('the first text leaves at once, what waits with the next, when told to, or with the end', async (t) => {
  for (const [path, body] of REQUESTS) {
    const { engine, sinks } = silentEngine();
    const host = await startHost(t, { engine });
    const asked = host.nextRequest();
    const answered = send(host, path, { ...body, stream: true });
    await asked;
    const sink = sinks[0]!;
    t.equal(sink.mayWait, true);
    sink.text('Alpha', [], true);
    const reader = (await answered).body!.pipeThrough(new TextDecoderStream()).getReader();
    const words = async (): Promise<string[]> => {
      const { value = '' } = await reader.read();
      return value.match(/Alpha|Beta|Gamma|Delta|Epsilon/g) ?? [];
    };
    t.same(await words(), ['Alpha'], path);
    sink.text('Beta', [], true);
    sink.text('Gamma', [], false);
    t.same(await words(), ['Beta', 'Gamma']);
    sink.text('Delta', [], true);
    sink.leave?.();
    t.same(await words(), ['Delta']);
    sink.text('Epsilon', [], true);
    sink.end(END);
    t.same(await words(), ['Epsilon']);
  }
});

t.test('nothing may wait in an answer with a fault, of several choices, or that is no stream', async (t) => {
  const { engine, sinks } = silentEngine();
  const host = await startHost(t, { engine });
  const meet = async (path: string, body: object, fault = ''): Promise<void> => {
    const asked = host.nextRequest();
    void send(host, path, body, fault === '' ? {} : { 'x-headrace-fault': fault }).catch(() => {});
    await asked;
  };
  for (const [path, body] of REQUESTS) {
    await meet(path, { ...body, stream: true }, 'crlf');
    await meet(path, { ...body, stream: true }, 'reset-after=3');
    await meet(path, body);
  }
  await meet('/v1/chat/completions', { ...CHAT, stream: true, n: 2 });
  t.equal(sinks.length, 8);
  t.ok(sinks.every(({ mayWait }) => mayWait === false));
});
