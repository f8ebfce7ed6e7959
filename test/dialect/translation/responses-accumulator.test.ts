// The accumulator of the official client, over a real HTTP server, makes of translated streams what the translation makes of whole
// answers. It throws on every stream that was cut.

import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import OpenAI from 'openai';
import t from 'tap';
import { responses } from '../../../src/dialect/openai.ts';
import { ResponseEcho } from '../../../src/dialect/translation/response-echo.ts';
import { ResponsesAnswer } from '../../../src/dialect/translation/responses-answer.ts';
import { Random } from '../../support/random.ts';
import { chunk, eventOf, finish, inPieces, randomOutput, streamOf, wholeOf } from '../../support/scripted-chat.ts';

const NOW = 1_790_000_123_456;
const ECHO = new ResponseEcho(Buffer.from('{"model":"atlas-27b","input":"hi"}'), null);
const ask = { model: 'atlas-27b', input: 'hi' };

/** What the next requests are answered with. */
let whole: Buffer = Buffer.alloc(0);
let pieces: readonly Buffer[] = [];

async function start(): Promise<Server> {
  const server = createServer((request, response) => {
    let body = '';
    request.on('data', (data: Buffer) => (body += data.toString()));
    request.on('end', () => {
      const { stream } = JSON.parse(body) as { stream?: boolean };
      if (stream !== true) {
        response.setHeader('content-type', 'application/json').end(whole);
        return;
      }
      response.setHeader('content-type', 'text/event-stream');
      for (const piece of pieces) response.write(piece);
      response.end();
    });
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  return server;
}

const server = await start();
t.teardown(() => {
  server.close();
  server.closeAllConnections();
});
const baseURL = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
const openai = new OpenAI({ apiKey: 'none', baseURL, maxRetries: 0 });

const answer = (): ResponsesAnswer => new ResponsesAnswer(ECHO, { epochMs: () => NOW, uniqueId: () => 'u' });

/** Without the members that the client adds. */
function withoutParsed(response: object): unknown {
  const added = ['parsed', 'parsed_arguments', 'output_parsed'];
  return JSON.parse(JSON.stringify(response, (name, value: unknown) => (added.includes(name) ? undefined : value)));
}

t.test('accumulates a stream to the whole response', async (t) => {
  const random = new Random(5);
  for (let turn = 0; turn < 60; turn++) {
    const output = randomOutput(random);
    const translator = answer();
    const events = inPieces(random, streamOf(random, output)).map((piece) => Buffer.from(translator.events(piece)));
    pieces = [...events, Buffer.from(translator.end())];
    whole = Buffer.from(answer().whole(Buffer.from(JSON.stringify(wholeOf(output)))));
    const accumulated = await openai.responses.stream(ask).finalResponse();
    t.strictSame(withoutParsed(accumulated), withoutParsed(await openai.responses.create(ask)));
  }
});

t.test('throws on every stream that was cut', async (t) => {
  const call = { index: 0, id: 'call_7', type: 'function', function: { name: 'run', arguments: '{"a":' } };
  const events = [
    chunk({ role: 'assistant', content: '' }),
    chunk({ reasoning: 'Hm' }),
    chunk({ content: 'Down' }),
    chunk({ content: ' the canal.' }),
    chunk({ tool_calls: [call] }),
    chunk({ tool_calls: [{ index: 0, function: { arguments: '1}' } }] }),
    finish('tool_calls'),
  ].map(eventOf);
  const failure = { code: 'HR_STREAM_TRUNCATED', message: 'cut', status: 502 };
  for (let cut = 0; cut < events.length; cut++) {
    const translator = answer();
    const before = events.slice(0, cut).map((event) => Buffer.from(translator.events(Buffer.from(event))));
    pieces = [...before, Buffer.from(responses.errorEvent({ ...failure, sequence: translator.nextSequence }))];
    await t.rejects(openai.responses.stream(ask).finalResponse(), { message: /cut/ }, `after ${cut} events`);
    const stream = await openai.responses.create({ ...ask, stream: true });
    const numbers: number[] = [];
    const read = async (): Promise<void> => {
      for await (const { sequence_number: number } of stream) numbers.push(number);
    };
    await t.rejects(read(), { message: /cut/ });
    t.same(numbers, [...numbers.keys()], 'numbers are consecutive up to the error');
    t.equal(numbers.length, translator.nextSequence);
  }
});
