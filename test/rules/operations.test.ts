// The deployment files in `ops/` agree with the gateway: their settings are valid, their ports and probes are served, and their stop
// timeouts exceed the time that the gateway takes to drain.

import { existsSync, readFileSync } from 'node:fs';
import t from 'tap';
import { parse, parseAllDocuments } from 'yaml';
import { CLOSE_MS } from '../../src/billing/payments/payment-service.ts';
import { processIo } from '../../src/cli/io.ts';
import { programFor } from '../../src/cli/main.ts';
import { loadConfigText, resolveSettings } from '../../src/config/load.ts';
import type { Settings } from '../../src/config/settings.ts';
import { ROUTES } from '../../src/api/routes.ts';

const OPS = new URL('../../../ops/', import.meta.url);
const read = (path: string): string => readFileSync(new URL(path, OPS), 'utf8');

function settingsOf(resolution: ReturnType<typeof resolveSettings>): Settings {
  if ('mistakes' in resolution) throw new Error(JSON.stringify(resolution.mistakes));
  return resolution.settings;
}

interface Manifest {
  readonly kind: string;
  readonly data?: Record<string, string>;
  readonly spec?: {
    readonly template?: {
      readonly spec: {
        readonly terminationGracePeriodSeconds: number;
        readonly containers: readonly [
          {
            readonly ports: readonly { readonly name: string; readonly containerPort: number }[];
            readonly [probe: string]: unknown;
          },
        ];
      };
    };
  };
}

t.test('the grace period of the Kubernetes manifest exceeds the drain time of its gateway', async (t) => {
  const manifests = parseAllDocuments(read('kubernetes/headrace.yaml')).map((document) => {
    t.same(document.errors, []);
    return document.toJS() as Manifest;
  });
  const text = manifests.find(({ kind }) => kind === 'ConfigMap')?.data?.['headrace.yaml'] ?? '';
  // The secrets are files in the container.
  const plain = text
    .replace(/\$\{file:[^}]*\/store\}/, 'postgres://headrace@db/headrace')
    .replace(/\$\{file:[^}]*\}/g, 'token');
  const { admin, listen, timeouts } = settingsOf(loadConfigText(plain, 'headrace.yaml', {}));
  const pod = manifests.find(({ kind }) => kind === 'Deployment')?.spec?.template?.spec;
  if (pod === undefined) throw new Error('no deployment');
  t.ok(pod.terminationGracePeriodSeconds * 1000 > timeouts.unreadyMs + timeouts.drainMs);
  const [container] = pod.containers;
  const ports = new Map(container.ports.map(({ containerPort, name }) => [name, containerPort]));
  t.equal(ports.get('http'), listen.port);
  t.equal(ports.get('admin'), admin?.port);
  for (const probe of ['startupProbe', 'livenessProbe', 'readinessProbe']) {
    const { httpGet } = container[probe] as { httpGet: { path: string; port: string } };
    t.ok(ports.has(httpGet.port), probe);
    t.ok(httpGet.port === 'admin' || ROUTES.some(({ path }) => path === httpGet.path), probe);
  }
});

t.test('the manifest of discovery fits the Deployment of the manifest before it', async (t) => {
  interface Part {
    readonly kind: string;
    readonly metadata: { readonly name: string };
    readonly data?: Readonly<Record<string, string>>;
    readonly roleRef?: { readonly name: string };
    readonly subjects?: readonly { readonly name: string }[];
    readonly spec?: { readonly template?: { readonly spec: Pod } };
  }
  interface Pod {
    readonly serviceAccountName: string;
    readonly containers: readonly {
      readonly volumeMounts: readonly { readonly name: string; readonly mountPath: string }[];
    }[];
  }
  const partsOf = (file: string): Part[] => parseAllDocuments(read(file)).map((document) => document.toJS() as Part);
  const base = partsOf('kubernetes/headrace.yaml');
  const added = partsOf('kubernetes/discovery.yaml');
  const pod = base.find(({ kind }) => kind === 'Deployment')?.spec?.template?.spec;
  const binding = added.find(({ kind }) => kind === 'RoleBinding');
  t.same(
    binding?.subjects?.map(({ name }) => name),
    [pod?.serviceAccountName],
  );
  t.equal(added.find(({ kind }) => kind === 'Role')?.metadata.name, binding?.roleRef?.name);
  const config = added.find(({ kind }) => kind === 'ConfigMap');
  t.ok(base.some(({ kind, metadata }) => kind === 'ConfigMap' && metadata.name === config?.metadata.name));
  const text = config?.data?.['headrace.yaml'] ?? '';
  const secrets = pod?.containers[0]?.volumeMounts.find(({ name }) => name === 'secrets')?.mountPath;
  const files = [...text.matchAll(/\$\{file:([^}]*)\/[^/}]+\}/g)].map(([, folder]) => folder);
  t.same(new Set(files), new Set([secrets]), 'secrets are where the Deployment mounts them');
  settingsOf(loadConfigText(text.replace(/\$\{file:[^}]*\}/g, 'postgres://headrace@db/headrace'), 'headrace.yaml', {}));
  // The token that the Deployment does not mount by itself.
  const [, patch = ''] =
    /kubectl patch deployment headrace --patch '([^']+)'/.exec(read('kubernetes/discovery.yaml')) ?? [];
  t.same(JSON.parse(patch || '{}'), { spec: { template: { spec: { automountServiceAccountToken: true } } } });
});

t.test('the Kubernetes manifest admits monitoring alone to the admin port', async (t) => {
  interface Policy {
    readonly kind: string;
    readonly spec: {
      readonly podSelector: object;
      readonly ingress: readonly {
        readonly ports: readonly { readonly port: string }[];
        readonly from?: readonly object[];
      }[];
    };
  }
  const documents = parseAllDocuments(read('kubernetes/headrace.yaml')).map((document) => document.toJS() as Policy);
  const policy = documents.find(({ kind }) => kind === 'NetworkPolicy');
  t.match(policy?.spec.podSelector, { matchLabels: { 'app.kubernetes.io/name': 'headrace' } });
  for (const { from, ports } of policy?.spec.ingress ?? []) {
    for (const { port } of ports) t.equal(from === undefined, port === 'http', port);
  }
  t.equal(policy?.spec.ingress.length, 2);
  const services = documents.filter(({ kind }) => kind === 'Service');
  t.notOk(JSON.stringify(services).includes('admin'), 'no service leads there');
});

/** Time for the ledger behind the drain, in milliseconds. */
const LEDGER_MS = 15_000;

t.test(
  'the stop timeout of the systemd units exceeds the drain times of the documentation, with payments',
  async (t) => {
    const operations = readFileSync(new URL('../docs/operations.md', OPS), 'utf8');
    const documented = /^sharePort: true\ntimeouts: .+$/m.exec(operations)?.[0] ?? '';
    t.match(documented, 'drain');
    const { timeouts } = settingsOf(loadConfigText(documented, 'headrace.yaml', {}));
    for (const unit of ['headrace.service', 'headrace@.service']) {
      const text = read(`systemd/${unit}`);
      t.match(text, /^\[Unit\]$/m, unit);
      const stopS = Number(/^TimeoutStopSec=(\d+)$/m.exec(text)?.[1]);
      t.ok(stopS * 1000 > timeouts.unreadyMs + timeouts.drainMs + LEDGER_MS + CLOSE_MS, unit);
      t.match(text, /^ExecStart=\S+headrace serve --config /m);
    }
  },
);

t.test('the systemd units admit what the gateway needs of the system', async (t) => {
  for (const unit of ['headrace.service', 'headrace@.service']) {
    const families = /^RestrictAddressFamilies=(.+)$/m.exec(read(`systemd/${unit}`))?.[1]?.split(' ') ?? [];
    for (const family of ['AF_INET', 'AF_INET6', 'AF_UNIX']) t.ok(families.includes(family), unit);
    // getifaddrs(3), by which a gateway finds the addresses of its machine.
    t.ok(families.includes('AF_NETLINK'), unit);
  }
  const template = read('systemd/headrace@.service');
  t.match(template, /^DynamicUser=yes$/m);
  t.match(template, /^User=headrace$/m, 'both instances are one user: they share the state directory');
});

t.test('the container image exposes and probes the ports that are served', async (t) => {
  const text = read('docker/Dockerfile');
  const { listen } = settingsOf(resolveSettings({}));
  t.match(text, `EXPOSE ${listen.port} 9090`);
  t.match(text, `127.0.0.1:${listen.port}/health`);
  t.ok(ROUTES.some(({ path }) => path === '/health'));
  const env = Object.fromEntries([...text.matchAll(/\b(HEADRACE_\w+)=(\S+)/g)].map(([, name, value]) => [name, value]));
  const own = settingsOf(loadConfigText('admin: 127.0.0.1:9000', 'headrace.yaml', env)).admin;
  t.same(own, { host: '127.0.0.1', port: 9000 }, 'no variable of the image overrides the configuration file');
  t.match(text, /^USER node$/m);
  for (const [, files = ''] of text.matchAll(/^COPY (?!--from)(.+) \S+$/gm)) {
    for (const file of files.split(' ')) t.ok(existsSync(new URL(`../${file}`, OPS)), file);
  }
});

interface Service {
  readonly command?: readonly string[];
  readonly depends_on?: readonly string[] | Readonly<Record<string, unknown>>;
  readonly environment?: Readonly<Record<string, string>>;
  readonly ports?: readonly string[];
  readonly profiles?: readonly string[];
  readonly read_only?: boolean;
  readonly stop_grace_period?: string;
  readonly volumes?: readonly string[];
}

t.test('the compose file names services, files, ports and settings that exist', async (t) => {
  const compose = parse(read('docker/compose.yaml'), { merge: true }) as {
    readonly services: Readonly<Record<string, Service>>;
    readonly volumes: Readonly<Record<string, unknown>>;
  };
  const { gateway, ...others } = compose.services;
  const env = {
    HEADRACE_API_KEY: gateway?.environment?.['HEADRACE_API_KEY'] ?? '',
    HEADRACE_STORE: (gateway?.environment?.['HEADRACE_STORE'] ?? '').replace(/\$\{.*?\}/, 'password'),
  };
  const { admin, adminHosts, listen, models, store, timeouts } = settingsOf(
    loadConfigText(read('docker/headrace.yaml'), 'headrace.yaml', env),
  );
  t.match(store, /^postgres:\/\/headrace:password@postgres:5432\/headrace$/);
  t.same(gateway?.ports, [`127.0.0.1:${listen.port}:${listen.port}`, `127.0.0.1:${admin?.port}:${admin?.port}`]);
  const graceS = Number(/^(\d+)s$/.exec(gateway?.stop_grace_period ?? '')?.[1]);
  t.ok(graceS * 1000 > timeouts.unreadyMs + timeouts.drainMs);
  for (const { url } of Object.values(models).flatMap(({ servers }) => servers)) {
    const { hostname, port } = new URL(url);
    const { command = [] } = others[hostname] ?? {};
    t.equal(command[0], 'host', url);
    t.equal(command[command.indexOf('--listen') + 1], `0.0.0.0:${port}`);
    t.ok(Object.keys(models).includes(command[command.indexOf('--model') + 1] ?? ''));
    t.ok(Object.keys(gateway?.depends_on ?? {}).includes(hostname));
  }
  const program = await programFor('all', processIo());
  const options = program.commands.find((command) => command.name() === 'host')?.options.map(({ long }) => long);
  for (const flag of others['host-1']?.command?.filter((word) => word.startsWith('--')) ?? [])
    t.ok(options?.includes(flag), flag);

  for (const [name, { ports = [], volumes = [] }] of Object.entries(compose.services)) {
    for (const port of ports) t.ok(port.startsWith('127.0.0.1:'), `${name} is published to this machine alone`);
    for (const [source = '', target = ''] of volumes.map((volume) => volume.split(':'))) {
      if (source.startsWith('.')) t.ok(existsSync(new URL(`docker/${source}`, OPS)), source);
      else t.ok(source in compose.volumes, source);
      t.ok(target.startsWith('/'));
    }
  }
  t.ok(gateway?.read_only);
  t.same(others['redis']?.profiles, ['redis'], 'one gateway needs no Redis: it does not start by itself');

  const prometheus = parse(read('docker/prometheus.yml')) as {
    readonly rule_files: readonly string[];
    readonly scrape_configs: readonly { readonly static_configs: readonly { readonly targets: readonly string[] }[] }[];
  };
  t.same(prometheus.scrape_configs[0]?.static_configs[0]?.targets, [`gateway:${admin?.port}`]);
  t.same(adminHosts, ['gateway'], 'the admin listener knows the name that Prometheus sends');
  for (const file of prometheus.rule_files) {
    t.ok(
      others['prometheus']?.volumes?.some((volume) => volume.includes(`:/etc/prometheus/${file}:`)),
      file,
    );
  }
  const { providers } = parse(read('docker/grafana-dashboards.yaml')) as {
    readonly providers: readonly { readonly options: { readonly path: string } }[];
  };
  t.ok(others['grafana']?.volumes?.some((volume) => volume.includes(`:${providers[0]?.options.path}/`)));
  const { datasources } = parse(read('docker/grafana-datasource.yaml')) as {
    readonly datasources: readonly { url: string }[];
  };
  t.ok(new URL(datasources[0]?.url ?? '').hostname in others);
});
