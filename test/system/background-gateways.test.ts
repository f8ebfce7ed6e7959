// Background responses of threads and gateways that share a store, end or die.

import { join } from 'node:path';
import t from 'tap';
import type { ServedGateway } from '../../src/gateway/gateway.ts';
import { execute } from '../billing/ledger/stores.ts';
import { eventsIn, firstEvents, running, statusOf, untilStatus } from '../support/background.ts';
import { postgresDatabase } from '../support/postgres.ts';
import { call, settingsOf, startGateway } from '../support/response-gateway.ts';
import { MODEL, until } from '../support/system.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

for (const shared of ['sqlite', 'postgres'] as const) {
  t.test(`${shared}: another gateway follows and cancels`, async (t) => {
    const store = shared === 'postgres' ? await postgresDatabase() : `sqlite:${join(temporaryFolder(t), 'ledger.db')}`;
    const { crn, id, url } = await running(t, { store });
    const other = (await startGateway(t, settingsOf([crn], { store }))).url;
    await untilStatus(other, id, 'in_progress');
    crn.release();
    await untilStatus(other, id, 'completed');

    crn.hold();
    const body = JSON.stringify({ model: MODEL, input: 'two', background: true, stream: true });
    const [created] = await firstEvents(url, '/v1/responses', 1, { method: 'POST', body });
    const second = created?.response?.id ?? '';
    await crn.held(1);
    t.equal(
      (await firstEvents(other, `/v1/responses/${second}?stream=true`, 4)).length,
      4,
      'events from the other gateway',
    );
    const follows = call(other, `/v1/responses/${second}?stream=true&starting_after=1`);
    const cancelled = await call(other, `/v1/responses/${second}/cancel`, { method: 'POST' });
    t.match(cancelled.json, { status: 'cancelled' });
    await until('the gateway that runs it stops', () => crn.left() === 1);
    const isEnd = { type: 'response.incomplete', response: { id: second, status: 'cancelled' } };
    t.match(eventsIn((await follows).text).at(-1), isEnd, 'the stream says so at its end');
    const { text } = await call(url, `/v1/responses/${second}?stream=true`);
    t.match(eventsIn(text).at(-1), isEnd, 'for those who come later too');
    t.same(
      eventsIn(text).map((event) => event.sequence_number),
      eventsIn(text).map((_, at) => at),
    );
    t.equal(await statusOf(url, second), 'cancelled');
  });
}

for (const shared of ['sqlite', 'postgres'] as const) {
  t.test(`${shared}: what a gateway without a lease runs is failed by another one, and stops`, async (t) => {
    const store = shared === 'postgres' ? await postgresDatabase() : `sqlite:${join(temporaryFolder(t), 'ledger.db')}`;
    const { crn, id, url } = await running(t, { store });
    const other = (await startGateway(t, settingsOf([crn], { store }))).url;
    await untilStatus(other, id, 'in_progress');
    await execute(shared, store, 'update responses set lease_ms = 1');
    const failed = await call(other, `/v1/responses/${id}`);
    t.match(failed.json, { status: 'failed', error: { code: 'server_error', message: /has ended/ } });
    await until('the gateway that had it stops', () => crn.left() === 1);
    crn.release();
    t.equal(await statusOf(url, id), 'failed');
  });
}

for (const follows of ['here', 'there']) {
  t.test(`a follower hears that the gateway is gone, ${follows}`, async (t) => {
    const store = `sqlite:${join(temporaryFolder(t), 'ledger.db')}`;
    const { crn, id, url } = await running(t, { store }, true);
    const other = (await startGateway(t, settingsOf([crn], { store }))).url;
    await untilStatus(other, id, 'in_progress');
    const path = `/v1/responses/${id}?stream=true`;
    const followed = call(follows === 'here' ? url : other, path);
    await execute('sqlite', store, 'update responses set lease_ms = 1');
    t.match((await call(other, `/v1/responses/${id}`)).json, { status: 'failed' });
    const events = eventsIn((await followed).text);
    t.match(events.at(-1), { type: 'response.failed', response: { id, status: 'failed' } });
    t.same(
      events.map((event) => event.sequence_number),
      events.map((_, at) => at),
    );
    const later = eventsIn((await call(other, path)).text);
    t.match(
      later.at(-1),
      { type: 'response.failed', response: { id, status: 'failed' } },
      'so does one that comes later',
    );
    t.same(later.slice(0, -1), events.slice(0, later.length - 1), 'and gets the same events, as far as they are kept');
    t.equal((await call(other, `${path}&starting_after=${later.length - 1}`)).text, '');
    const [end, ...more] = eventsIn((await call(other, `${path}&starting_after=50`)).text);
    t.match(end, { type: 'response.failed', sequence_number: 51 }, 'and one that has more events than are kept');
    t.same(more, []);
  });
}

t.test('a shutdown ends what runs as failed, and the store says so', async (t) => {
  const store = `sqlite:${join(temporaryFolder(t), 'ledger.db')}`;
  const { crn, gateway, id } = await running(t, { store }, true);
  const after = (await startGateway(t, settingsOf([crn], { store }))).url;
  await gateway.close();
  const failed = await untilStatus(after, id, 'failed');
  t.match(failed.json['error'], { message: /shutting down/ });
  const events = eventsIn((await call(after, `/v1/responses/${id}?stream=true`)).text);
  t.equal(events.at(-1)?.type, 'response.failed');
});

t.test('a thread that ends leaves no response that seems to run', async (t) => {
  const { gateway, id, url } = await running(t, {
    threads: 1,
    store: `sqlite:${join(temporaryFolder(t), 'ledger.db')}`,
  });
  (gateway as ServedGateway).crash(1);
  await until('another thread serves', async () => (await call(url, '/health').catch(() => null))?.status === 200);
  const failed = await untilStatus(url, id, 'failed');
  t.match(failed.json['error'], { message: /thread .* has ended/ });
});
