// Configurations of the peers, and what is said of one that is not installed.
import t from 'tap';
import { benchModule } from './modules.ts';

interface Install {
  readonly installMissing: (peers: unknown, say: (text: string) => void) => Record<string, string>;
  readonly reasonOf: (error: Error) => string;
  readonly unavailable: (from: string, why: string) => unknown;
}

interface Proxies {
  readonly PROXIES: Readonly<Record<string, { readonly from: string; readonly does: string; readonly kind: string }>>;
  readonly nginxConfig: (folder: string, port: number, ports: number[], stream: boolean, isRoot: boolean) => string;
  readonly haproxyConfig: (port: number, ports: number[]) => string;
  readonly envoyConfig: (port: number, ports: number[]) => unknown;
  readonly caddyConfig: (port: number, ports: number[]) => unknown;
}

interface Gateways {
  readonly GATEWAY_PEERS: Proxies['PROXIES'];
  readonly litellmConfig: (ports: number[]) => { model_list: unknown[] };
  readonly ollaConfig: (port: number, ports: number[]) => unknown;
}

const { installMissing, reasonOf, unavailable } = await benchModule<Install>('peers/install.mjs');
const proxies = await benchModule<Proxies>('peers/proxies.mjs');
const gateways = await benchModule<Gateways>('peers/gateways.mjs');

t.test('every configuration names both servers and listens on the given port', async (t) => {
  const texts = [
    proxies.nginxConfig('/folder', 4000, [9400, 9401], false, false),
    proxies.haproxyConfig(4000, [9400, 9401]),
    JSON.stringify(proxies.envoyConfig(4000, [9400, 9401])),
    JSON.stringify(proxies.caddyConfig(4000, [9400, 9401])),
    JSON.stringify(gateways.ollaConfig(4000, [9400, 9401])),
  ];
  for (const text of texts) for (const port of ['4000', '9400', '9401']) t.match(text, port);
  t.equal(gateways.litellmConfig([9400, 9401]).model_list.length, 2);
});

t.test('nginx buffers answers, but not streams', async (t) => {
  t.match(proxies.nginxConfig('/folder', 1, [2], false, true), /user root;[^]*proxy_buffering on;/);
  t.match(proxies.nginxConfig('/folder', 1, [2], true, false), 'proxy_buffering off;');
});

t.test('every peer says where it comes from, what it is and what it does', async (t) => {
  for (const [name, peer] of Object.entries({ ...proxies.PROXIES, ...gateways.GATEWAY_PEERS })) {
    t.ok(peer.from !== '' && peer.kind !== '' && peer.does !== '', name);
  }
});

t.test('a peer that cannot be installed is reported with the reason, and the others are installed', async (t) => {
  let installed = false;
  const peers = {
    gone: unavailable('a registry', 'the registry refuses it'),
    empty: { from: 'a registry', find: () => null, install: () => {} },
    late: {
      from: 'a registry',
      find: () => (installed ? '/program' : null),
      install: () => {
        installed = true;
      },
    },
    there: { from: 'a registry', find: () => '/program', install: () => t.fail('it is installed already') },
  };
  const said: string[] = [];
  t.strictSame(
    installMissing(peers, (text) => said.push(text)),
    {
      gone: 'the registry refuses it',
      empty: 'the package has no such program',
    },
  );
  t.match(said.join('\n'), /installing gone \(a registry\)\ngone is not installed: the registry refuses it/);
});

t.test('the reason of a failed install is its telling line, without addresses', async (t) => {
  const output =
    'go install x: go: downloading a\ngo: x: reading https://host/x: 403 Forbidden\n\tserver response: gone';
  t.equal(reasonOf(new Error(output)), 'go: x: reading 403 Forbidden');
  t.equal(reasonOf(new Error('python3 with venv is needed')), 'python3 with venv is needed');
});

t.test('a gateway with several threads is a peer of the part peers', async (t) => {
  interface Part {
    readonly measure: (flags: object, rig: object) => Promise<void>;
  }
  const { part } = await benchModule<{ part: Part }>('load/peers.mjs');
  const result = ({ rows }: { rows: string[][] }): never => {
    throw new Error(rows.join());
  };
  // The table of peers is the first result.
  await t.rejects(part.measure({ peers: ['headrace*2'], install: 'no' }, { result }), { message: /^headrace\*2,\d/ });
});
