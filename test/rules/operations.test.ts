// The deployment files in `ops/` agree with the gateway: their settings are valid, their ports and probes are served, and their stop
// timeouts exceed the time that the gateway takes to drain.

import { readFileSync } from 'node:fs';
import t from 'tap';
import { parseAllDocuments } from 'yaml';
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
  const env = { STORE: 'postgres://headrace@db/headrace', ADMIN_TOKEN: 'token' };
  const { admin, listen, timeouts } = settingsOf(loadConfigText(text, 'headrace.yaml', env));
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
  t.match(policy?.spec.podSelector, { matchLabels: { app: 'headrace' } });
  for (const { from, ports } of policy?.spec.ingress ?? []) {
    for (const { port } of ports) t.equal(from === undefined, port === 'http', port);
  }
  t.equal(policy?.spec.ingress.length, 2);
  const services = documents.filter(({ kind }) => kind === 'Service');
  t.notOk(JSON.stringify(services).includes('admin'), 'no service leads there');
});

t.test('the stop timeout of the systemd units exceeds the default drain time', async (t) => {
  const { timeouts } = settingsOf(resolveSettings({}));
  for (const unit of ['headrace.service', 'headrace@.service']) {
    const text = read(`systemd/${unit}`);
    t.match(text, /^\[Unit\]$/m, unit);
    const stopS = Number(/^TimeoutStopSec=(\d+)$/m.exec(text)?.[1]);
    t.ok(stopS * 1000 > timeouts.unreadyMs + timeouts.drainMs, unit);
    t.match(text, /^ExecStart=\S+headrace serve --config /m);
  }
});

t.test('the container image exposes and probes the ports that are served', async (t) => {
  const text = read('docker/Dockerfile');
  const { listen } = settingsOf(resolveSettings({}));
  t.match(text, `EXPOSE ${listen.port} 9090`);
  t.match(text, `127.0.0.1:${listen.port}/health`);
  const admin = /HEADRACE_ADMIN=(\S+)/.exec(text)?.[1] ?? '';
  t.ok('settings' in resolveSettings({}, { HEADRACE_ADMIN: admin }));
});
