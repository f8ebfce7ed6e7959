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
