// A fleet of simulated hosts in one process, described by a plan. All errors of a plan are reported together, by path.
import { type ObjectSchema, type Schema, unknownMembers, validate } from '../api/schema.ts';
import { type ProfileName, PROFILES } from './engine/profiles.ts';
import { type FaultPlan, parsePlan } from './faults.ts';
import { type Host, type HostSettings, createHost } from './model-host.ts';
import { type HostDialect, HOST_DIALECTS } from './model-routes.ts';
import { parseScript } from './script.ts';
import { type SystemPromptScope, SYSTEM_PROMPT_SCOPES } from './system-prompts.ts';
/** One kind of host in a plan; `defaults` of the plan has the same members. */
export interface FleetEntry {
  readonly models?: readonly string[];
  /** Copies of it; default 1. Copies are named `name-1`, `name-2` and take the ports that follow. */
  readonly count?: number;
  readonly name?: string;
  /** Port of the first copy; default 0, any. */
  readonly port?: number;
  readonly profile?: ProfileName;
  readonly slots?: number;
  /** Most tokens of a sequence. */
  readonly context?: number;
  /** Times faster than real. */
  readonly speed?: number;
  readonly seed?: number;
  /** As in the settings of the simulated engine; `network` is milliseconds. */
  readonly variation?: boolean;
  readonly coldStart?: boolean;
  readonly slowdown?: number;
  readonly network?: number;
  /** Milliseconds until it is ready. */
  readonly loading?: number;
  readonly dialects?: readonly HostDialect[];
  readonly systemPrompt?: SystemPromptScope;
  /** A script, as `parseScript` reads it. */
  readonly script?: unknown;
  /** Rules, as `POST /sim/faults` takes them. */
  readonly faults?: unknown;
}

/** A host of a fleet, ready to be created. */
export interface Planned {
  readonly settings: HostSettings;
  readonly faults: FaultPlan | null;
}

/** A plan that cannot be carried out; the message names every mistake. */
export class FleetError extends Error {}

const COUNT: Schema = { type: 'integer', minimum: 1 };

const ENTRY: ObjectSchema<FleetEntry> = {
  type: 'object',
  fields: {
    models: { type: 'array', items: { type: 'string', minLength: 1 }, minItems: 1 },
    count: { type: 'integer', minimum: 1, maximum: 1000 },
    name: { type: 'string', minLength: 1 },
    port: { type: 'integer', minimum: 0, maximum: 65_535 },
    profile: { type: 'enum', values: Object.keys(PROFILES) },
    slots: COUNT,
    context: { type: 'integer', minimum: 8 },
    speed: { type: 'number', exclusiveMinimum: 0 },
    seed: { type: 'integer' },
    variation: { type: 'boolean' },
    coldStart: { type: 'boolean' },
    slowdown: { type: 'number', exclusiveMinimum: 0 },
    network: { type: 'number', minimum: 0 },
    loading: { type: 'number', minimum: 0 },
    dialects: { type: 'array', items: { type: 'enum', values: HOST_DIALECTS }, minItems: 1 },
    systemPrompt: { type: 'enum', values: SYSTEM_PROMPT_SCOPES },
    script: { type: 'any' },
    faults: { type: 'any' },
  },
};

const PLAN: ObjectSchema<{ defaults?: FleetEntry; hosts: readonly FleetEntry[] }> = {
  type: 'object',
  fields: { defaults: ENTRY, hosts: { type: 'array', items: ENTRY, minItems: 1, required: true } },
};

/**
 * Reads a plan, `{ defaults?, hosts: [...] }`. `hostname` is where all of them listen, `common` what they have in common.
 * Throws a FleetError.
 */
export function planFleet(input: unknown, hostname: string, common: Partial<HostSettings> = {}): Planned[] {
  const mistakes = unknownMembers(PLAN, input);
  const checked = validate(PLAN, input, []);
  if ('errors' in checked) mistakes.push(...checked.errors.map(({ loc, msg }) => `${loc.join('.') || 'plan'}: ${msg}`));
  if ('errors' in checked || mistakes.length > 0) throw new FleetError(mistakes.join('; '));
  const { defaults = {}, hosts } = checked.value;
  const planned = hosts.flatMap((own, at) => {
    const entry = { ...defaults, ...own };
    if (entry.models === undefined) throw new FleetError(`hosts.${at}.models: Field required`);
    return expand({ ...entry, models: entry.models }, at, hostname, common);
  });
  const names = planned.map(({ settings }) => settings.name);
  const twice = names.find((name, at) => names.indexOf(name) !== at);
  // Hosts are told apart by their names: by the gateway they register at, and in `x-host`.
  if (twice !== undefined) throw new FleetError(`hosts: the name '${twice}' is used twice`);
  return planned;
}

function expand(
  entry: FleetEntry & { readonly models: readonly string[] },
  at: number,
  hostname: string,
  common: Partial<HostSettings>,
): Planned[] {
  const { models, count = 1, name = `host-${at + 1}`, port = 0, profile, slots, context, speed, seed, loading } = entry;
  const { variation, coldStart, slowdown, network: networkMs } = entry;
  const varied = { variation, coldStart, slowdown, networkMs };
  const faults = read(`hosts.${at}.faults`, () => parsePlan(entry.faults ?? null));
  const script = entry.script === undefined ? undefined : read(`hosts.${at}.script`, () => parseScript(entry.script));
  return Array.from({ length: count }, (_, copy) => ({
    faults,
    settings: {
      ...common,
      models,
      name: count === 1 ? name : `${name}-${copy + 1}`,
      listen: `${hostname}:${port === 0 ? 0 : port + copy}`,
      engine: { profile, slots, contextTokens: context, speed, ...varied },
      ...(entry.dialects !== undefined && { dialects: entry.dialects }),
      ...(entry.systemPrompt !== undefined && { systemPrompt: entry.systemPrompt }),
      ...(script !== undefined && { script }),
      ...(seed !== undefined && { seed }),
      ...(loading !== undefined && { loadingMs: loading }),
    },
  }));
}

function read<T>(path: string, parse: () => T): T {
  try {
    return parse();
  } catch (error) {
    throw new FleetError(`${path}: ${(error as Error).message}`, { cause: error });
  }
}

/** Starts the hosts of a plan, all or none; rejects with the first failure, a FleetError where a host cannot be as planned. */
export async function startFleet(planned: readonly Planned[]): Promise<Host[]> {
  const hosts = planned.map(({ settings }) => read(`host ${settings.name}`, () => createHost(settings)));
  const started = await Promise.allSettled(
    hosts.map(async (host, at) => {
      await host.listen();
      await host.setFault(planned[at]!.faults);
    }),
  );
  const failure = started.find(({ status }) => status === 'rejected') as PromiseRejectedResult | undefined;
  if (failure === undefined) return hosts;
  await Promise.all(hosts.map((host) => host.kill()));
  throw failure.reason as Error;
}
