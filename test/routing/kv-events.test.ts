// KV events of several servers: subscriptions follow the table, and the index is told what they say.
import t, { type Test } from 'tap';
import { createManualClock } from '../../src/actor/testkit.ts';
import { KvEvents, type KvEventsDeps } from '../../src/routing/kv-events.ts';
import { hashText, type KvEventSource, type ModelTableData } from '../../src/routing/model-table.ts';
import { batch, CLEARED, hashes, removed, ScriptedPublisher, stored } from '../support/kv-publisher.ts';

const BLOCK = 16;

/** Members by model, as `[url, member]`. */
function tableOf(models: Readonly<Record<string, readonly (readonly [string, number])[]>>): ModelTableData {
  return {
    version: 1,
    models: Object.entries(models).map(([id, members], budget) => ({
      ...{ id, budget },
      members: members.map(([url, member]) => ({
        url,
        member,
        server: member,
        hash: hashText(url),
        apiKey: undefined,
        weight: 1,
        dialects: 0,
      })),
    })),
  };
}

interface Scene {
  readonly events: KvEvents;
  readonly logged: string[];
  /** Resolves with the next correction: `clear 1`, `restarted 1` or `measured 0 1 1600`. */
  readonly told: () => Promise<string>;
}

function open(t: Test, more: Partial<KvEventsDeps> = {}): Scene {
  const calls: string[] = [];
  const logged: string[] = [];
  let wake = Promise.withResolvers<void>();
  const note = (call: string): void => {
    calls.push(call);
    wake.resolve();
  };
  const log = (fields: object, message: string): void => void logged.push(`${message} ${JSON.stringify(fields)}`);
  const events = new KvEvents({
    index: {
      clear: (member) => note(`clear ${member}`),
    },
    feedback: {
      measured: (model, member, tokens) => note(`measured ${model} ${member} ${tokens}`),
      restarted: (member) => note(`restarted ${member}`),
    },
    clock: createManualClock(),
    log: { info: log, warn: log },
    ...more,
  });
  t.teardown(() => events.close());
  const told = async (): Promise<string> => {
    while (calls.length === 0) {
      await wake.promise;
      wake = Promise.withResolvers();
    }
    return calls.shift() as string;
  };
  return { events, logged, told };
}

function sourcesOf(sources: Readonly<Record<string, KvEventSource>>): Map<string, KvEventSource> {
  return new Map(Object.entries(sources));
}

t.test('a cleared cache clears every model of its server, and no other server', async (t) => {
  const [one, two] = [await ScriptedPublisher.open(t), await ScriptedPublisher.open(t)];
  const { events, told } = open(t);
  const sources = sourcesOf({ 'http://one': { endpoint: one.endpoint }, 'http://two': { endpoint: two.endpoint } });
  events.configure(
    sources,
    tableOf({
      a: [
        ['http://one', 1],
        ['http://two', 2],
      ],
      b: [['http://one', 3]],
    }),
  );
  await Promise.all([one.subscription(), two.subscription()]);
  one.send(0, batch(CLEARED));
  t.same([await told(), await told()], ['clear 1', 'clear 3']);
  two.send(7, batch(CLEARED));
  t.equal(await told(), 'clear 2');
  two.send(0, batch(stored(hashes(0, 1), BLOCK)));
  t.equal(await told(), 'restarted 2');
});

t.test('clearings that never end are logged at every doubling', async (t) => {
  const one = await ScriptedPublisher.open(t);
  const { events, logged, told } = open(t);
  events.configure(sourcesOf({ 'http://one': { endpoint: one.endpoint } }), tableOf({ a: [['http://one', 1]] }));
  await one.subscription();
  for (let number = 0; number < 10; number++) {
    one.send(number, batch(CLEARED));
    t.equal(await told(), 'clear 1');
  }
  const lines = logged.filter((line) => line.startsWith('the KV cache of a CRN is empty'));
  t.equal(lines.length, 4, 'the first, second, fourth and eighth');
});

t.test('the capacity of a cache is told for every model once blocks are evicted', async (t) => {
  const one = await ScriptedPublisher.open(t);
  const { events, told } = open(t);
  const sources = sourcesOf({ 'http://one': { endpoint: one.endpoint } });
  events.configure(sources, tableOf({ a: [['http://one', 1]] }));
  await one.subscription();
  one.send(0, batch(stored(hashes(0, 100), BLOCK)));
  one.send(1, batch(removed(hashes(0, 1)), stored(hashes(100, 1), BLOCK)));
  t.equal(await told(), 'measured 0 1 1600');
  events.configure(sources, tableOf({ a: [['http://one', 1]], b: [['http://one', 2]] }));
  one.send(2, batch(stored(hashes(200, 10), BLOCK), removed(hashes(2, 2))));
  t.same([await told(), await told()], ['measured 0 1 1760', 'measured 1 2 1760']);
  t.match(events.status(), [{ url: 'http://one', residentTokens: 1728, capacityTokens: 1760, removedTokens: 48 }]);
  const values = new Map(events.metrics().map(({ name, values: [first] }) => [name, first]));
  t.match(values.get('headrace_kv_resident_tokens'), { labels: { crn: 'http://one' }, value: 1728 });
  t.match(values.get('headrace_kv_capacity_tokens'), { value: 1760 });
  t.match(values.get('headrace_kv_events_total'), { value: 5 });
  t.match(values.get('headrace_kv_events_connected'), { value: 1 });
  t.match(values.get('headrace_kv_events_age_seconds'), { value: 0 });
});

t.test('subscriptions end with their server, its source, or all of it', async (t) => {
  const [one, two] = [await ScriptedPublisher.open(t), await ScriptedPublisher.open(t)];
  const { events } = open(t);
  const table = tableOf({ a: [['http://one', 1]] });
  events.configure(sourcesOf({ 'http://one': { endpoint: one.endpoint } }), table);
  await one.subscription();
  events.configure(sourcesOf({ 'http://one': { endpoint: two.endpoint, topic: 'kv' } }), table);
  t.equal(await two.subscription(), 'kv');
  t.equal(events.status().length, 1);
  events.configure(sourcesOf({ 'http://one': { endpoint: two.endpoint } }), tableOf({ a: [['http://other', 1]] }));
  t.same(events.status(), []);
  events.configure(sourcesOf({ 'http://one': { endpoint: one.endpoint } }), table);
  await one.subscription();
  events.close();
  t.same(events.status(), []);
});

t.test('a server that sends garbage is reported at every doubling', async (t) => {
  const one = await ScriptedPublisher.open(t);
  const { events, logged, told } = open(t);
  events.configure(sourcesOf({ 'http://one': { endpoint: one.endpoint } }), tableOf({ a: [['http://one', 1]] }));
  await one.subscription();
  for (let number = 0; number < 20; number++) one.send(number, Buffer.from('garbage'));
  one.send(20, batch(CLEARED));
  t.equal(await told(), 'clear 1');
  t.equal(logged.filter((line) => line.startsWith('KV events rejected')).length, 5, '1, 2, 4, 8, 16');
  t.match(events.status(), [{ rejected: 20 }]);
});

t.test('a replay that cannot be reached is logged', async (t) => {
  const one = await ScriptedPublisher.open(t);
  const { events, logged, told } = open(t);
  const source = { endpoint: one.endpoint, replay: one.replayEndpoint };
  await one.closeReplays();
  events.configure(sourcesOf({ 'http://one': source }), tableOf({ a: [['http://one', 1]] }));
  await one.subscription();
  one.send(3, batch(CLEARED));
  t.equal(await told(), 'clear 1');
  const [line] = logged.filter((each) => each.startsWith('no replay of the KV events of a CRN'));
  t.match(line, 'ECONNREFUSED');
  t.match(line, one.replayEndpoint);
});
