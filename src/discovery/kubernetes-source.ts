// Source of servers: the endpoints of services of Kubernetes, from their EndpointSlices (discovery.k8s.io/v1). An endpoint is used while
// it is ready and does not terminate. Labels of services or of pods say which model it runs, and how.

import type { Behavior, Context } from '../actor/index.ts';
import { DIALECT_WORDS, type DialectWord } from '../config/dialect-bits.ts';
import { type DiscoverySourceSettings, LEAST_WEIGHT, MOST_WEIGHT } from '../config/settings.ts';
import { type FoundModels, isModelName, type ServerDetails } from '../routing/index.ts';
import { type Endpoint, type EndpointSlice, type Pod, readEndpointSlice, readPod } from './endpoint-slice.ts';
import { KubernetesApi } from './kubernetes-api.ts';
import { listWatch } from './list-watch.ts';
import { baseUrl, type SourceDeps } from './source.ts';

export type KubernetesSourceSettings = Extract<DiscoverySourceSettings, { readonly kind: 'kubernetes' }>;

/** The objects of one kind have changed, or could not be read. */
type Command =
  | { readonly type: 'Slices'; readonly slices: ReadonlyMap<string, EndpointSlice> }
  | { readonly type: 'Pods'; readonly pods: Pods }
  | { readonly type: 'Failed'; readonly what: 'slices' | 'pods'; readonly problem: string };

type Labels = ReadonlyMap<string, string>;

/** By name. */
type Pods = ReadonlyMap<string, Pod>;

const SERVICE_NAME = 'kubernetes.io/service-name';
const MOST_SLICES = 10_000;
const MOST_PODS = 20_000;
/** Notes about endpoints that are left out. */
const MOST_NOTES = 8;

/** Makes the behaviour of the source. */
export function kubernetesSource(settings: KubernetesSourceSettings, deps: SourceDeps): Behavior<Command> {
  return (context) => {
    const api = new KubernetesApi(settings, context.clock);
    const source = new KubernetesSource(settings, deps);
    spawnWatches(settings, api, context);
    return {
      receive: (command) => {
        source.receive(command);
      },
      signal: () => api.close(),
    };
  };
}

function spawnWatches(settings: KubernetesSourceSettings, api: KubernetesApi, context: Context<Command>): void {
  const { self } = context;
  const { labels, namespace, selector, service } = settings;
  const ofService = service === undefined ? [] : [`${SERVICE_NAME}=${service}`];
  const slices = {
    path: '/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices',
    selector: [...ofService, ...(selector === undefined ? [] : [selector])].join(','),
    namespace,
    metadataOnly: false,
    read: readEndpointSlice,
    mostItems: MOST_SLICES,
  };
  context.spawn(
    listWatch(slices, {
      api,
      onItems: (items) => self.tell({ type: 'Slices', slices: items }),
      onFailure: (problem) => self.tell({ type: 'Failed', what: 'slices', problem }),
    }),
    { name: 'slices' },
  );
  if (labels === 'service') return;
  const wanted = new Set(labelNames(settings));
  const pods = {
    path: '/api/v1/namespaces/{namespace}/pods',
    selector: '',
    namespace,
    metadataOnly: true,
    read: (object: Readonly<Record<string, unknown>>) => readPod(object, wanted),
    mostItems: MOST_PODS,
  };
  context.spawn(
    listWatch(pods, {
      api,
      onItems: (items) => self.tell({ type: 'Pods', pods: items }),
      onFailure: (problem) => self.tell({ type: 'Failed', what: 'pods', problem: `pods: ${problem}` }),
    }),
    { name: 'pods' },
  );
}

function labelNames(settings: KubernetesSourceSettings): string[] {
  const { aliasLabel, dialectsLabel, modelLabel, weightLabel } = settings;
  return [aliasLabel, dialectsLabel, modelLabel, weightLabel].filter((name) => name !== undefined);
}

class KubernetesSource {
  readonly #settings: KubernetesSourceSettings;
  readonly #deps: SourceDeps;
  #slices: ReadonlyMap<string, EndpointSlice> | null = null;
  #pods: Pods | null = null;
  readonly #problems = new Map<string, string>();

  constructor(settings: KubernetesSourceSettings, deps: SourceDeps) {
    this.#settings = settings;
    this.#deps = deps;
  }

  receive(command: Command): void {
    if (command.type === 'Failed') {
      this.#problems.set(command.what, command.problem);
      this.#deps.onFailure(command.problem);
      return;
    }
    if (command.type === 'Slices') this.#slices = command.slices;
    else this.#pods = command.pods;
    this.#problems.delete(command.type === 'Slices' ? 'slices' : 'pods');
    if (this.#slices === null || (this.#settings.labels === 'pod' && this.#pods === null)) return;
    const { models, notes } = modelsOf(this.#slices, this.#pods, this.#settings);
    const [problem = null] = this.#problems.values();
    this.#deps.onAnswer(models, notes, problem);
  }
}

/** The models behind endpoints. `pods`: where their labels count. */
function modelsOf(
  slices: ReadonlyMap<string, EndpointSlice>,
  pods: Pods | null,
  settings: KubernetesSourceSettings,
): { readonly models: FoundModels; readonly notes: readonly string[] } {
  const notes = new Set<string>();
  const models = new Map<string, { servers: ServerDetails[]; aliases: Set<string> }>();
  const seen = new Set<string>();
  for (const { endpoint, port, slice } of usable(slices, settings, notes)) {
    if (pods !== null && endpoint.pod === null) {
      notes.add(`endpoints of ${slice.name} are left out: they are of no pod, whose labels would count`);
      continue;
    }
    const labels = pods === null ? slice.labels : labelsOf(endpoint, pods);
    // A pod that is not known yet: its labels come with the next event.
    if (labels === undefined) continue;
    const model = (settings.modelLabel === undefined ? undefined : labels.get(settings.modelLabel)) ?? settings.model;
    if (model === undefined || !isModelName(model)) {
      notes.add(`${slice.name} is left out: it has no label ${settings.modelLabel ?? ''}`);
      continue;
    }
    // While a service changes, an endpoint may be in two slices, and a pod with addresses of both families is one server.
    const identity = `${model} ${port} ${endpoint.instance ?? endpoint.pod ?? endpoint.address}`;
    if (seen.has(identity)) continue;
    seen.add(identity);
    let found = models.get(model);
    if (found === undefined) {
      found = { servers: [], aliases: new Set(settings.aliases) };
      models.set(model, found);
    }
    const alias = settings.aliasLabel === undefined ? undefined : labels.get(settings.aliasLabel);
    if (alias !== undefined && isModelName(alias)) found.aliases.add(alias);
    found.servers.push(serverOf(endpoint, port, labels, slice, settings, notes));
  }
  const sorted = [...models]
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([model, { aliases, servers }]) => {
      const inOrder = servers.sort((a, b) => (a.url < b.url ? -1 : 1));
      return [model, { servers: inOrder, aliases: [...aliases].sort() }] as const;
    });
  return { models: new Map(sorted), notes: [...notes].slice(0, MOST_NOTES) };
}

/** Undefined while the pod is not known, or only the former one of its name. */
function labelsOf({ instance, pod }: Endpoint, pods: Pods): Labels | undefined {
  const known = pods.get(pod ?? '');
  const isOther = known !== undefined && instance !== null && known.uid !== null && known.uid !== instance;
  return isOther ? undefined : known?.labels;
}

interface Usable {
  readonly slice: EndpointSlice;
  readonly endpoint: Endpoint;
  readonly port: number;
}

/** The endpoints that get requests; those with IPv4 addresses come first, and the order of events does not matter. */
function* usable(
  slices: ReadonlyMap<string, EndpointSlice>,
  { port: wanted }: KubernetesSourceSettings,
  notes: Set<string>,
): Generator<Usable> {
  const inOrder = [...slices.values()].sort(
    (a, b) => RANKS[a.addressType] - RANKS[b.addressType] || (a.name < b.name ? -1 : 1),
  );
  for (const slice of inOrder) {
    const port = portOf(slice, wanted);
    if (port === null && slice.endpoints.length > 0) {
      notes.add(`${slice.name} is left out: it has no port ${wanted ?? 'that is the only one, or named http'}`);
    }
    if (port === null) continue;
    for (const endpoint of slice.endpoints) {
      if (endpoint.isReady && !endpoint.isTerminating) yield { slice, endpoint, port };
    }
  }
}

const RANKS = { IPv4: 0, IPv6: 1, FQDN: 2 } as const;

/** The port of the endpoints of a slice; null when it cannot be told. */
function portOf({ ports }: EndpointSlice, wanted: string | undefined): number | null {
  if (wanted !== undefined && /^\d+$/.test(wanted)) return Number(wanted);
  if (wanted !== undefined) return ports.find(({ name }) => name === wanted)?.port ?? null;
  const [only] = ports;
  return (ports.length === 1 ? only : ports.find(({ name }) => name === 'http'))?.port ?? null;
}

function serverOf(
  { address, instance }: Endpoint,
  port: number,
  labels: Labels,
  slice: EndpointSlice,
  settings: KubernetesSourceSettings,
  notes: Set<string>,
): ServerDetails {
  const { apiKey, dialectsLabel, host, scheme, weightLabel } = settings;
  const dialects = labelled(labels, dialectsLabel, readDialects, slice, notes) ?? settings.dialects;
  const weight = labelled(labels, weightLabel, readWeight, slice, notes) ?? settings.weight;
  const asked = host ?? (scheme === 'https' && slice.addressType !== 'FQDN' ? slice.service : undefined);
  return {
    url: baseUrl(scheme, address, port),
    ...(dialects !== undefined && { dialects }),
    ...(apiKey !== undefined && { apiKey }),
    ...(weight !== undefined && { weight }),
    ...(asked !== undefined && { host: asked }),
    ...(instance !== null && { instance }),
  };
}

function labelled<T>(
  labels: Labels,
  name: string | undefined,
  read: (text: string) => T | null,
  slice: EndpointSlice,
  notes: Set<string>,
): T | undefined {
  const text = name === undefined ? undefined : labels.get(name);
  if (text === undefined || name === undefined) return undefined;
  const value = read(text);
  if (value === null) notes.add(`label ${name} of ${slice.name} is left out: it cannot be read`);
  return value ?? undefined;
}

/** `chat.messages`, or `auto`. */
function readDialects(text: string): ServerDetails['dialects'] | null {
  if (text === 'auto') return 'auto';
  const words = text.split('.');
  return words.every((word) => (DIALECT_WORDS as readonly string[]).includes(word)) ? (words as DialectWord[]) : null;
}

function readWeight(text: string): number | null {
  const weight = /^\d+(?:\.\d+)?$/.test(text) ? Number(text) : NaN;
  return weight >= LEAST_WEIGHT && weight <= MOST_WEIGHT ? weight : null;
}
