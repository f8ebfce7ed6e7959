// What wallets pay for at a complete gateway, with servers that write scripted bytes: no useful output costs nothing, output that could
// not be handed over becomes credit, and the price is that of the tokens that the server may give.

import t, { type Test } from 'tap';
import { TestFacilitator } from '../support/facilitator.ts';
import { type LedgerFixture, startLedgerFixture } from '../support/ledger-fixture.ts';
import { headerV1, Payer, type Wanted } from '../support/payer.ts';
import { until } from '../support/system.ts';
import { answer, chunk, chunkedHead, delta, rawCrn, type RawRequest } from '../support/upstream-crn.ts';

const PAY_TO = '0x209693Bc6afc0C5328bA36FaF03C514EF312287C';
const EVENTS = 'content-type: text/event-stream';
const JSON_TYPE = 'content-type: application/json';
const FUNDS = 1_000_000_000n;
const PICO_PER_UNIT = 1_000_000n;

/** USD per token. */
const PROMPT = 0.25e-6;
const COMPLETION = 1.5e-6;

type Script = (request: RawRequest) => void;

interface WalletFixture extends LedgerFixture {
  readonly facilitator: TestFacilitator;
  readonly payer: Payer;
  /** Asks with a payment for the offer; resolves with the answer and the payment. */
  readonly pay: (path: string, body: object, payment?: string) => Promise<{ response: Response; payment: string }>;
  /** The offer for a request, in units. */
  readonly offered: (path: string, body: object) => Promise<number>;
}

const nowS = (): number => Math.floor((performance.timeOrigin + performance.now()) / 1000);

const probed =
  (script: Script): Script =>
  (request) => {
    if (request.head.startsWith('GET')) request.socket.write(answer('200 OK', '{"status":"ok"}', JSON_TYPE));
    else script(request);
  };

/** A gateway with one model for each script, by its name. */
async function open(t: Test, scripts: Readonly<Record<string, Script>>): Promise<WalletFixture> {
  const facilitator = await new TestFacilitator({ nowS }).listen();
  t.teardown(() => facilitator.close());
  const payer = new Payer(77n);
  facilitator.fund(payer.address, FUNDS);
  const models: Record<string, object> = {};
  for (const [name, script] of Object.entries(scripts)) {
    const { url } = await rawCrn(t, probed(script));
    models[name] = { servers: [url], context_length: 8192, pricing: { prompt: '0.25', completion: '1.50' } };
  }
  const payments = { facilitator: facilitator.url, payTo: PAY_TO, network: 'base-sepolia' };
  const fixture = await startLedgerFixture(t, { settings: { threads: 0, payments, models } as never });
  let nonce = 0;
  const send = (path: string, body: object, payment?: string): Promise<Response> =>
    fetch(fixture.url + path, {
      method: 'POST',
      headers: { 'content-type': 'application/json', ...(payment !== undefined && { 'x-payment': payment }) },
      body: JSON.stringify(body),
    });
  const offerOf = async (path: string, body: object): Promise<Wanted> => {
    const response = await send(path, body);
    t.equal(response.status, 402);
    return ((await response.json()) as { accepts: [Wanted] }).accepts[0];
  };
  return {
    ...fixture,
    facilitator,
    payer,
    async pay(path, body, given) {
      const payment =
        given ?? headerV1(payer, await offerOf(path, body), { nonce: ++nonce, nowS: nowS(), validS: 900 });
      return { response: await send(path, body, payment), payment };
    },
    offered: async (path, body) => Number((await offerOf(path, body)).maxAmountRequired),
  };
}

async function credit({ ledger, payer }: WalletFixture): Promise<bigint> {
  return (await ledger.account(payer.address))?.balance ?? 0n;
}

const chat = (model: string, more: object = {}): object => ({
  model,
  max_tokens: 100,
  messages: [{ role: 'user', content: 'where to' }],
  ...more,
});

const stream =
  (...pieces: readonly string[]): Script =>
  ({ socket }) => {
    socket.write(chunkedHead(EVENTS));
    for (const piece of pieces) socket.write(chunk(piece));
    socket.write(chunk(''));
  };

const ROLE = 'data: {"choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}\n\n';

/** Answers that hold nothing useful. */
const USELESS: Readonly<Record<string, Script>> = {
  'empty-200': ({ socket }) => void socket.write(answer('200 OK', '', JSON_TYPE)),
  'no-content': ({ socket }) => void socket.write('HTTP/1.1 204 No Content\r\n\r\n'),
  'error-200': ({ socket }) => void socket.write(answer('200 OK', '{"error":{"message":"no"}}', JSON_TYPE)),
  html: ({ socket }) => void socket.write(answer('200 OK', '<html></html>', 'content-type: text/html')),
  'error-stream': stream('data: {"error":{"message":"no"}}\n\n'),
  'only-done': stream('data: [DONE]\n\n'),
  roles: stream(ROLE, ROLE),
  comments: ({ socket }) => {
    socket.write(chunkedHead(EVENTS));
    for (let at = 0; at < 20; at++) socket.write(chunk(': keep-alive\n\n'));
    setImmediate(() => socket.destroy());
  },
  refusal: ({ socket }) => void socket.write(answer('422 Unprocessable', '{"detail":"no"}', JSON_TYPE)),
};

t.test('an answer without useful output costs nothing', async (t) => {
  const fixture = await open(t, USELESS);
  const names = Object.keys(USELESS);
  for (const model of names) {
    const { response } = await fixture.pay('/v1/chat/completions', chat(model, { stream: true }));
    t.not(response.status, 200, model);
    await response.text();
  }
  await until('all are released', async () => (await fixture.ledger.paymentsIn('failed')).length === names.length);
  t.same(fixture.facilitator.transfers, []);
  t.equal(await fixture.ledger.account(fixture.payer.address), undefined);
});

t.test('an empty answer on a path of no dialect passes and costs nothing', async (t) => {
  const { 'empty-200': empty, 'no-content': none } = USELESS as Record<string, Script>;
  const fixture = await open(t, { empty: empty as Script, none: none as Script });
  t.equal((await fixture.pay('/v1/other', { model: 'empty' })).response.status, 200);
  t.equal((await fixture.pay('/v1/other', { model: 'none' })).response.status, 204);
  await until('both are released', async () => (await fixture.ledger.paymentsIn('failed')).length === 2);
  t.same(fixture.facilitator.transfers, []);
});

t.test('the money is taken with the first useful event, and is the price once that was handed over', async (t) => {
  const held = Promise.withResolvers<void>();
  const begun = Promise.withResolvers<void>();
  const fixture = await open(t, {
    slow: ({ socket }) => {
      socket.write(chunkedHead(EVENTS) + chunk(ROLE).toString(), () => begun.resolve());
      void held.promise.then(() => socket.write(chunk(delta('hi'))));
    },
  });
  const asked = fixture.pay('/v1/chat/completions', chat('slow', { stream: true }));
  await begun.promise;
  t.equal((await fetch(`${fixture.url}/health`)).status, 200);
  t.notOk(fixture.facilitator.requests.includes('/settle'), 'not with the head, not with a role');
  held.resolve();
  const { response } = await asked;
  t.equal(response.status, 200);
  t.ok(response.headers.get('payment-response'));
  await until('it is charged', async () => (await fixture.ledger.usage({ by: [] }))[0]?.requests === 1n);
  await response.body?.cancel();
  t.equal(await credit(fixture), 0n);
  t.match(await fixture.ledger.audit(), { sound: true });
});

t.test('what was paid and could not be handed over is credit, and serves the same request once', async (t) => {
  let isBroken = true;
  const sockets: RawRequest['socket'][] = [];
  const fixture = await open(t, {
    breaking: ({ socket }) => {
      sockets.push(socket);
      if (isBroken) socket.write(chunkedHead(EVENTS) + chunk(delta('lost')).toString());
      else stream(delta('hi'), 'data: [DONE]\n\n')({ socket } as RawRequest);
    },
  });
  const gate = Promise.withResolvers<void>();
  fixture.facilitator.faults.push({ path: '/settle', fault: gate.promise });
  const body = chat('breaking', { stream: true });
  const asked = fixture.pay('/v1/chat/completions', body);
  await until('the money is asked for', () => fixture.facilitator.requests.includes('/settle'));
  for (const socket of sockets) socket.destroy();
  gate.resolve();
  const { payment, response } = await asked;
  t.equal(response.status, 503);
  t.ok(response.headers.get('payment-response'), 'with the receipt');
  const [transfer] = fixture.facilitator.transfers;
  const price = (transfer?.value ?? 0n) * PICO_PER_UNIT;
  await until('it is credit', async () => (await credit(fixture)) === price);
  isBroken = false;
  await until('the server is back', async () => {
    const again = await fixture.pay('/v1/chat/completions', body, payment);
    const text = await again.response.text();
    return again.response.status === 200 && text.includes('[DONE]');
  });
  await until('the credit is spent', async () => (await credit(fixture)) === 0n);
  t.equal((await fixture.pay('/v1/chat/completions', body, payment)).response.status, 402);
  t.equal(fixture.facilitator.transfers.length, 1);
  t.match(await fixture.ledger.audit(), { sound: true });
});

t.test(
  'the price is that of the prompt with its tools, within the context, and of the output that is allowed',
  async (t) => {
    const bodies: Record<string, unknown>[] = [];
    const fixture = await open(t, {
      m: ({ body, socket }) => {
        bodies.push(JSON.parse(body.toString()) as Record<string, unknown>);
        const text = '{"choices":[{"index":0,"finish_reason":"stop","message":{"role":"assistant","content":"hi"}}]}';
        socket.write(answer('200 OK', text, JSON_TYPE));
      },
    });
    const path = '/v1/chat/completions';
    const units = (prompt: number, completion: number): number =>
      Math.ceil((prompt * PROMPT + completion * COMPLETION) * 1e6);
    const content = 'a'.repeat(4000);
    const messages = [{ role: 'user', content }];
    const plain = await fixture.offered(path, { model: 'm', max_tokens: 2000, messages });
    const least = units(1000, 2000);
    t.ok(plain >= least && plain <= least + units(100, 0), `${plain} units for 1,000 and 2,000 tokens`);
    const tools = [{ type: 'function', function: { name: 'f', description: 'b'.repeat(8000) } }];
    const withTools = await fixture.offered(path, { model: 'm', max_tokens: 2000, messages, tools });
    t.ok(withTools >= plain + units(2000, 0) && withTools <= plain + units(2100, 0), 'tools are a part of the prompt');
    const three = await fixture.offered(path, { model: 'm', max_tokens: 2000, messages, n: 3 });
    t.equal(three, plain + units(0, 4000));
    const photo = [
      { role: 'user', content: [{ type: 'image_url', image_url: { url: `data:${'A'.repeat(1_500_000)}` } }] },
    ];
    const seen = await fixture.offered(path, { model: 'm', max_tokens: 2000, messages: photo });
    t.ok(seen <= units(8192, 2000), 'no prompt is longer than the context');
    const assumed = { model: 'm', messages };
    const offered = await fixture.offered(path, assumed);
    t.ok(offered >= units(1000, 1024) && offered <= units(1100, 1024), 'without a limit, payments.assumedTokens');
    t.equal((await fixture.pay(path, assumed)).response.status, 200);
    t.equal(bodies.at(-1)?.['max_tokens'], 1024, 'and the server may give no more');
    t.equal((await fixture.pay(path, { model: 'm', max_tokens: 2000, messages })).response.status, 200);
    t.equal(bodies.at(-1)?.['max_tokens'], 2000);
  },
);
