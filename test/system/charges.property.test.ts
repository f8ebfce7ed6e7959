// What is charged, over random requests to a real gateway whose servers are honest, lie about usage, fail or break off, while clients
// stay or leave, many at once, and some of which speak chat completions alone: no prepaid balance falls below zero, nothing is charged that was not delivered, and where usage is
// honest and the credit is enough the charge is the truth to the pico-USD.

import { randomInt } from 'node:crypto';
import t from 'tap';
import { type Ledger } from '../../src/billing/index.ts';
import { bearer, endow, PRICING, priceOf, startLedgerFixture, USD } from '../support/ledger-fixture.ts';
import { Random } from '../support/random.ts';
import {
  type ApiPath,
  BREAKS,
  type CrnScript,
  FAILURES,
  LIES,
  ScriptedCrns,
  type Step,
  UNCOUNTED,
} from '../support/scripted-crn.ts';
import { until } from '../support/system.ts';

/** Models with the same prices, by what their requests meet, so that usage tells their charges apart. */
type Kind = 'honest' | 'nothing' | 'odd' | 'uncounted';

const PATHS: readonly ApiPath[] = [
  '/v1/chat/completions',
  '/v1/completions',
  '/v1/responses',
  '/v1/messages',
  '/completions',
];
const CRNS = 4;
/** CRNs for which requests of the messages and the responses dialect are translated. */
const CHAT_ONLY = 2;
const CONTEXT = 4000;

interface Ask {
  readonly id: string;
  readonly account: string;
  readonly kind: Kind;
  readonly path: ApiPath;
  readonly body: string;
  readonly script: CrnScript;
  /** Bytes of the answer after which the client leaves; Infinity: never. */
  readonly leavesAt: number;
}

const LIMIT_NAMES: Readonly<Record<ApiPath, readonly string[]>> = {
  '/v1/chat/completions': ['max_tokens', 'max_completion_tokens'],
  '/v1/completions': ['max_tokens'],
  '/v1/responses': ['max_output_tokens'],
  '/v1/messages': ['max_tokens'],
  '/completions': ['n_predict'],
};

function conversation(path: ApiPath, text: string): object {
  if (path === '/v1/responses') return { input: text };
  if (path === '/v1/completions' || path === '/completions') return { prompt: text };
  return { messages: [{ role: 'user', content: text }] };
}

function randomAsk(random: Random, id: string, account: string, kind: Kind): Ask {
  const path = random.pick(PATHS);
  const steps: Step[] = [];
  const failed = kind === 'nothing' ? CRNS : random.chance(0.3) ? 1 + random.below(2) : 0;
  for (let at = 0; at < failed; at++) steps.push(random.pick(FAILURES));
  const hasEnd = kind !== 'nothing';
  const ends = kind === 'uncounted' ? UNCOUNTED : ([...LIES, ...BREAKS, 'honest'] as const);
  if (hasEnd) steps.push(kind === 'honest' ? 'honest' : random.pick<Step>(ends));
  const choices = path.startsWith('/v1/c') && random.chance(0.2) ? { n: 2 + random.below(2) } : {};
  const limit = random.pick([undefined, 5, 40, 200, 2000, '30', -1, null]);
  const isSent = limit !== undefined;
  const body = JSON.stringify({
    model: kind,
    stream: random.chance(0.6),
    ...conversation(path, 'x'.repeat(random.below(800))),
    ...choices,
    ...(isSent && { [random.pick(LIMIT_NAMES[path])]: limit }),
    ...(random.chance(0.1) && { n_predict: 1_000_000 }),
  });
  const prompt = 1 + random.below(Math.floor(body.length / 2));
  const script: CrnScript = { steps, words: random.below(300) + 1, prompt, cached: random.below(prompt) };
  const leavesAt = kind === 'odd' && random.chance(0.3) ? random.below(4000) : Infinity;
  return { id, account, kind, path, body, script, leavesAt };
}

/** Codes of refusals, by request id. */
const errors = new Map<string, string>();

/** Sends a request and reads its answer to the end, or until it leaves. Returns the status; 0 when it left or the answer broke. */
async function send(url: string, { account, body, id, leavesAt, path, script }: Ask): Promise<number> {
  const leaving = new AbortController();
  try {
    const response = await fetch(url + path, {
      method: 'POST',
      headers: {
        ...bearer(`hr_${account}`),
        'content-type': 'application/json',
        'x-request-id': id,
        'x-script': JSON.stringify(script),
      },
      body,
      signal: leaving.signal,
    });
    errors.set(id, response.headers.get('x-headrace-error') ?? '');
    let bytes = 0;
    for await (const piece of response.body as ReadableStream<Uint8Array>) {
      bytes += piece.byteLength;
      if (bytes < leavesAt) continue;
      leaving.abort();
      return 0;
    }
    return response.status;
  } catch {
    return 0;
  }
}

interface Charged {
  readonly amount: bigint;
  readonly inputTokens: bigint;
  readonly outputTokens: bigint;
}

/** What was charged for each model. */
async function chargesOf(ledger: Ledger, account: string): Promise<Map<string, Charged>> {
  const rows = await ledger.usage({ account, by: ['model'] });
  return new Map(rows.map(({ model, ...charged }) => [model as string, charged]));
}

/** Answers that one request asks for. */
const MOST_ANSWERS = 3;

/** No text has more bytes in a token on average, whatever the gateway learns. */
const MOST_BYTES_PER_TOKEN = 12;

const ROUNDS = 8;
const REQUESTS = 24;

for (const threads of [0, 2])
  t.test(`${threads} threads: charges are the truth, or less, and never more than the credit`, async (t) => {
    const seed = randomInt(2 ** 32);
    t.comment(`seed ${seed}`);
    const random = new Random(seed);
    const crns = await ScriptedCrns.start(t, CRNS, CHAT_ONLY);
    const model = { servers: crns.urls, pricing: PRICING, context_length: CONTEXT };
    const fixture = await startLedgerFixture(t, {
      settings: {
        threads,
        models: { honest: model, nothing: model, odd: model, uncounted: model },
        // Servers that fail on purpose are not to be ejected, and all attempts are allowed.
        ejection: { consecutive: 1_000_000, errorRate: 1, minRequests: 1_000_000 },
        routing: { retryBudget: 1, retryBurst: 100_000, hedge: true, hedgeShare: 1, continue: 'prefill' },
        timeouts: { firstByte: '500ms', idle: '500ms' },
        // Comments of the gateway commit streams that have not begun.
        streamKeepAlive: '200ms',
        credit: { assumedTokens: 500 },
      },
    });
    const { ledger, url } = fixture;
    const credits = Array.from({ length: ROUNDS }, (_, round) => {
      return round % 2 === 0 ? USD : BigInt(random.below(5_000_000)) * 1000n;
    });
    for (const [round, credit] of credits.entries()) await endow(ledger, credit, {}, `account-${round}`);
    const known = (): Promise<Response> =>
      fetch(`${url}/svc/auth/check`, { headers: bearer(`hr_account-${ROUNDS - 1}`) });
    await until('the keys are known', async () => (await known()).status === 200);

    const asks: Ask[] = [];
    const statuses = new Map<string, number>();
    const kinds = ['honest', 'honest', 'nothing', 'odd', 'odd', 'uncounted'] as const;
    const round = async (account: string): Promise<void> => {
      const mine = Array.from({ length: REQUESTS }, (_, at) =>
        randomAsk(random, `${account}-${at}`, account, random.pick(kinds)),
      );
      asks.push(...mine);
      const left = mine.values();
      const client = async (): Promise<void> => {
        for (const ask of left) statuses.set(ask.id, await send(url, ask));
      };
      await Promise.all(Array.from({ length: random.pick([1, 4, REQUESTS]) }, client));
    };
    await Promise.all(credits.map((_, at) => round(`account-${at}`)));
    await fixture.gateway.close();

    let served = 0;
    for (const [at, credit] of credits.entries()) {
      const account = `account-${at}`;
      const charges = await chargesOf(ledger, account);
      const state = await ledger.account(account);
      const sum = [...charges.values()].reduce((total, { amount }) => total + amount, 0n);
      const balance = state?.balance ?? -1n;
      t.ok(balance >= 0n, `${account}: ${balance} of ${credit} is left`);
      t.equal(balance, credit - sum, `${account}: what was charged is what is missing`);
      t.equal(state?.held, 0n, `${account}: nothing is held any more`);
      t.equal(charges.get('nothing')?.amount ?? 0n, 0n, `${account}: what was not delivered costs nothing`);
      let truth = 0n;
      let refused = 0;
      let uncounted = 0;
      let mostOutput = 0;
      for (const { id, kind } of asks.filter((ask) => ask.account === account)) {
        const status = statuses.get(id);
        if (kind === 'odd') mostOutput += Math.min(crns.limits.get(id) ?? CONTEXT, CONTEXT) * MOST_ANSWERS;
        if (kind === 'uncounted' && status === 200) {
          uncounted += Math.floor((crns.uncounted.get(id) ?? 0) / MOST_BYTES_PER_TOKEN);
        }
        if (kind !== 'honest') continue;
        const told = crns.truths.get(id);
        if (status === 200 && told !== undefined) {
          truth += priceOf(told.prompt, told.cached, told.completion);
          served++;
        } else if (errors.get(id)?.startsWith('HR_CREDIT') === true) {
          refused++;
        }
      }
      if (credit === USD) t.equal(refused, 0, `${account}: nobody is refused who has credit enough`);
      const { inputTokens = 0n, outputTokens = 0n } = charges.get('odd') ?? {};
      t.ok(outputTokens <= mostOutput, `${account}: ${outputTokens} of at most ${mostOutput} tokens were generated`);
      t.ok(inputTokens <= REQUESTS * CONTEXT, `${account}: ${inputTokens} tokens of prompts`);
      const estimated = charges.get('uncounted')?.outputTokens ?? 0n;
      if (credit === USD)
        t.ok(estimated >= uncounted, `${account}: ${estimated} tokens of ${uncounted} that nobody counted`);
      const charged = charges.get('honest')?.amount ?? 0n;
      if (credit === USD) t.equal(charged, truth, `${account}: the charge is the truth`);
      else t.ok(charged <= truth, `${account}: ${charged} of ${truth} were charged`);
    }
    t.ok(served > 20, `${served} honest requests were served`);
    t.ok(crns.unknown > 0, 'requests were translated');
    t.match(await ledger.audit(), { sound: true });
  });

t.test('80 requests without a limit at once spend all of $0.10, and no more', async (t) => {
  const crns = await ScriptedCrns.start(t, 2);
  const credit = USD / 10n;
  const model = { servers: crns.urls, pricing: PRICING };
  const fixture = await startLedgerFixture(t, { settings: { models: { honest: model } } });
  await endow(fixture.ledger, credit, {}, 'many');
  const check = (): Promise<Response> => fetch(`${fixture.url}/svc/auth/check`, { headers: bearer('hr_many') });
  await until('the key is known', async () => (await check()).status === 200);
  const script: CrnScript = { steps: ['honest'], words: 5000, prompt: 1, cached: 0 };
  const body = JSON.stringify({ model: 'honest', ...conversation('/v1/chat/completions', 'hi') });
  const path = '/v1/chat/completions';
  const asks = Array.from({ length: 80 }, (_, at): Ask => {
    return { id: `many-${at}`, account: 'many', kind: 'honest', path, body, script, leavesAt: Infinity };
  });
  const statuses = await Promise.all(asks.map((ask) => send(fixture.url, ask)));
  await fixture.gateway.close();
  const balance = (await fixture.ledger.account('many'))?.balance ?? -1n;
  const served = asks.filter((_, at) => statuses[at] === 200);
  let truth = 0n;
  for (const { id } of served) {
    const { cached, completion, prompt } = crns.truths.get(id) ?? { cached: 0, completion: 0, prompt: 0 };
    truth += priceOf(prompt, cached, completion);
  }
  t.ok(balance >= 0n, `${balance} is left`);
  t.equal(balance, credit - truth, `${served.length} answers are charged, each for what it is`);
  t.ok(served.length >= 13, 'credit for at least thirteen of 5,000 tokens');
  t.same(
    statuses.filter((status) => status !== 200 && status !== 402 && status !== 503),
    [],
  );
});

t.test('what was held for requests without an answer is there for the next', async (t) => {
  const crns = await ScriptedCrns.start(t, 1);
  const model = { servers: crns.urls, pricing: PRICING };
  const fixture = await startLedgerFixture(t, {
    settings: {
      models: { nothing: model, honest: model },
      ejection: { consecutive: 1_000_000, minRequests: 1_000_000 },
    },
  });
  // Less than a request without a limit may cost: each of them holds all of it.
  await endow(fixture.ledger, USD / 1000n, {}, 'small');
  const check = (): Promise<Response> => fetch(`${fixture.url}/svc/auth/check`, { headers: bearer('hr_small') });
  await until('the key is known', async () => (await check()).status === 200);
  const path = '/v1/chat/completions';
  const ask = (at: number, kind: Kind, step: Step): Promise<number> => {
    const body = JSON.stringify({ model: kind, ...conversation(path, 'hi') });
    const script: CrnScript = { steps: [step], words: 5, prompt: 1, cached: 0 };
    return send(fixture.url, { id: `small-${at}`, account: 'small', kind, path, body, script, leavesAt: Infinity });
  };
  for (let at = 0; at < 5; at++) {
    await ask(at, 'nothing', 'error 500');
    t.notMatch(errors.get(`small-${at}`), /^HR_CREDIT/);
  }
  t.equal(await ask(5, 'honest', 'honest'), 200);
  const [first, last] = ['small-0', 'small-5'].map((id) => crns.limits.get(id));
  t.equal(last, first, 'it may be as long as the first');
});
