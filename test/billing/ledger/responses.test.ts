// Responses in the store: conversations, accounts, expiry, bounds, and the life of those that run in the background.

import t from 'tap';
import type {
  ResponseChange,
  ResponseRecord,
  ResponseRecords,
  ResponseStatus,
} from '../../../src/billing/ledger/response-records.ts';
import { openStore, START_MS, STORES, turnsOf } from './stores.ts';

const DAY_MS = 86_400_000;

function record(id: string, previous: string | null = null, more: Partial<ResponseRecord> = {}): ResponseRecord {
  return {
    account: 'a',
    id,
    createdMs: START_MS,
    status: 'completed',
    model: 'm',
    previous,
    input: `["in ${id}"]`,
    output: `["out ${id}"]`,
    response: `{"id":"${id}","output":null}`,
    items: [`msg_${id}`],
    ...more,
  };
}

const add = (added: ResponseRecord, ttlMs = DAY_MS): ResponseChange => ({ type: 'add', record: added, ttlMs });

async function linksOf(responses: ResponseRecords, id: string, account = 'a'): Promise<string[]> {
  return (await responses.conversation({ account, id }, 1000)).map((link) => link.id).reverse();
}

for (const name of STORES) {
  t.test(`${name}: names with a NUL, which PostgreSQL has not, are of nothing that is stored`, async (t) => {
    const { ledger } = await openStore(t, name);
    const { responses } = ledger;
    const odd = record('r\0', null);
    const changes = [add(odd), add(record('r1', null, { items: ['msg\0', 'msg_1'], model: 'm\0' }))];
    t.same(await responses.apply([...changes, { type: 'delete', key: odd, createdMs: null }]), [false, true, false]);
    t.equal(await responses.find(odd), undefined);
    t.match(await responses.find(record('r1')), { model: 'm' });
    t.same(await linksOf(responses, 'r\0'), []);
    t.same(await responses.holders('a', ['msg\0', 'msg_1']), [{ id: 'r1', bytes: 10 }]);
  });

  t.test(`${name}: a conversation is read from its newest response, of its own account alone`, async (t) => {
    const { ledger } = await openStore(t, name);
    const { responses } = ledger;
    const others = add(record('r2', null, { account: 'b', input: '["theirs"]' }));
    t.same(await responses.apply([add(record('r1')), add(record('r2', 'r1')), add(record('r3', 'r2')), others]), [
      true,
      true,
      true,
      true,
    ]);
    t.same(await linksOf(responses, 'r3'), ['r1', 'r2', 'r3']);
    t.same(await linksOf(responses, 'r2', 'b'), ['r2']);
    t.same(await linksOf(responses, 'r3', 'b'), [], 'another account finds nothing');
    t.same((await responses.conversation({ account: 'a', id: 'r2' }, 1000)).reverse(), [
      {
        id: 'r1',
        status: 'completed',
        previous: null,
        bytes: 19,
        expiresMs: START_MS + DAY_MS,
      },
      {
        id: 'r2',
        status: 'completed',
        previous: 'r1',
        bytes: 19,
        expiresMs: START_MS + DAY_MS,
      },
    ]);
    t.same(await responses.apply([add(record('r1', 'r3'))]), [false], 'an id is given once');
    t.same(await linksOf(responses, 'r3'), ['r1', 'r2', 'r3'], 'so that no conversation leads back to itself');
    t.match(await responses.conversation({ account: 'a', id: 'r3' }, 2), [{ id: 'r3' }, { id: 'r2', previous: 'r1' }]);
    t.same(await responses.items('a', ['r2', 'r9'], true), [{ id: 'r2', input: '["in r2"]', output: '["out r2"]' }]);
    t.same(await responses.items('a', ['r2'], false), [{ id: 'r2', input: '', output: '["out r2"]' }]);
    t.same(await responses.items('b', ['r1'], true), []);
    t.same(await responses.holders('a', ['msg_r2', 'msg_r9']), [{ id: 'r2', bytes: 10 }]);
    t.same(await responses.holders('b', ['msg_r1']), []);
    await responses.apply([add(record('r4', null, { input: `["${'é'.repeat(1000)}"]` }))]);
    t.same(await responses.holders('a', ['msg_r4']), [{ id: 'r4', bytes: 10 }], 'the input beside it does not count');
    const links = await responses.conversation({ account: 'a', id: 'r4' }, 9);
    t.match(links, [{ bytes: 2014 }], 'bytes, not characters');
    await responses.apply([{ type: 'delete', key: { account: 'a', id: 'r4' }, createdMs: null }]);
    t.match(await responses.find({ account: 'a', id: 'r2' }), {
      previous: 'r1',
      model: 'm',
      isLost: false,
      hasEvents: false,
    });
    t.equal(await responses.find({ account: 'b', id: 'r3' }), undefined);
    t.equal(await responses.input({ account: 'a', id: 'r2' }), '["in r2"]');
    t.equal(await responses.input({ account: 'b', id: 'r3' }), undefined);
    const key = { account: 'a', id: 'r2' };
    t.same(await responses.apply([{ type: 'delete', key, createdMs: START_MS + 1 }]), [false], 'of another moment');
    t.same(await responses.apply([{ type: 'delete', key, createdMs: START_MS }]), [true]);
    t.same(await responses.apply([{ type: 'delete', key, createdMs: null }]), [false]);
    t.same(await linksOf(responses, 'r3'), ['r3'], 'what is before a deleted link is not reached');
    t.same(await responses.holders('a', ['msg_r2']), [], 'its items are gone with it');
    t.equal(await responses.deleteAccount('a'), 2);
    t.match(await responses.counts(), { responses: 1, running: 0 });
  });

  t.test(`${name}: responses expire unless their conversation goes on`, async (t) => {
    const { ledger, pass } = await openStore(t, name);
    const { responses } = ledger;
    await responses.apply([add(record('r1')), add(record('r2'))]);
    pass(DAY_MS - 1);
    await responses.apply([{ type: 'touch', account: 'a', ids: ['r1'], ttlMs: DAY_MS }]);
    pass(1);
    t.equal(await responses.find({ account: 'a', id: 'r2' }), undefined, 'expired before it is removed');
    t.same(await linksOf(responses, 'r1'), ['r1']);
    t.equal(await responses.prune(), 1);
    t.equal(await responses.prune(), 0);
  });

  t.test(`${name}: the oldest responses of an account go when it has too many bytes`, async (t) => {
    const { ledger } = await openStore(t, name);
    const { responses } = ledger;
    const text = JSON.stringify(['x'.repeat(1000)]);
    const many = Array.from({ length: 1200 }, (_, at) =>
      add(record(`r${at}`, null, { createdMs: START_MS + at, input: text, items: [] })),
    );
    await responses.apply(many);
    await responses.apply([add(record('other', null, { account: 'b' }))]);
    const { bytes, removed } = await responses.evict('a', 100_000);
    t.ok(bytes <= 100_000 && bytes > 98_000, `${bytes} bytes are left`);
    t.ok(removed > 1000);
    t.equal(await responses.find({ account: 'a', id: 'r0' }), undefined);
    t.ok(await responses.find({ account: 'a', id: 'r1199' }));
    t.ok(await responses.find({ account: 'b', id: 'other' }));
    t.same(await responses.evict('a', 100_000), { removed: 0, bytes });
  });

  t.test(`${name}: two gateways that find too many bytes at once remove no more than one of them`, async (t) => {
    const { ledger, again } = await openStore(t, name);
    const { responses } = ledger;
    const other = (await again()).responses;
    const text = JSON.stringify(['x'.repeat(1000)]);
    for (let round = 0; round < 5; round++) {
      const many = Array.from({ length: 300 }, (_, at) => add(record(`r${at}`, null, { createdMs: at, input: text })));
      await responses.apply(many);
      await Promise.all([responses.evict('a', 200_000), other.evict('a', 200_000)]);
      const { bytes } = await responses.counts();
      t.ok(bytes <= 200_000 && bytes > 198_000, `${bytes} bytes are left`);
      await responses.deleteAccount('a');
    }
  });

  t.test(`${name}: other work of the thread goes on while many responses are removed`, async (t) => {
    const { ledger, pass } = await openStore(t, name);
    const { responses } = ledger;
    const many = Array.from({ length: 2600 }, (_, at) => add(record(`r${at}`, null, { createdMs: at })));
    const { bytes } = (await responses.apply(many), await responses.counts());
    t.ok((await turnsOf(() => responses.evict('a', bytes / 2))) > 1, 'for its size');
    await responses.apply(many);
    t.ok((await turnsOf(() => responses.deleteAccount('a'))) > 2, 'of an account');
    await responses.apply(many);
    pass(DAY_MS);
    t.ok((await turnsOf(() => responses.prune())) > 2, 'that have expired');
    t.equal((await responses.counts()).responses, 0);
  });

  t.test(`${name}: a background response does not expire while it runs`, async (t) => {
    const { ledger, pass } = await openStore(t, name);
    const { responses } = ledger;
    const key = { account: 'a', id: 'b' };
    const begun = record('b', null, { status: 'queued', output: '[]', items: [] });
    await responses.apply([
      { type: 'begin', record: begun, ttlMs: 60_000, holder: 'h', leaseMs: DAY_MS, hasEvents: true },
    ]);
    pass(59_000);
    t.same(await responses.renew('h', DAY_MS, 60_000), [key]);
    pass(59_000);
    t.equal(await responses.prune(), 0);
    t.match(await responses.find(key), { status: 'queued' });
    pass(1000);
    t.equal(await responses.prune(), 1, 'it does when nobody renews it');
  });

  t.test(`${name}: a background response ends once, by its holder or by a cancel`, async (t) => {
    const { ledger, again } = await openStore(t, name);
    const { responses } = ledger;
    const other = (await again()).responses;
    const key = { account: 'a', id: 'b1' };
    const begin = (id: string, leaseMs = DAY_MS): ResponseChange => ({
      ...{ type: 'begin', record: record(id, null, { status: 'queued', output: '[]', items: [] }), ttlMs: DAY_MS },
      ...{ holder: 'h', leaseMs, hasEvents: true },
    });
    const end = (
      id: string,
      status: Exclude<ResponseStatus, 'queued' | 'in_progress'>,
      holder: string | null,
      event: ((number: number) => string) | null = null,
    ): ResponseChange => ({
      type: 'end',
      end: { account: 'a', id, status, output: '["done"]', response: '{"output":null}', items: ['msg_done'] },
      holder,
      event,
    });
    t.same(await responses.apply([begin('b1')]), [true]);
    t.match(await other.find(key), { status: 'queued', hasEvents: true, isLost: false }, 'found by another gateway');
    t.same(await responses.renew('h', DAY_MS, DAY_MS), [key]);
    t.same(await responses.renew('someone else', DAY_MS, DAY_MS), []);
    t.same(await other.apply([end('b1', 'completed', 'another holder')]), [false]);
    t.same(await responses.apply([{ type: 'progress', key, holder: 'h', response: '{"output":null,"x":1}' }]), [true]);
    const events = (first: number, last: number, id = 'b1'): ResponseChange => ({
      type: 'events',
      events: { account: 'a', id, first, last, data: `${first}-${last}` },
    });
    const { bytes } = await responses.counts();
    t.same(await responses.apply([events(0, 4), events(5, 9), events(10, 10)]), [true, true, true]);
    t.equal((await responses.counts()).bytes, bytes, 'they count at the end: no event writes the row of the response');
    t.same(
      (await other.eventsAfter(key, 4, 10)).map(({ data }) => data),
      ['5-9', '10-10'],
    );
    t.same(
      (await other.eventsAfter(key, 7, 1)).map(({ data }) => data),
      ['5-9'],
      'the row that has the next event',
    );
    t.same(await other.apply([end('b1', 'cancelled', null)]), [true], 'cancelled elsewhere');
    t.same(await responses.apply([end('b1', 'completed', 'h')]), [false], 'the cancel holds');
    t.same(await responses.apply([events(11, 12)]), [false], 'nothing comes behind it');
    t.match(await responses.find(key), { status: 'cancelled', output: '["done"]' });
    t.equal((await responses.counts()).bytes, bytes + Buffer.byteLength('["done"]{"output":null}0-45-910-10'));
    t.same(await responses.renew('h', DAY_MS, DAY_MS), []);
    t.same(await responses.apply([begin('b2', -1)]), [true]);
    t.match(await other.find({ account: 'a', id: 'b2' }), { isLost: true });
    t.same(await other.state({ account: 'a', id: 'b2' }), { status: 'queued', isLost: true });
    t.same(await other.state(key), { status: 'cancelled', isLost: false });
    t.equal(await other.state({ account: 'b', id: 'b2' }), undefined);
    t.same(await other.lost(10), [{ account: 'a', id: 'b2' }]);
    await responses.apply([events(0, 2, 'b2')]);
    const fail = end('b2', 'failed', null, (number) => `failed ${number}`);
    t.same(await other.apply([fail, fail]), [true, false]);
    t.same(await responses.apply([events(4, 4, 'b2')]), [false]);
    const last = { account: 'a', id: 'b2', first: 3, last: 3, data: 'failed 3' };
    t.match(await responses.eventsAfter({ account: 'a', id: 'b2' }, 2, 9), [last], 'the last event, once');
    t.equal((await responses.eventsAfter({ account: 'a', id: 'b2' }, 2, 9)).length, 1);
    t.same([await other.lastEvent({ account: 'a', id: 'b2' }), await other.lastEvent(key)], [3, 10]);
    t.equal(await other.lastEvent({ account: 'a', id: 'b3' }), -1);
    t.same(await other.lost(10), []);
    t.equal(await responses.deleteAccount('a'), 2);
    t.same(await responses.apply([events(11, 12)]), [false], 'nothing is kept of what is deleted');
    t.same(await responses.eventsAfter(key, -1, 10), []);
  });

  t.test(`${name}: what its gateway repeats counts, as where the answer to a commit was lost`, async (t) => {
    const { ledger, again } = await openStore(t, name);
    const { responses } = ledger;
    const queued = record('b1', null, { status: 'queued', output: '[]', items: [] });
    const begin = (holder: string): ResponseChange => ({
      ...{ type: 'begin', record: queued, ttlMs: DAY_MS, holder, leaseMs: DAY_MS, hasEvents: true },
    });
    t.same(await responses.apply([begin('h')]), [true]);
    t.same(await responses.apply([begin('h')]), [true]);
    t.same(await (await again()).responses.apply([begin('other')]), [false], 'of another one the id is taken');
    const end = (output: string, holder: string | null): ResponseChange => ({
      type: 'end',
      end: { account: 'a', id: 'b1', status: 'completed', output, response: '{"output":null}', items: [] },
      ...{ holder, event: null },
    });
    t.same(await responses.apply([end('["done"]', 'h')]), [true]);
    t.same(await responses.apply([end('["done"]', 'h')]), [true]);
    const others = [end('["other"]', 'h'), end('["done"]', 'other'), end('["done"]', null)];
    t.same(await responses.apply(others), [false, false, false], 'another end does not');
    t.same(await responses.apply([begin('h')]), [false]);
    const { bytes } = await responses.counts();
    t.equal(bytes, Buffer.byteLength('["in b1"][]{"id":"b1","output":null}["done"]{"output":null}'));
  });
}

for (const name of STORES) {
  t.test(`${name}: gateways that change the same responses do not wait for each other in a circle`, async (t) => {
    const { ledger, again } = await openStore(t, name);
    const { responses } = ledger;
    const other = (await again()).responses;
    const ids = Array.from({ length: 6 }, (_, at) => `b${at}`);
    const begun = ids.map((id): ResponseChange => {
      const queued = record(id, null, { status: 'queued', output: '[]', items: [] });
      return { type: 'begin', record: queued, ttlMs: DAY_MS, holder: 'h', leaseMs: DAY_MS, hasEvents: true };
    });
    await responses.apply(begun);
    const changed = (id: string): ResponseChange[] => [
      { type: 'progress', key: { account: 'a', id }, holder: 'h', response: '{"output":null}' },
      { type: 'touch', account: 'a', ids: [...ids].reverse(), ttlMs: DAY_MS },
    ];
    const forth = ids.flatMap(changed);
    const back = [...ids].reverse().flatMap(changed);
    for (let round = 0; round < 20; round++) {
      await Promise.all([responses.apply(forth), other.apply(back), responses.renew('h', DAY_MS, DAY_MS)]);
    }
    t.equal((await responses.renew('h', DAY_MS, DAY_MS)).length, ids.length);
  });
}

for (const name of STORES) {
  t.test(`${name}: the last event of a cancel is behind all that are kept`, async (t) => {
    const { ledger, again } = await openStore(t, name);
    const { responses } = ledger;
    const other = (await again()).responses;
    for (let round = 0; round < 20; round++) {
      const id = `b${round}`;
      const queued = record(id, null, { status: 'queued', output: '[]', items: [] });
      await responses.apply([
        { type: 'begin', record: queued, ttlMs: DAY_MS, holder: 'h', leaseMs: DAY_MS, hasEvents: true },
      ]);
      const runs = async (): Promise<void> => {
        for (let first = 0; ; first += 2) {
          const events = { account: 'a', id, first, last: first + 1, data: `${first} ${first + 1} ` };
          if (!(await responses.apply([{ type: 'events', events }]))[0]) return;
        }
      };
      const end = { account: 'a', id, status: 'cancelled', output: '[]', response: '{}', items: [] } as const;
      const event = (number: number): string => `${number}!`;
      await Promise.all([runs(), other.apply([{ type: 'end', end, holder: null, event }])]);
      const data = (await responses.eventsAfter(end, -1, 1000)).map((events) => events.data).join('');
      const last = Number(/(\d+)!$/.exec(data)?.[1]);
      t.equal(data, `${Array.from({ length: last + 1 }, (_, at) => at).join(' ')}!`);
    }
  });

  t.test(`${name}: who adds, changes and removes the same responses does not wait in a circle`, async (t) => {
    const { ledger, again, pass } = await openStore(t, name);
    const { responses } = ledger;
    const other = (await again()).responses;
    const ids = Array.from({ length: 400 }, (_, at) => `r${at}`).sort();
    // The oldest ones are the last ones by their ids.
    const added = ids.map((id, at) => add(record(id, null, { createdMs: START_MS - at }), DAY_MS - at));
    const touch: ResponseChange = { type: 'touch', account: 'a', ids, ttlMs: DAY_MS };
    for (let round = 0; round < 5; round++) {
      for (const remove of [() => other.evict('a', 0), () => other.prune(), () => other.deleteAccount('a')]) {
        await Promise.all([responses.apply(added), other.apply([...added].reverse())]);
        pass(DAY_MS);
        await Promise.all([remove(), responses.apply([touch])]);
        await responses.deleteAccount('a');
      }
    }
    t.equal((await responses.counts()).responses, 0);
  });
}
