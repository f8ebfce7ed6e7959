// What is logged of sources.
import t from 'tap';
import { createTestSystem } from '../../src/actor/testkit.ts';
import { Discovery } from '../../src/discovery/discovery.ts';
import { zoneServer } from '../support/dns.ts';

const NAME = 'vllm.example';

t.test('a source of which a part fails for a while says so once, and once that it works again', async (t) => {
  const server = await zoneServer(t);
  const address = { type: 'A', data: '10.0.0.1', ttl: 5 } as const;
  server.zone.set(`A ${NAME}`, [address]);
  server.zone.set(`AAAA ${NAME}`, 'SERVFAIL');
  const { clock, settle, system } = createTestSystem();
  const lines: unknown[] = [];
  const note = (fields: object, text: string): void =>
    void lines.push([text, (fields as { problem?: string }).problem]);
  const discovery = new Discovery({
    ...{ system, clock, log: { info: note, warn: note } as never, get: () => Promise.reject(new Error('no URL')) },
    ...{ onChange: () => undefined, onAnswered: () => undefined },
  });
  const source = { kind: 'dns', name: NAME, model: 'm', port: 8000, records: 'auto', family: 'all', scheme: 'http' };
  discovery.configure({
    discovery: [{ ...source, nameServers: [server.address] } as never],
    discoveryIntervalMs: 30_000,
  });
  const until = async (isReached: () => boolean): Promise<void> => {
    while (!isReached()) {
      await new Promise((resolve) => void setImmediate(resolve));
      await settle();
      if (clock.nextDueMs - clock.now() <= 5000) clock.advance(clock.nextDueMs - clock.now());
    }
  };
  await until(() => (discovery.status()[0]?.failures ?? 0) >= 4);
  t.match(discovery.status(), [{ state: 'failing', servers: 1, problem: /SERVFAIL/ }]);
  server.zone.set(`AAAA ${NAME}`, []);
  await until(() => discovery.status()[0]?.state === 'ok');
  t.match(lines, [
    ['discovery failed', /SERVFAIL/],
    ['discovery has changed', undefined],
    ['discovery works again', undefined],
  ]);
  t.equal(lines.length, 3);
  await system.terminate();
});

t.test('sources that stay keep their names, and others get different ones', async (t) => {
  const { clock, system } = createTestSystem();
  const log = { info: () => undefined, warn: () => undefined };
  const discovery = new Discovery({
    ...{ system, clock, log, get: () => new Promise<never>(() => undefined) },
    ...{ onChange: () => undefined, onAnswered: () => undefined },
  });
  const named = (apiKey: string) => ({ kind: 'url', url: 'http://map.example', apiKey }) as const;
  const namesWith = (...keys: readonly string[]): string[] => {
    discovery.configure({ discovery: keys.map(named), discoveryIntervalMs: 30_000 });
    return discovery.status().map(({ source }) => source);
  };
  t.same(namesWith('a', 'b'), ['http://map.example', 'http://map.example #2']);
  t.same(namesWith('c', 'b'), ['http://map.example', 'http://map.example #2']);
  t.same(namesWith('b', 'd'), ['http://map.example #2', 'http://map.example']);
  t.same(namesWith('b', 'd', 'e', 'f').toSorted(), [
    'http://map.example',
    'http://map.example #2',
    'http://map.example #3',
    'http://map.example #4',
  ]);
  await system.terminate();
});
