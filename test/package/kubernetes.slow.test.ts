// The Helm chart and the manifests in `ops/`: rendered by Helm, linted, and validated strictly by kubeconform against the schemas of
// Kubernetes and of the custom resources. Needs what ops/helm/build.sh builds.

import { spawnSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { parseAllDocuments } from 'yaml';
import { ROOT } from './installed.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

const FOLDER = join(ROOT, '.helm-tool');
const CHART = join(ROOT, 'ops/helm/headrace');
const VERSIONS = ['1.30.0', '1.33.0', '1.37.0'];
const built = existsSync(join(FOLDER, 'crds/complete'));
const options = built ? {} : { skip: 'ops/helm/build.sh was not run' };

const folder = temporaryFolder(t);

interface Outcome {
  readonly status: number | null;
  readonly output: string;
}

function run(args: readonly string[]): Outcome {
  const { error, status, stderr, stdout } = spawnSync(join(FOLDER, 'helm-tool'), args, { encoding: 'utf8' });
  if (error !== undefined) throw error;
  return { status, output: stdout + stderr };
}

const valuesFiles = readdirSync(join(CHART, 'ci')).map((file) => join(CHART, 'ci', file));
valuesFiles.push(join(CHART, 'values.yaml'), join(ROOT, 'ops/kubernetes/values.yaml'));

for (const file of valuesFiles) {
  t.test(`the chart with ${file.slice(ROOT.length)} is valid`, options, async (t) => {
    const lint = run(['lint', CHART, '-f', file]);
    t.match(lint, { status: 0, output: '' });
    const { output, status } = run(['render', CHART, '-f', file]);
    t.equal(status, 0, output);
    const manifests = join(folder, 'manifests.yaml');
    writeFileSync(manifests, output);
    for (const version of VERSIONS) {
      const checked = run(['validate', '-s', FOLDER, '-k', version, manifests]);
      t.equal(checked.status, 0, checked.output);
      t.match(checked.output, /^\d+ resources, 0 invalid/m);
    }
  });
}

t.test('values that are wrong are refused', options, async (t) => {
  const wrong: readonly (readonly [string, RegExp])[] = [
    ['replica: 3', /replica/],
    ['replicas: many', /replicas/],
    ['config: { listne: 0.0.0.0:8080 }', /listne/],
    ['config: { timeouts: { drain: soon } }', /drain/],
    ['config: { adminToken: plain-text }', /adminToken/],
    ['config: { keys: { static: [{ key: hr_plain, account: a }] } }', /keys/],
    ['config: { models: { m: { servers: [{ url: "http://a:1", apiKey: sk-plain }] } } }', /models/],
    ['config: { webhooks: { endpoints: { a: { url: "https://a.example", secret: whsec_plain } } } }', /webhooks/],
    ['config: { search: { engines: { a: { kind: tavily, apiKey: tvly-plain } } } }', /search/],
    ['config: { telemetry: { otlp: { headers: { authorization: Bearer plain } } } }', /telemetry/],
    ['config: { payments: { rpc: "https://rpc.example/?key=plain" } }', /payments/],
    ['picker: { enabled: true, port: 0 }', /port/],
    ['config: { store: "postgres://user:password@db/headrace" }', /store/],
    ['config: { cluster: { url: "redis://:password@valkey" } }', /cluster/],
    ['config: { admin: 127.0.0.1:9090 }', /config.admin must be/],
    ['config: { admin: null }', /config.admin must be/],
    ['config: { admin: 9090 }', /config.admin must be/],
    ['config: { listen: "${LISTEN}" }', /config.listen must be/],
    ['config: { listen: 0.0.0.0:0 }', /config.listen must be/],
    ['config: { timeouts: { drain: "${DRAIN}" } }', /timeouts.drain must be a time/],
    ['service: { type: Cluster }', /type/],
    ['networkPolicy: { egres: {} }', /egres/],
    ['config: { store: "sqlite:/var/lib/headrace/headrace.db" }', /set replicas to 1/],
    ['{ replicas: 1, config: { store: "sqlite:/var/lib/headrace/headrace.db" } }', /set persistence.enabled/],
    ['persistence: { enabled: true }', /is for one gateway/],
    ['secrets: { existingSecret: a, values: { b: c } }', /use one/],
    ['autoscaling: { enabled: true, minReplicas: 9, maxReplicas: 3 }', /exceeds maxReplicas/],
  ];
  const file = join(folder, 'wrong.yaml');
  for (const [text, reason] of wrong) {
    writeFileSync(file, text);
    const { output, status } = run(['render', CHART, '-f', file]);
    t.equal(status, 1, text);
    t.match(output, reason);
  }
});

t.test('names of digits stay texts, and values take the place of what the chart writes itself', options, async (t) => {
  const file = join(folder, 'digits.yaml');
  writeFileSync(
    file,
    `
nameOverride: ${'n'.repeat(63)}
config: { listen: 8000, admin: '[::]:9000' }
secrets: { existingSecret: '123' }
serviceAccount: { create: false, name: '456' }
priorityClassName: '789'
persistence: { enabled: true, existingClaim: '12', storageClass: '' }
replicas: 1
serviceMonitor: { enabled: true, labels: { app.kubernetes.io/managed-by: '1' } }
podAnnotations: { prometheus.io/scrape: 'false' }
podLabels: { app.kubernetes.io/version: '2', team: '3' }
picker: { enabled: true }
`,
  );
  const { output, status } = run(['render', CHART, '-f', file]);
  t.equal(status, 0, output);
  const manifests = join(folder, 'digits-manifests.yaml');
  writeFileSync(manifests, output);
  for (const version of VERSIONS) {
    const checked = run(['validate', '-s', FOLDER, '-k', version, manifests]);
    t.equal(checked.status, 0, checked.output);
  }
  type Made = { kind: string; spec: { template: { metadata: unknown; spec: unknown } } };
  const made = parseAllDocuments(output).map((document) => {
    t.same(document.errors, []);
    return document.toJS() as Made | null;
  });
  for (const { spec } of made.filter((each) => each?.kind === 'Deployment') as Made[]) {
    t.match(spec.template, {
      metadata: {
        labels: { team: '3' },
        annotations: { 'prometheus.io/scrape': 'false', 'prometheus.io/port': '9000' },
      },
      spec: { serviceAccountName: '456', priorityClassName: '789' },
    });
  }
  writeFileSync(file, 'replicas: 1\npersistence: { enabled: true, storageClass: "" }\n');
  t.match(run(['render', CHART, '-f', file]).output, /storageClassName: ""/, 'no class is not that of the cluster');
});

t.test('a field that no schema has is refused', options, async (t) => {
  const file = join(folder, 'unknown.yaml');
  writeFileSync(file, run(['render', CHART]).output.replace('capabilities:', 'capability:'));
  for (const version of VERSIONS) {
    t.match(run(['validate', '-s', FOLDER, '-k', version, file]), { status: 1, output: /'capability' not allowed/ });
  }
});

t.test('the plain manifest is what the chart makes of its values', options, async (t) => {
  const [, ...rest] = readFileSync(join(ROOT, 'ops/kubernetes/headrace.yaml'), 'utf8').split(/(?=^---$)/m);
  t.equal(
    rest.join('').trim(),
    run(['render', CHART, '-f', join(ROOT, 'ops/kubernetes/values.yaml')]).output.trim(),
    'run ops/kubernetes/write.sh',
  );
});

t.test('the grace period follows the timeouts', options, async (t) => {
  const { output } = run(['render', CHART, '-f', join(CHART, 'ci/all-values.yaml')]);
  // 8 s preStop, 1.5 s unready, 60 s drain, 20 s for the ledger.
  t.match(output, 'terminationGracePeriodSeconds: 90\n');
  const folder = t.testdir({ 'paid.yaml': 'config: { payments: { facilitator: https://facilitator.example } }\n' });
  // 5 s preStop, 10 s unready, 120 s drain, 20 s for the ledger, 90 s for settlements.
  t.match(run(['render', CHART, '-f', `${folder}/paid.yaml`]).output, 'terminationGracePeriodSeconds: 245\n');
});

t.test('pickers have labels of their own, and the gRPC port and health of `headrace picker`', options, async (t) => {
  const { output } = run(['render', CHART, '-f', join(CHART, 'ci/all-values.yaml')]);
  type Made = { kind: string; metadata: { name: string }; spec: { selector: Record<string, unknown> } };
  const made = parseAllDocuments(output).map((document) => document.toJS() as Made | null);
  const named = (kind: string, name: string): Made['spec'] | undefined =>
    made.find((each) => each?.kind === kind && each.metadata.name === name)?.spec;
  t.not(named('Service', 'edge-picker')?.selector['app.kubernetes.io/name'], undefined);
  t.not(
    named('Service', 'edge-picker')?.selector['app.kubernetes.io/name'],
    named('Service', 'edge')?.selector['app.kubernetes.io/name'],
  );
  t.match(output, '- 0.0.0.0:9005\n');
  t.match(output, /readinessProbe:\n +grpc: \{ port: 9005, service: readiness \}/);
  t.notMatch(run(['render', CHART]).output, /picker/);
});

t.test('a Role exists only for discovery by EndpointSlices, in each of its namespaces', options, async (t) => {
  const roles = (file: string): unknown[] =>
    parseAllDocuments(run(['render', CHART, '-n', 'gateways', '-f', join(CHART, 'ci', file)]).output)
      .map((document) => document.toJS() as { kind: string; metadata: { namespace: string }; rules: unknown[] })
      .filter(({ kind }) => kind === 'Role')
      .map(({ metadata, rules }) => [metadata.namespace, rules.length]);
  t.same(roles('one-sqlite-values.yaml'), []);
  t.same(roles('many-postgres-values.yaml'), [
    ['gateways', 2],
    ['models', 1],
  ]);
});

t.test('releases of two namespaces may watch the same one', options, async (t) => {
  type Made = { kind: string; metadata: { name: string; namespace?: string }; roleRef?: { name: string } };
  const names = (namespace: string): string[] =>
    parseAllDocuments(run(['render', CHART, '-n', namespace, '-f', join(CHART, 'ci/many-postgres-values.yaml')]).output)
      .map((document) => document.toJS() as Made)
      .filter((made) => made.kind.startsWith('Role') && made.metadata.namespace === 'models')
      .map(({ kind, metadata, roleRef }) => `${kind} ${metadata.name} ${roleRef?.name ?? ''}`);
  t.equal(names('live').length, 2);
  t.same(
    names('live').filter((name) => names('staging').includes(name)),
    [],
  );
});

t.test('the manifests for gateways in front are valid', options, async (t) => {
  const files = readdirSync(join(ROOT, 'ops/kubernetes/gateway-api')).map((file) =>
    join(ROOT, 'ops/kubernetes/gateway-api', file),
  );
  t.ok(files.length >= 2);
  for (const version of VERSIONS) {
    const { output, status } = run(['validate', '-s', FOLDER, '-k', version, ...files]);
    t.equal(status, 0, output);
  }
});
