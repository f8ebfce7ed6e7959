// Searches of many accounts and what they cost: places, refusals, and prices of shared and large searches.

import t from 'tap';
import { createGateway, type Gateway, type InProcessEngine } from '../../src/index.ts';
import type { SettingsInput } from '../../src/config/settings.ts';

const ACCOUNTS = Array.from({ length: 18 }, (_, i) => ({ key: `hr_${i}`, account: `account ${i}` }));
const hits = (count: number) =>
  Array.from({ length: count }, (_, i) => ({ title: `${i}`, url: `https://example.com/${i}`, snippet: '' }));

interface Opened {
  readonly gateway: Gateway;
  readonly ask: (key: string, body: object) => ReturnType<Gateway['inject']>;
  /** Answers all searches that hang. */
  readonly release: () => void;
  calls: number;
}

function open(scope: Pick<typeof t, 'teardown'>, search: SettingsInput['search'] = {}): Opened {
  const gate = Promise.withResolvers<void>();
  const opened: Opened = {
    gateway: null as unknown as Gateway,
    ask: () => ask,
    release: gate.resolve,
    calls: 0,
  } as never;
  const engine: InProcessEngine = {
    kind: 'mine',
    documentation: 'https://example.com/',
    types: ['web'],
    async search({ query, maxResults }) {
      opened.calls++;
      if (query.startsWith('wait')) await gate.promise;
      return hits(query.endsWith('many') ? maxResults : 3);
    },
  };
  const gateway = createGateway({
    keys: { static: ACCOUNTS },
    log: { level: 'silent' },
    search: { pricing: { mine: '0.005' }, ...search, engines: { mine: engine }, default: ['mine'] },
  });
  scope.teardown(() => {
    gate.resolve();
    return gateway.close();
  });
  const ask = (key: string, body: object): ReturnType<Gateway['inject']> =>
    gateway.inject({ path: '/search', headers: { authorization: `Bearer ${key}` }, body });
  return Object.assign(opened, { gateway, ask });
}

t.test('a search beyond the places of its account and their line is 429; others are served', async (t) => {
  const { ask, release } = open(t, { perAccount: 1 });
  const waiting = Array.from({ length: 65 }, (_, i) => ask('hr_0', { query: `wait ${i}` }));
  const refused = await ask('hr_0', { query: 'wait too' });
  t.match(refused, { status: 429, headers: { 'x-headrace-error': 'HR_SEARCH_LIMIT', 'retry-after': '1' } });
  t.match(refused.json(), { detail: 'Too many searches of this account are waiting; it may run 1 at the same time' });
  t.equal((await ask('hr_1', { query: 'rivers' })).status, 200);
  release();
  t.same(new Set((await Promise.all(waiting)).map(({ status }) => status)).size, 1);
});

t.test('a full line of all accounts is 503', async (t) => {
  const { ask, release } = open(t, { perAccount: 1 });
  const waiting = ACCOUNTS.slice(0, 16).flatMap(({ key }) =>
    Array.from({ length: 65 }, (_, i) => ask(key, { query: `wait ${i}` })),
  );
  const first = ask('hr_16', { query: 'wait' });
  const refused = await ask('hr_16', { query: 'wait again' });
  t.match(refused, { status: 503, headers: { 'x-headrace-error': 'HR_SEARCH_BUSY', 'retry-after': '1' } });
  release();
  for (const answer of [first, ...waiting]) t.equal((await answer).status, 200);
});

t.test('an engine that came after the answer is paid by the first search that gets it', async (t) => {
  const gate = Promise.withResolvers<void>();
  const engineOf = (site: string, ready: Promise<void>): InProcessEngine => ({
    kind: site,
    documentation: 'https://example.com/',
    types: ['web'],
    async search() {
      await ready;
      return [{ title: site, url: `https://${site}.example/`, snippet: '' }];
    },
  });
  const gateway = createGateway({
    ...{ listen: '127.0.0.1:0', admin: null, threads: 0, store: 'sqlite::memory:' },
    keys: { static: ACCOUNTS },
    log: { level: 'silent' },
    search: {
      pricing: { fast: '0.005', late: '0.02' },
      engines: { fast: engineOf('fast', Promise.resolve()), late: engineOf('late', gate.promise) },
      default: ['fast', 'late'],
      softTimeout: '10ms',
      cacheTtl: '1m',
    },
  });
  t.teardown(() => gateway.close());
  await gateway.listen();
  const costOf = async (): Promise<readonly unknown[]> => {
    const { headers } = await gateway.inject({
      path: '/search',
      headers: { authorization: 'Bearer hr_0' },
      body: { query: 'rivers' },
    });
    return [headers['x-headrace-cache'], headers['x-headrace-cost']];
  };
  t.same(await costOf(), [undefined, '0.005']);
  gate.resolve();
  await new Promise((resolve) => setImmediate(resolve));
  t.same(await costOf(), ['hit', '0.02']);
  t.same(await costOf(), ['hit', '0.00']);
});
