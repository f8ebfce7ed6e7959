import t from 'tap';
import { type RevocableKeys, shareRevocations } from '../../src/cluster/index.ts';
import { createFakeCluster } from '../support/cluster-link.ts';

interface Keys extends RevocableKeys {
  readonly heard: string[];
}

function keys(): Keys {
  const heard: string[] = [];
  return { heard, onRevoked: null, revoked: (hash) => void heard.push(hash) };
}

t.test('a revocation reaches every sibling, and not the sender', async (t) => {
  const cluster = createFakeCluster();
  const gateways = [keys(), keys(), keys()];
  const links = gateways.map((each) => {
    const link = cluster.link();
    shareRevocations(link, each);
    return link;
  });
  await cluster.advance(1000);
  const hash = '0f'.repeat(32);
  gateways[0]?.onRevoked?.(hash);
  await cluster.advance(10);
  t.same(
    gateways.map(({ heard }) => heard),
    [[], [hash], [hash]],
  );
  links[0]?.publish('keys', Buffer.alloc(33));
  links[0]?.publish('keys', Buffer.alloc(0));
  await cluster.advance(10);
  t.same(gateways[1]?.heard, [hash], 'what is no list of hashes is ignored');
  cluster.stop();
  t.doesNotThrow(() => gateways[0]?.onRevoked?.(hash));
  for (const link of links) await link.close();
});
