// Schema of the values of the Helm chart, in which `config` is the schema of the configuration file, and the table of the values.

import { settingsJsonSchema } from '../../src/config/json-schema.ts';

interface ValueSchema {
  readonly [keyword: string]: unknown;
  readonly description?: string;
  readonly properties?: Readonly<Record<string, ValueSchema>>;
}

type Rest = Readonly<Record<string, unknown>>;

const value = (type: string | readonly string[], description: string, rest: Rest = {}): ValueSchema => ({
  type,
  description,
  ...rest,
});
const text = (description: string, rest?: Rest): ValueSchema => value('string', description, rest);
const flag = (description: string): ValueSchema => value('boolean', description);
const count = (description: string, minimum: number, rest?: Rest): ValueSchema =>
  value('integer', description, { minimum, ...rest });
/** Passed on as it is; the API server checks it. */
const objects = (description: string): ValueSchema => value('array', description, { items: { type: 'object' } });
const object = (description: string): ValueSchema => value('object', description);
const strings = (description: string): ValueSchema =>
  value('object', description, { additionalProperties: { type: 'string' } });
const group = (description: string, properties: Readonly<Record<string, ValueSchema>>): ValueSchema =>
  value('object', description, { properties, additionalProperties: false });

const PORT = { maximum: 65_535 };

const VALUES = {
  nameOverride: text('Name of all objects; empty: the name of the release.', {
    pattern: '^([a-z]([a-z0-9-]*[a-z0-9])?)?$',
  }),
  image: group('Container image', {
    repository: text('Image without its tag.', { minLength: 1 }),
    tag: text('Tag; empty: the version of the application in the chart.'),
    pullPolicy: { enum: ['Always', 'IfNotPresent', 'Never'], description: 'When nodes pull the image.' },
    pullSecrets: objects('Secrets of the registry, as imagePullSecrets.'),
  }),
  config: { description: 'The configuration file, headrace.yaml. Secrets are references.' },
  restartOnConfigChange: flag('Restarts the pods when `config` changes; false: they read it again while they run.'),
  secrets: group('Files below /etc/headrace/secrets', {
    existingSecret: text('Secret whose keys become files.'),
    values: strings('Secret that the chart makes, for trials: file names and contents.'),
  }),
  env: objects('Environment variables of the container.'),
  envFrom: objects('Secrets and ConfigMaps whose keys become environment variables.'),
  replicas: count('Number of gateways without autoscaling.', 0),
  autoscaling: group('HorizontalPodAutoscaler', {
    enabled: flag('Whether there is one.'),
    minReplicas: count('Fewest gateways.', 1),
    maxReplicas: count('Most gateways.', 1),
    cpuPercent: count('CPU time to keep, in percent of the request.', 1, { maximum: 100 }),
    requestsInFlight: count('Requests in flight to keep per gateway, from a metrics adapter; 0: not used.', 0),
    scaleDownSeconds: count('Time for which fewer gateways must suffice before one is stopped.', 0, { maximum: 3600 }),
  }),
  podDisruptionBudget: group('PodDisruptionBudget', {
    enabled: flag('Whether there is one.'),
    maxUnavailable: value(
      ['integer', 'string'],
      'Gateways that an eviction may stop at the same time, or a percentage.',
      {
        pattern: '^[0-9]+%$',
        minimum: 0,
      },
    ),
  }),
  preStopSeconds: count('Time between the removal from the Service and SIGTERM.', 0, { maximum: 600 }),
  persistence: group('Volume of a store in SQLite', {
    enabled: flag('Whether /var/lib/headrace is a volume that stays; for one gateway only.'),
    size: text('Size of the volume.', { pattern: '^[0-9]+(\\.[0-9]+)?([KMGTPE]i?)?$' }),
    storageClass: value(['string', 'null'], 'Storage class; null: that of the cluster.'),
    existingClaim: text('Claim to use instead of one that the chart makes.'),
  }),
  service: group('Service of the public port', {
    type: { enum: ['ClusterIP', 'LoadBalancer', 'NodePort'], description: 'Type of the service.' },
    port: count('Port of the service.', 1, PORT),
    annotations: strings('Annotations.'),
  }),
  adminService: group('Headless service of the admin port', {
    enabled: flag('Whether there is one; serviceMonitor needs it and makes it.'),
    port: count('Port of the service.', 1, PORT),
  }),
  serviceAccount: group('ServiceAccount', {
    create: flag('Whether the chart makes it.'),
    name: text('Its name; empty: that of the other objects, or default.'),
    annotations: strings('Annotations.'),
  }),
  serviceMonitor: group('ServiceMonitor of the Prometheus operator', {
    enabled: flag('Whether there is one.'),
    interval: text('Time between two scrapes.', { pattern: '^[0-9]+(ms|s|m|h)$' }),
    labels: strings('Labels by which Prometheus selects it.'),
  }),
  picker: group('Endpoint picker of the Gateway API', {
    enabled: flag('Whether pickers run beside the gateways.'),
    replicas: count('Number of pickers.', 0),
    port: count('gRPC port of pods and Service.', 1, PORT),
    fallbacks: count('Servers named behind the picked one, for data planes that retry.', 0),
    dataPlanes: objects('Peers that may reach the gRPC port; empty: all.'),
    resources: object('Requests and limits of the container.'),
  }),
  networkPolicy: group('NetworkPolicy', {
    enabled: flag('Whether there is one.'),
    clients: objects('Peers that may reach the public port; empty: all.'),
    monitoring: objects('Peers that may reach the admin port; empty: none.'),
    egress: group('Connections of the gateways', {
      enabled: flag('Whether they are restricted to DNS and what follows.'),
      rules: objects('Egress rules for PostgreSQL, Redis or Valkey, and servers.'),
      web: flag('Whether ports 80 and 443 of public addresses may be reached: pages, search engines, payments.'),
      apiServer: text('Addresses of the API server, for discovery by EndpointSlices.', { pattern: '/[0-9]+$' }),
    }),
  }),
  resources: object('Requests and limits of the container.'),
  topologySpread: flag('Whether gateways are spread over nodes and zones.'),
  nodeSelector: strings('Labels of nodes.'),
  tolerations: objects('Tolerations.'),
  affinity: object('Affinity.'),
  priorityClassName: text('Priority class.'),
  podAnnotations: strings('Annotations of the pods.'),
  podLabels: strings('Labels of the pods.'),
  extraVolumes: objects('Further volumes.'),
  extraVolumeMounts: objects('Further mounts of the container.'),
} as const satisfies Readonly<Record<string, ValueSchema>>;

/** What is written into the ConfigMap must not hold a secret: these settings are references to a file or a variable. */
const REFERENCED = ['adminToken', 'store', 'cluster.url'];
const REFERENCE = '^\\$\\{[^{}]+\\}$';

/** Settings with secrets deeper down: `*` is any name, `[]` any entry. They need a reference within their text. */
const SECRETS = [
  'models.*.apiKey',
  'models.*.servers.[].apiKey',
  'discovery.[].apiKey',
  'keys.static.[].key',
  'trust.token',
  'trust.server.apiKey',
  'webhooks.endpoints.*.secret',
  'payments.facilitatorHeaders.*',
  'telemetry.otlp.headers.*',
];
const HAS_REFERENCE = '\\$\\{[^{}]+\\}';

/** Others that may be plain: a path of a file, a URL without user and query. */
const PARTLY: Readonly<Record<string, string>> = {
  'trust.signingKey': `^file:|${HAS_REFERENCE}`,
  'payments.rpc': `^[^?@]*$|${HAS_REFERENCE}`,
  'fetch.renderer.url': `^[^?@]*$|${HAS_REFERENCE}`,
};

/** Names of secrets in the settings of a search engine, which depend on its kind. */
const ENGINE_SECRETS = '([kK]ey|[tT]oken|[sS]ecret|[pP]assword)$';

/** Lets the text at a path be nothing but what has the pattern. */
function restrict(node: ValueSchema, path: readonly string[], pattern: string): number {
  const [name = '', ...rest] = path;
  let found = 0;
  for (const key of ['anyOf', 'oneOf', 'allOf']) {
    for (const each of (node[key] as ValueSchema[] | undefined) ?? []) found += restrict(each, path, pattern);
  }
  const at = { '*': 'additionalProperties', '[]': 'items' }[name];
  const parent = (at === undefined ? node.properties : node) as Record<string, ValueSchema> | undefined;
  const child = parent?.[at ?? name];
  if (parent === undefined || typeof child !== 'object') return found;
  if (rest.length > 0) return found + restrict(child, rest, pattern);
  parent[at ?? name] = { description: child.description ?? '', type: ['string', 'null'], pattern };
  return found + 1;
}

/** Text of `values.schema.json`. */
export function helmValuesSchema(): string {
  // The regular expressions of Helm have no lookahead, and count to 1,000 at most.
  const {
    $schema,
    title: _title,
    ...config
  } = JSON.parse(
    settingsJsonSchema()
      .replaceAll(/\(\?=[^)]*\)/g, '')
      .replaceAll(/\{(\d+),\d{4,}\}/g, '{$1,}'),
  ) as ValueSchema;
  for (const path of REFERENCED) {
    const owner = path.split('.').slice(0, -1);
    const parent = owner.reduce((node, name) => node.properties?.[name] as ValueSchema, config as ValueSchema);
    const properties = parent.properties as Record<string, ValueSchema>;
    const name = path.slice(path.lastIndexOf('.') + 1);
    // An address without a password is no secret.
    const plain = { store: '^sqlite:.+$', url: '^rediss?://[^@]+$' }[name];
    properties[name] = {
      anyOf: [{ type: 'null' }, { type: 'string', pattern: plain === undefined ? REFERENCE : `${REFERENCE}|${plain}` }],
    };
  }
  const patterns = { ...Object.fromEntries(SECRETS.map((path) => [path, HAS_REFERENCE])), ...PARTLY };
  for (const [path, pattern] of Object.entries(patterns)) {
    if (restrict(config as ValueSchema, path.split('.'), pattern) === 0) throw new Error(`there is no setting ${path}`);
  }
  const engines = config.properties?.['search']?.properties?.['engines'] as Record<string, unknown>;
  engines['additionalProperties'] = {
    type: 'object',
    patternProperties: { [ENGINE_SECRETS]: { type: ['string', 'null'], pattern: HAS_REFERENCE } },
  };
  const properties: Record<string, unknown> = { ...VALUES, config: { ...VALUES.config, ...config } };
  // Helm hands the values that all charts of a release share to each of them.
  properties['global'] = { type: 'object' };
  const schema = {
    $schema,
    title: 'Values of the chart headrace',
    type: 'object',
    properties,
    additionalProperties: false,
  };
  return `${JSON.stringify(schema, null, 2)}\n`;
}

/** Rows of the table of values: name, default of `values.yaml`, meaning. */
export function helmValuesRows(defaults: unknown): string[][] {
  const rows = (properties: Readonly<Record<string, ValueSchema>>, prefix: string, from: unknown): string[][] =>
    Object.entries(properties).flatMap(([name, schema]) => {
      const set = (from as Record<string, unknown>)[name];
      if (schema.properties !== undefined) return rows(schema.properties, `${prefix}${name}.`, set);
      const shown = name === 'config' || name === 'monitoring' ? 'see `values.yaml`' : `\`${JSON.stringify(set)}\``;
      return [[`\`${prefix}${name}\``, shown, schema.description ?? '']];
    });
  return rows(VALUES, '', defaults);
}
