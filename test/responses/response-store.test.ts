// The actor between threads and the store: what waits is found, what the store refuses does not stop the rest, a store that is away is tried
// again, and the queue is bounded.

import { setImmediate } from 'node:timers/promises';
import t, { type Test } from 'tap';
import { createSystem, systemClock } from '../../src/actor/index.ts';
import { createManualClock } from '../../src/actor/testkit.ts';
import type { Ledger, ResponseChange, ResponseRecord, ResponseRecords } from '../../src/billing/index.ts';
import { openLedger } from '../../src/billing/main-thread.ts';
import { HeadraceError } from '../../src/errors.ts';
import { createResponseMemory, type Followed, responseStore } from '../../src/responses/response-store.ts';
import { type ItemReader, StoredResponses } from '../../src/responses/stored-responses.ts';
import { ResponseMetrics } from '../../src/telemetry/response-metrics.ts';
import { valuesOf } from '../support/metric-values.ts';

const SETTINGS = { ttlMs: 1e9, accountBytes: 1e9, background: 1, backgroundPerAccount: 1 };

function record(id: string, previous: string | null = null, more: Partial<ResponseRecord> = {}): ResponseRecord {
  return {
    ...{ account: 'a', id, createdMs: 1, status: 'completed', model: 'm', previous, items: [] },
    ...{ input: `["in ${id}"]`, output: `["out ${id}"]`, response: `{"id":"${id}","output":null}` },
    ...more,
  };
}

/** What SQLite throws while its file is locked. */
function away(): Error {
  return Object.assign(new Error('database is locked'), { errcode: 5 });
}

function queued(id: string): ResponseRecord {
  return record(id, null, { status: 'queued', output: '[]' });
}

interface Fixture {
  readonly store: StoredResponses;
  readonly ledger: Ledger;
  readonly problems: string[];
  /** Problems that are over. */
  readonly over: string[];
  /** Each batch of changes is given to it first; a throw fails the transaction. */
  onApply: ((changes: readonly ResponseChange[]) => void | Promise<void>) | null;
  isOpen: boolean;
  /** Events are read, and their reader has them when it opens. */
  gate: Promise<void> | null;
  /** How often a response was read. */
  finds: number;
  /** Called before each time. */
  onFind: ((account: string) => void | Promise<void>) | null;
  /** How often the state of one was. */
  states: number;
  /** Of how many responses items were read at a time. */
  readonly reads: number[];
  readonly count: (name: string, label?: string) => number;
  readonly settle: (turns?: number) => Promise<void>;
  /** The outcome of a question while time passes. */
  readonly ask: <T>(question: Promise<T>) => Promise<Awaited<T> | string>;
}

async function startStore(t: Pick<Test, 'teardown'>, settings = SETTINGS, isShared = false): Promise<Fixture> {
  const clock = createManualClock();
  const system = createSystem({ name: 'store', clock });
  const ledger = await openLedger(':memory:', { clock: systemClock, dateMs: () => 1e12, lingerMs: 0 });
  t.teardown(async () => {
    await system.terminate();
    await ledger.close();
  });
  const metrics = new ResponseMetrics();
  const memory = createResponseMemory();
  const problems: string[] = [];
  const over: string[] = [];
  const { responses } = ledger;
  const watched: ResponseRecords = {
    apply: async (changes) => {
      await fixture.onApply?.(changes);
      return await responses.apply(changes);
    },
    find: async (key) => {
      fixture.finds++;
      await fixture.onFind?.(key.account);
      return await responses.find(key);
    },
    state: (key) => {
      fixture.states++;
      return responses.state(key);
    },
    input: (key) => responses.input(key),
    conversation: (key, most) => responses.conversation(key, most),
    holders: (account, items) => responses.holders(account, items),
    items: (account, ids, wantsInput) => {
      fixture.reads.push(ids.length);
      return responses.items(account, ids, wantsInput);
    },
    eventsAfter: async (key, after, rows) => {
      const found = await responses.eventsAfter(key, after, rows);
      await fixture.gate;
      return found;
    },
    isAway: (error) => responses.isAway(error),
    lastEvent: (key) => responses.lastEvent(key),
    renew: (holder, leaseMs, ttlMs) => responses.renew(holder, leaseMs, ttlMs),
    lost: (limit) => responses.lost(limit),
    prune: () => responses.prune(),
    evict: (account, mostBytes) => responses.evict(account, mostBytes),
    deleteAccount: (account) => responses.deleteAccount(account),
    counts: (account) => responses.counts(account),
  };
  const ref = system.spawn(
    responseStore({
      ...{ memory, settings, metrics, holder: 'h', isShared },
      ledger: () => (fixture.isOpen ? { responses: watched, dateMs: () => ledger.dateMs() } : null),
      onProblem: (_, what) => problems.push(what),
      onOver: (what) => over.push(what),
    }),
  );
  const settle = async (turns = 8): Promise<void> => {
    for (let turn = 0; turn < turns; turn++) {
      clock.advance(25);
      await setImmediate();
    }
  };
  const fixture: Fixture = {
    store: new StoredResponses({ system, ref, memory, thread: 0 }),
    ...{
      ledger,
      over,
      problems,
      onApply: null,
      isOpen: true,
      gate: null,
      finds: 0,
      onFind: null,
      states: 0,
      reads: [],
      settle,
    },
    count: (name, label = '') =>
      valuesOf(metrics.snapshot(), name).find(({ labels }) => label === '' || Object.values(labels).includes(label))
        ?.value ?? 0,
    ask: async <T>(question: Promise<T>) => {
      let outcome: { readonly value: Awaited<T> | string } | undefined;
      question.then(
        (value) => (outcome = { value: value as Awaited<T> }),
        (error: { code?: string }) => (outcome = { value: error.code ?? 'no code' }),
      );
      for (let turn = 0; turn < 1000 && outcome === undefined; turn++) await settle(1);
      return outcome?.value ?? 'no answer';
    },
  };
  return fixture;
}

const READER: ItemReader = { reserve: () => undefined, isGone: false };

const resolving = (previous: string): Parameters<StoredResponses['resolve']>[0] => ({
  ...{ account: 'a', previous, items: [], bytes: 1e6 },
});

t.test('a conversation is found while all, some or none of it waits for the store', async (t) => {
  const { ask, ledger, settle, store } = await startStore(t);
  store.put(record('r1'));
  store.put(record('r2', 'r1'));
  const parts = [
    { input: '["in r1"]', output: '["out r1"]' },
    { input: '["in r2"]', output: '["out r2"]' },
  ];
  t.same(await ask(store.resolve(resolving('r2'), READER)), { kind: 'found', parts, items: {} });
  await settle();
  t.equal((await ledger.responses.counts()).responses, 2);
  store.put(record('r3', 'r2'));
  t.match(await ask(store.resolve(resolving('r3'), READER)), { parts: [...parts, { input: '["in r3"]' }] });
  store.put(record('r9', 'gone'));
  t.match(await ask(store.resolve(resolving('r9'), READER)), { kind: 'broken' });
  t.match(await ask(store.resolve(resolving('nobody'), READER)), { kind: 'unknown' });
  t.match(await ask(store.resolve({ ...resolving('r3'), bytes: 30 }, READER)), { kind: 'long' });
  t.match(await ask(store.resolve({ ...resolving('r3'), account: 'b' }, READER)), { kind: 'unknown' });
  t.match(await ask(store.find({ account: 'a', id: 'r3' })), { id: 'r3', isBackground: false });
});

t.test('a long conversation is read some responses at a time, when there is memory for it', async (t) => {
  const { ask, ledger, reads, store } = await startStore(t);
  const text = JSON.stringify(['x'.repeat(300_000)]);
  const turns = Array.from({ length: 700 }, (_, at) =>
    record(`r${at}`, at === 0 ? null : `r${at - 1}`, at < 9 ? { input: text } : {}),
  );
  await ledger.responses.apply(turns.map((turn) => ({ type: 'add', record: turn, ttlMs: 1e9 })));
  let reserved = 0;
  const reader = { reserve: (bytes: number) => void (reserved = bytes), isGone: false };
  const long = { ...resolving('r699'), bytes: 1e7 };
  const found = await ask(store.resolve(long, reader));
  const parts = turns.map(({ input, output }) => ({ input, output }));
  t.same(found, { kind: 'found', parts, items: {} });
  t.same(reads, [3, 3, 500, 194]);
  t.equal(
    reserved,
    parts.reduce((sum, { input, output }) => sum + input.length + output.length, 0),
  );
  reads.length = 0;
  const refused = store.resolve(long, {
    ...reader,
    reserve: () => {
      throw new HeadraceError('HR_OVERLOADED');
    },
  });
  t.equal(await ask(refused), 'HR_OVERLOADED');
  t.equal(await ask(store.resolve(long, { ...reader, isGone: true }).then(String)), 'null');
  t.same(reads, [], 'nothing is read for it');
});

t.test('items that a request names are read from the outputs that have them', async (t) => {
  const { ask, ledger, reads, store } = await startStore(t);
  const made = (id: string): ResponseRecord =>
    record(id, null, { output: `[{"id":"msg_${id}"},{"id":"other_${id}"}]`, items: [`msg_${id}`, `other_${id}`] });
  const written = ['r1', 'r2'].map((id) => ({ type: 'add', record: made(id), ttlMs: 1e9 }) as const);
  await ledger.responses.apply(written);
  for (const id of ['r3', 'r4']) store.put(made(id));
  const named = { account: 'a', previous: null, items: ['msg_r1', 'msg_r3', 'msg_r9'], bytes: 1e6 };
  t.same(await ask(store.resolve(named, READER)), {
    ...{ kind: 'found', parts: [] },
    items: { msg_r1: '{"id":"msg_r1"}', msg_r3: '{"id":"msg_r3"}' },
  });
  t.same(reads, [1]);
  t.same(await ask(store.resolve({ ...named, bytes: 50 }, READER)), { kind: 'long' });
  t.same(await ask(store.resolve({ ...named, account: 'b' }, READER)), { kind: 'found', parts: [], items: {} });
});

t.test('a conversation of which a part is deleted while it is read is broken', async (t) => {
  const { ask, ledger, store } = await startStore(t);
  const turns = [record('r1'), record('r2', 'r1')];
  await ledger.responses.apply(turns.map((turn) => ({ type: 'add', record: turn, ttlMs: 1e9 })));
  let deleted: Promise<unknown> | undefined;
  const reserve = (): void => {
    deleted = ledger.responses.apply([{ type: 'delete', key: record('r1'), createdMs: null }]);
  };
  t.same(await ask(store.resolve(resolving('r2'), { reserve, isGone: false })), { kind: 'broken' });
  t.same(await deleted, [true]);
});

t.test('what was not delivered is not kept', async (t) => {
  const { ask, settle, store } = await startStore(t);
  store.put(record('r1'));
  store.forget(record('r1'));
  await settle();
  t.equal(await ask(store.find({ account: 'a', id: 'r1' })), 'HR_RESPONSE_UNKNOWN');
  store.put(record('r2'));
  await settle();
  store.forget(record('r2'));
  await settle();
  t.equal(await ask(store.find({ account: 'a', id: 'r2' })), 'HR_RESPONSE_UNKNOWN');
});

t.test('an undelivered response does not take another one of its id with it', async (t) => {
  const { ask, settle, store } = await startStore(t);
  store.put(record('r1'));
  await settle();
  const second = record('r1', null, { createdMs: 2, output: '["of a server that gives ids twice"]' });
  store.put(second);
  store.forget(second);
  await settle();
  t.match(await ask(store.find({ account: 'a', id: 'r1' })), { output: '["out r1"]' });
  store.forget(record('r1'));
  await settle();
  t.equal(await ask(store.find({ account: 'a', id: 'r1' })), 'HR_RESPONSE_UNKNOWN');
});

t.test('one response that the store refuses does not keep others from it', async (t) => {
  const fixture = await startStore(t);
  const { ask, count, settle, store } = fixture;
  fixture.onApply = (changes) => {
    if (changes.some((change) => change.type === 'add' && change.record.id === 'bad')) throw new Error('bad text');
  };
  for (const id of ['r1', 'bad', 'r2']) store.put(record(id));
  await settle();
  t.equal(count('headrace_responses_stored_total'), 2);
  t.equal(count('headrace_responses_not_stored_total', 'refused'), 1);
  t.match(await ask(store.find({ account: 'a', id: 'r2' })), { id: 'r2' });
  store.put(record('r1'));
  await settle();
  t.equal(count('headrace_responses_not_stored_total', 'taken'), 1, 'an id is given once');
  store.put(record('r3'));
  store.put(record('r3'));
  await settle();
  t.equal(count('headrace_responses_not_stored_total', 'taken'), 2, 'also while the first one waits');
});

t.test('a store that is away is tried again; reads say so', async (t) => {
  const fixture = await startStore(t);
  const { ask, count, ledger, problems, settle, store } = fixture;
  fixture.isOpen = false;
  store.put(record('r1'));
  t.match(await ask(store.find({ account: 'a', id: 'r1' })), { id: 'r1' }, 'what waits is found all the same');
  t.equal(await ask(store.find({ account: 'a', id: 'other' })), 'HR_RESPONSE_UNAVAILABLE');
  t.equal(await ask(store.resolve(resolving('other'), READER)), 'HR_RESPONSE_UNAVAILABLE');
  t.equal(await ask(store.begin(record('b'), false, () => undefined)), 'HR_RESPONSE_UNAVAILABLE');
  fixture.isOpen = true;
  await settle(50);
  t.equal((await ledger.responses.counts()).responses, 1);
  let isAway = true;
  fixture.onApply = () => {
    if (isAway) throw away();
  };
  for (let at = 2; at <= 5; at++) store.put(record(`r${at}`));
  await settle(800);
  t.equal(await ask(store.begin(queued('b'), false, () => undefined)), 'HR_RESPONSE_UNAVAILABLE', 'at once');
  isAway = false;
  await settle(50);
  t.equal((await ledger.responses.counts()).responses, 5, 'nothing is lost in twenty seconds');
  t.equal(count('headrace_responses_stored_total'), 5);
  t.equal(problems.filter((problem) => problem.startsWith('responses could not be stored')).length, 1, problems.join());
  store.put(record('r6'));
  await settle(250);
  store.put(record('r7'));
  await settle();
  t.match(fixture.over, [/^it works again: responses could not be stored; it is tried again, \d+ times$/]);
});

t.test('a change that a store refuses each time, as if it were away, does not keep others back', async (t) => {
  const fixture = await startStore(t);
  const { count, ledger, settle, store } = fixture;
  fixture.onApply = (changes) => {
    if (changes.some((change) => change.type === 'add' && change.record.id === 'huge')) throw away();
  };
  store.put(record('huge'));
  await settle(100);
  t.equal(count('headrace_responses_not_stored_total'), 0, 'alone it is tried again');
  store.put(record('r2'));
  await settle(100);
  t.equal((await ledger.responses.counts()).responses, 1);
  t.equal(count('headrace_responses_not_stored_total', 'refused'), 1);
});

t.test('a background response of this gateway outlives its lease', async (t) => {
  const { ask, ledger, settle, store } = await startStore(t);
  await ask(store.begin(queued('b'), false, () => t.fail('nobody has cancelled it')));
  await ledger.responses.renew('h', -1, 1e9);
  t.match(await ask(store.find({ account: 'a', id: 'b' })), { status: 'queued', isLost: true });
  await settle(700);
  t.match(await ask(store.find({ account: 'a', id: 'b' })), { status: 'queued', isLost: false }, 'it is renewed');
});

t.test('after the store was away other gateways have time to renew what they run', async (t) => {
  const fixture = await startStore(t);
  const { ask, ledger, settle, store } = fixture;
  const begin = { type: 'begin', ttlMs: 1e9, holder: 'other', leaseMs: -1, hasEvents: false } as const;
  await ledger.responses.apply([
    { ...begin, record: queued('alive') },
    { ...begin, record: queued('gone') },
  ]);
  fixture.isOpen = false;
  t.equal(await ask(store.find({ account: 'a', id: 'alive' })), 'HR_RESPONSE_UNAVAILABLE');
  fixture.isOpen = true;
  for (const id of ['alive', 'gone']) t.match(await ask(store.find({ account: 'a', id })), { status: 'queued' });
  await settle(600);
  t.match(await ask(store.find({ account: 'a', id: 'gone' })), { status: 'queued' }, 'nor is it looked for meanwhile');
  await ledger.responses.renew('other', 60_000, 1e9);
  await ledger.responses.apply([{ ...begin, record: queued('late') }]);
  await settle(400);
  t.match(await ask(store.find({ account: 'a', id: 'alive' })), { status: 'queued', isLost: false });
  t.match(await ask(store.find({ account: 'a', id: 'late' })), { status: 'failed' });
});

t.test('a gateway that begins while the store is away takes nobody for gone when it opens', async (t) => {
  const fixture = await startStore(t);
  const { ask, ledger, settle, store } = fixture;
  fixture.isOpen = false;
  const begin = { type: 'begin', ttlMs: 1e9, holder: 'other', leaseMs: -1, hasEvents: false } as const;
  await ledger.responses.apply([{ ...begin, record: queued('alive') }]);
  // Shorter than the interval at which lost responses are looked for.
  await settle(200);
  fixture.isOpen = true;
  t.match(await ask(store.find({ account: 'a', id: 'alive' })), { status: 'queued' });
});

t.test('a question that the store cannot answer does not keep responses of gateways that are gone alive', async (t) => {
  const { ask, ledger, store } = await startStore(t);
  const begin = { type: 'begin', ttlMs: 1e9, holder: 'other', leaseMs: -1, hasEvents: false } as const;
  await ledger.responses.apply([
    { type: 'add', record: record('r1'), ttlMs: 1e9 },
    { ...begin, record: queued('gone') },
  ]);
  t.equal(await ask(store.follow({ account: 'a', id: 'r1' }, 1e20, true)), 'HR_RESPONSE_UNAVAILABLE');
  t.match(await ask(store.find({ account: 'a', id: 'gone' })), { status: 'failed' });
});

t.test('a background response that begins after its client has given up does not keep its place', async (t) => {
  const fixture = await startStore(t);
  const { ask, ledger, settle, store } = fixture;
  let free: (() => void) | undefined;
  fixture.onApply = () => {
    fixture.onApply = null;
    return new Promise<void>((resolve) => (free = resolve));
  };
  t.equal(await ask(store.begin(queued('b1'), false, () => undefined)), 'HR_RESPONSE_UNAVAILABLE');
  free?.();
  await settle(400);
  t.equal((await ledger.responses.counts()).responses, 0);
  await ask(store.begin(queued('b2'), false, () => undefined));
  t.match(await ask(store.find({ account: 'a', id: 'b2' })), { status: 'queued' });
});

t.test('a background response whose end the store has refused is failed', async (t) => {
  const fixture = await startStore(t, { ...SETTINGS, background: 2, backgroundPerAccount: 2 });
  const { ask, settle, store } = fixture;
  const isEnd = ({ type }: ResponseChange): boolean => type === 'end';
  await ask(store.begin(queued('long'), false, () => undefined));
  await ask(store.begin(queued('lost'), false, () => undefined));
  let failures = 2;
  fixture.onApply = (changes) => {
    if (changes.some(isEnd) && failures-- > 0) throw new TypeError('it cannot be written');
  };
  const told: boolean[] = [];
  const end = { account: 'a', id: 'lost', status: 'completed', output: '[]', response: '{}', items: [] } as const;
  store.end(end, (counts) => told.push(counts));
  await settle(800);
  t.same(told, [false]);
  t.match(await ask(store.find({ account: 'a', id: 'lost' })), { status: 'failed' });
  t.match(await ask(store.find({ account: 'a', id: 'long' })), { status: 'queued' });
  store.end({ ...end, id: 'long' }, (counts) => told.push(counts));
  await settle();
  store.end({ ...end, id: 'long' }, (counts) => told.push(counts));
  store.close();
  await settle();
  t.same(told, [false, true, true], 'a thread that ends hears nothing more');
});

t.test('a background response is read as it was while the store does not take its end', async (t) => {
  const fixture = await startStore(t);
  const { ask, settle, store } = fixture;
  const key = { account: 'a', id: 'b1' };
  await ask(store.begin(queued('b1'), false, () => undefined));
  let isAway = true;
  fixture.onApply = () => {
    if (isAway) throw away();
  };
  store.end({ ...key, status: 'completed', output: '[]', response: '{}', items: [] }, () => undefined);
  await settle(20);
  t.match(await ask(store.find(key)), { status: 'queued' });
  isAway = false;
  await settle(250);
  t.match(await ask(store.find(key)), { status: 'completed' });
});

t.test('a background response begins and ends although the answers to both commits are lost', async (t) => {
  const fixture = await startStore(t);
  const { ask, count, ledger, settle, store } = fixture;
  const loseNext = (): void => {
    fixture.onApply = async (changes) => {
      fixture.onApply = null;
      await ledger.responses.apply(changes);
      throw away();
    };
  };
  loseNext();
  t.equal(await ask(store.begin(queued('b1'), false, () => undefined).then(() => 'begun')), 'begun');
  const told: boolean[] = [];
  const end = { account: 'a', id: 'b1', status: 'completed', output: '[]', response: '{}', items: [] } as const;
  loseNext();
  store.end(end, (counts) => told.push(counts));
  await settle(100);
  t.same(told, [true], 'so that it is charged');
  t.equal(count('headrace_responses_background_total', 'completed'), 1);
});

t.test('who polls or follows a response does not have its input read', async (t) => {
  const fixture = await startStore(t);
  const { ask, settle, store } = fixture;
  const key = { account: 'a', id: 'b1' };
  await ask(store.begin(queued('b1'), true, () => undefined));
  for (let first = 0; first < 5; first++) {
    store.events({ ...key, first, last: first, data: `${first}` });
    await settle();
    t.match(await ask(store.follow(key, first - 1, true)), { batches: [{ first }], ended: false });
  }
  t.match(await store.follow(key, 4, false), { batches: [], ended: false }, 'at once where it does not wait');
  t.equal(fixture.finds, 0, 'nor anything else that it holds');
  const found = await ask(store.find(key));
  t.match(found, { status: 'queued', response: '{"id":"b1","output":null}' });
  t.notOk('input' in (found as object));
  t.equal(await ask(store.inputOf(key)), '["in b1"]');
  store.put(record('r1'));
  t.equal(await ask(store.inputOf({ account: 'a', id: 'r1' })), '["in r1"]', 'also while it waits for the store');
  t.equal(await ask(store.inputOf({ account: 'b', id: 'r1' })), 'HR_RESPONSE_UNKNOWN');
});

t.test('accounts take turns in what is read', async (t) => {
  const fixture = await startStore(t);
  const { ask, ledger, settle, store } = fixture;
  const accounts = ['a', 'b'];
  const records = accounts.map((account) => record('r1', null, { account }));
  await ledger.responses.apply(records.map((one) => ({ type: 'add', record: one, ttlMs: 1e9 })));
  const read: string[] = [];
  let letOn = (): void => undefined;
  const held = new Promise<void>((resolve) => (letOn = resolve));
  fixture.onFind = (account) => {
    read.push(account);
    return held;
  };
  const find = (account: string): Promise<unknown> => store.find({ account, id: 'r1' });
  const found = [...Array.from({ length: 50 }, () => find('a')), find('b')];
  await settle();
  t.same(read, ['a', 'a', 'b'], 'one waits for two reads of another at most');
  const followed = store.follow({ account: 'a', id: 'r1' }, -1, false);
  await settle();
  t.equal(fixture.states, 0, 'who follows and is behind waits for a turn too');
  letOn();
  t.match(await ask(followed), { ended: true });
  t.match(
    await ask(Promise.all(found)),
    [...Array<string>(50).fill('a'), 'b'].map((account) => ({ account })),
  );
  const more = Array.from({ length: 1100 }, () => ask(find('a')));
  const refused = (await Promise.all(more)).filter((outcome) => outcome === 'HR_OVERLOADED');
  t.equal(refused.length, 1100 - 2 - 1000, 'what waits is bounded');
});

t.test('what is not there keeps no turn of its account while it is waited for', async (t) => {
  const { ask, settle, store } = await startStore(t, SETTINGS, true);
  const find = (id: string): Promise<unknown> => store.find({ account: 'a', id });
  const missing = Promise.allSettled(Array.from({ length: 10 }, (_, at) => find(`none${at}`)));
  let ended = false;
  void missing.then(() => (ended = true));
  const late = store.inputOf({ account: 'a', id: 'late' });
  await settle(1);
  for (const id of ['late', 'r1']) store.put(record(id));
  t.match(await ask(find('r1')), { id: 'r1' });
  t.equal(ended, false, 'it waited for none of them');
  t.equal(await ask(late), '["in late"]', 'what comes late is found');
  const unknown = { status: 'rejected', reason: { code: 'HR_RESPONSE_UNKNOWN' } };
  t.match(await ask(missing), Array<object>(10).fill(unknown));
});

t.test('one look at the store is for all that follow a response', async (t) => {
  const fixture = await startStore(t);
  const { ask, ledger, settle, store } = fixture;
  const begin = { type: 'begin', ttlMs: 1e9, leaseMs: 60_000, hasEvents: true, record: queued('theirs') } as const;
  await ledger.responses.apply([{ ...begin, holder: 'other' }]);
  await ask(store.begin(queued('own'), true, () => undefined));
  for (const id of ['own', 'theirs']) {
    const key = { account: 'a', id };
    const following = Promise.all(Array.from({ length: 50 }, () => store.follow(key, -1, true)));
    await settle();
    fixture.states = 0;
    const events = { ...key, first: 0, last: 0, data: '0' };
    if (id === 'own') store.events(events);
    else await ledger.responses.apply([{ type: 'events', events }]);
    const followed = await ask(following);
    t.match(
      followed,
      Array.from({ length: 50 }, () => ({ batches: [{ first: 0, data: '0' }] })),
    );
    t.ok(fixture.states <= 3, `${id}: ${fixture.states}`);
  }
});

t.test('an event that comes while its follower looks is not waited for', async (t) => {
  const fixture = await startStore(t);
  const { ask, settle, store } = fixture;
  const key = { account: 'a', id: 'b1' };
  await ask(store.begin(queued('b1'), true, () => undefined));
  const gate = Promise.withResolvers<void>();
  fixture.gate = gate.promise;
  const following = store.follow(key, -1, true);
  await settle(1);
  store.events({ ...key, first: 0, last: 0, data: '0' });
  fixture.gate = null;
  gate.resolve();
  let followed: unknown;
  void following.then((answer) => (followed = answer));
  await settle(20);
  t.match(followed, { batches: [{ first: 0, data: '0' }] }, 'half a second later, not ten');
});

t.test('events that wait behind the end that others gave a response are given to nobody', async (t) => {
  const fixture = await startStore(t);
  const { ask, ledger, settle, store } = fixture;
  const key = { account: 'a', id: 'b1' };
  const events = (first: number, last: number): void => store.events({ ...key, first, last, data: `${first}-${last}` });
  await ask(store.begin(queued('b1'), true, () => undefined));
  events(0, 1);
  await settle();
  const end = { ...key, status: 'cancelled', output: '[]', response: '{}', items: [] } as const;
  await ledger.responses.apply([{ type: 'end', end, holder: null, event: (number) => `end ${number}` }]);
  let free: (() => void) | undefined;
  fixture.onApply = () => new Promise<void>((resolve) => (free = resolve));
  events(2, 3);
  const last = { first: 2, last: 2, data: 'end 2' };
  t.match(await ask(store.follow(key, 1, true)), { batches: [last], kept: true, ended: false });
  t.match(await ask(store.follow(key, 2, true)), { batches: [last], kept: true, ended: true });
  free?.();
});

t.test('the queue is bounded: first responses are not recorded any more, then they are dropped', async (t) => {
  const fixture = await startStore(t);
  const { count, settle, store } = fixture;
  fixture.isOpen = false;
  const large = 'x'.repeat(4 * 1024 * 1024);
  t.equal(store.isOpen, true);
  for (let n = 0; n < 20; n++) store.put(record(`r${n}`, null, { output: `["${large}"]` }));
  await settle(1);
  t.equal(store.isOpen, false, 'answers say that they are not stored');
  t.equal(count('headrace_responses_not_stored_total', 'overflow'), 5);
  t.ok(count('headrace_responses_waiting_bytes') <= 64 * 1024 * 1024);
  fixture.isOpen = true;
  await settle(200);
  t.equal(store.isOpen, true);
  t.equal(count('headrace_responses_stored_total'), 15);
  t.equal(count('headrace_responses_waiting_bytes'), 0);
});

t.test('an account is bounded by all that its responses take: input, events, and bytes of any script', async (t) => {
  const { ask, count, ledger, settle, store } = await startStore(t, { ...SETTINGS, accountBytes: 64_000 });
  const text = '水'.repeat(5000);
  store.put(record('first', null, { input: `["${text}"]`, output: '[]', response: '{}' }));
  await settle();
  t.equal(count('headrace_responses_stored_bytes_total'), 15_008);
  for (const id of ['b1', 'b2', 'b3', 'b4', 'b5', 'b6', 'b7', 'b8']) {
    const isLarge = id < 'b5';
    const key = { account: 'a', id };
    await ask(store.begin({ ...queued(id), input: isLarge ? `["${text}"]` : '[]' }, true, () => undefined));
    store.events({ ...key, first: 0, last: 0, data: isLarge ? 'event' : text });
    store.end({ ...key, status: 'completed', output: '[]', response: '{}', items: [] }, () => undefined);
    await settle();
    const { bytes } = await ledger.responses.counts('a');
    t.ok(bytes <= 64_000, `${id}: ${bytes}`);
  }
});

t.test('the expiry of a conversation is moved when it goes on, and not at every turn', async (t) => {
  const fixture = await startStore(t);
  const { ask, ledger, settle, store } = fixture;
  await ledger.responses.apply([
    { type: 'add', record: record('old'), ttlMs: 1000 },
    { type: 'add', record: record('new', 'old'), ttlMs: 1e9 },
  ]);
  await ask(store.resolve(resolving('new'), READER));
  await settle();
  const links = await ledger.responses.conversation({ account: 'a', id: 'new' }, 10);
  t.same(
    links.map(({ expiresMs }) => expiresMs),
    [1e12 + 1e9, 1e12 + 1e9],
  );
  const touched: string[] = [];
  fixture.onApply = (changes) => void touched.push(...changes.map(({ type }) => type));
  await ask(store.resolve(resolving('new'), READER));
  await settle();
  t.same(touched, []);
});

t.test('conversations that go on while the store takes nothing wait to be kept once each', async (t) => {
  const fixture = await startStore(t);
  const { ask, ledger, settle, store } = fixture;
  await ledger.responses.apply([{ type: 'add', record: record('old'), ttlMs: 1000 }]);
  let isAway = true;
  const touched: string[] = [];
  fixture.onApply = (changes) => {
    if (isAway) throw away();
    touched.push(...changes.map(({ type }) => type));
  };
  for (let turn = 0; turn < 50; turn++) t.match(await ask(store.resolve(resolving('old'), READER)), { kind: 'found' });
  isAway = false;
  await settle(100);
  t.same(touched, ['touch']);
});

t.test('progress of background responses is dropped while much waits for the store', async (t) => {
  const fixture = await startStore(t);
  const { ask, count, settle, store } = fixture;
  await ask(store.begin(queued('b1'), false, () => undefined));
  fixture.onApply = () => {
    throw away();
  };
  const response = JSON.stringify({ instructions: 'x'.repeat(1024 * 1024) });
  for (let at = 0; at < 100; at++) store.progress({ account: 'a', id: 'b1' }, response);
  await settle();
  t.ok(count('headrace_responses_waiting_bytes') <= 64 * 1024 * 1024, `${count('headrace_responses_waiting_bytes')}`);
});

t.test('a deleted background response gives its place back, and tells its followers, at once', async (t) => {
  const { ask, store } = await startStore(t);
  const key = { account: 'a', id: 'b1' };
  let cancels = 0;
  await ask(store.begin(queued('b1'), true, () => cancels++));
  const following = ask(store.follow(key, -1, true));
  t.equal(await ask(store.remove(key).then(() => 'deleted')), 'deleted');
  t.equal(cancels, 1);
  t.equal(await ask(store.begin(queued('b2'), false, () => undefined).then(() => 'begun')), 'begun');
  t.equal(await following, 'HR_RESPONSE_UNKNOWN');
});

t.test('a background response runs on when the store cannot delete it', async (t) => {
  const fixture = await startStore(t);
  const { ask, settle, store } = fixture;
  const key = { account: 'a', id: 'b1' };
  await ask(store.begin(queued('b1'), true, () => t.fail('it was not deleted')));
  fixture.onApply = (changes) => {
    if (changes.some(({ type }) => type === 'delete')) throw new TypeError('it cannot be written');
  };
  t.equal(await ask(store.remove(key)), 'HR_RESPONSE_UNAVAILABLE');
  fixture.onApply = null;
  const told: boolean[] = [];
  store.end({ ...key, status: 'completed', output: '[1]', response: '{}', items: [] }, (counts) => told.push(counts));
  await settle();
  t.same(told, [true]);
  t.match(await ask(store.find(key)), { status: 'completed' });
});

t.test('a response is deleted although the answer to the commit is lost', async (t) => {
  const fixture = await startStore(t);
  const { ask, ledger, settle, store } = fixture;
  store.put(record('r1'));
  await settle();
  fixture.onApply = async (changes) => {
    fixture.onApply = null;
    await ledger.responses.apply(changes);
    throw away();
  };
  t.equal(await ask(store.remove({ account: 'a', id: 'r1' }).then(() => 'deleted')), 'deleted');
  t.equal(await ask(store.remove({ account: 'a', id: 'r1' })), 'HR_RESPONSE_UNKNOWN');
});

t.test('a replay has its last event although the queue had no room for it', async (t) => {
  const fixture = await startStore(t);
  const { ask, settle, store } = fixture;
  const key = { account: 'a', id: 'b1' };
  await ask(store.begin(queued('b1'), true, () => undefined));
  fixture.isOpen = false;
  store.events({ ...key, first: 0, last: 0, data: 'event: response.created\ndata: {}\n\n' });
  const large = 'x'.repeat(16 * 1024 * 1024);
  for (let at = 1; at < 6; at++) store.events({ ...key, first: at, last: at, data: `data: "${large}"\n\n` });
  store.end({ ...key, status: 'completed', output: '[]', response: '{"id":"b1"}', items: [] }, () => undefined);
  fixture.isOpen = true;
  await settle(100);
  const followed = (await ask(store.follow(key, 3, true))) as Followed;
  t.match(followed, { kind: 'events', batches: [{ first: 4, last: 4, data: /^event: response.completed\n/ }] });
});
