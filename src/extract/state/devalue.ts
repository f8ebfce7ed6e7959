// Parses the array in which Nuxt 3, SvelteKit and React Router write their state: values refer to others by their index.
// References are resolved into an acyclic value of bounded depth, in which what is referred to many times is one object: every
// value is read once.

const MAX_DEPTH = 100;

/** Types whose second element is the index of the value that they wrap. */
const WRAPPERS: ReadonlySet<string> = new Set([
  'Reactive', 'ShallowReactive', 'Ref', 'ShallowRef', 'EmptyRef', 'EmptyShallowRef', 'Object', 'NuxtError', 'Island',
  'SingleFetchRedirect', 'SingleFetchClassInstance', 'SingleFetchFallback', 'P',
]); // oxfmt-ignore

/** The value of an array of values. Cyclic references become null. Null when `values` is no such array. */
export function unflatten(values: unknown): unknown {
  if (!Array.isArray(values) || values.length === 0) return null;
  return new Resolver(values).resolve(0, 0);
}

class Resolver {
  readonly #values: readonly unknown[];
  /** Values by their index; null while one is being resolved. */
  readonly #resolved = new Map<number, unknown>();

  constructor(values: readonly unknown[]) {
    this.#values = values;
  }

  resolve(index: unknown, depth: number): unknown {
    if (typeof index !== 'number') return null;
    const known = this.#resolved.get(index);
    if (known !== undefined || depth > MAX_DEPTH) return known ?? null;
    const value = this.#values[index];
    if (typeof value !== 'object' || value === null) return value ?? null;
    this.#resolved.set(index, null);
    const resolved = Array.isArray(value) ? this.#array(value, depth + 1) : this.#object(value, depth + 1);
    this.#resolved.set(index, resolved);
    return resolved;
  }

  #array(value: readonly unknown[], depth: number): unknown {
    const [type, ...rest] = value;
    if (typeof type !== 'string') return value.map((index) => this.resolve(index, depth));
    if (WRAPPERS.has(type)) return this.resolve(rest[0], depth);
    if (type === 'Set') return rest.map((index) => this.resolve(index, depth));
    if (type === 'Map' || type === 'null') return this.#pairs(type, rest, depth);
    return typeof rest[0] === 'string' ? rest[0] : null;
  }

  /** Entries of a map, whose keys are indexes, or of an object without prototype, whose keys are names. */
  #pairs(type: string, rest: readonly unknown[], depth: number): unknown {
    const entries: Record<string, unknown> = {};
    for (let at = 0; at + 1 < rest.length; at += 2) {
      const key = type === 'Map' ? this.resolve(rest[at], depth) : rest[at];
      if (typeof key === 'string' && key !== '__proto__') entries[key] = this.resolve(rest[at + 1], depth);
    }
    return entries;
  }

  #object(value: object, depth: number): unknown {
    const object: Record<string, unknown> = {};
    for (const [name, index] of Object.entries(value)) {
      // React Router writes the names as values too: `_12` is the name at index 12.
      const key = /^_\d+$/.test(name) ? this.#values[Number(name.slice(1))] : name;
      if (typeof key === 'string' && key !== '__proto__') object[key] = this.resolve(index, depth);
    }
    return object;
  }
}
