// Finds elements of a parsed page by compound selectors, such as `div.post[itemprop=text]`. The page is read once; what a selector
// matches is kept, so that adapters may ask for parts of nested elements any number of times.

import { TAG, type TagTable } from '../tags.ts';
import type { Tree } from '../tree.ts';

/** One compound selector. */
interface Compound {
  readonly tag: string;
  readonly id: string;
  readonly classes: readonly string[];
  readonly attributes: readonly (readonly [string, string | undefined])[];
}

/** The elements that match a compound selector. */
interface Matches {
  /** In document order. */
  readonly nodes: readonly number[];
  /** By node, the nearest one around it; -1 for none. Made when it is asked for. */
  around: Int32Array | null;
}

const COMPOUND = /^(?<tag>[a-z][\w-]*)?(?<rest>(?:[.#][\w-]+|\[[\w-]+(?:=[^\]]*)?\])*)$/i;

export class ElementIndex {
  readonly #tree: Tree;
  readonly #tags: TagTable;
  /** Elements in document order by class (`.name`), id (`#name`) and attribute (`[name]`). Made when it is asked for. */
  #named: Map<string, number[]> | null = null;
  readonly #matches = new Map<string, Matches>();

  constructor(tree: Tree, tags: TagTable) {
    this.#tree = tree;
    this.#tags = tags;
  }

  /** The first `limit` elements inside `outer` that match, in document order. `selector`: see `PageElement.all`. */
  find(selector: string, outer: number, limit: number): number[] {
    const found = selector.split(',').map((each) => this.#findOne(each.trim().split(/\s+/), outer, limit));
    if (found.length === 1) return found[0] as number[];
    return [...new Set(found.flat())].sort((left, right) => left - right).slice(0, limit);
  }

  /** The nearest element around `node` that matches a compound selector; -1 for none. */
  around(node: number, compound: string): number {
    const matches = this.#matchesOf(compound);
    return (matches.around ??= this.#aroundAll(matches.nodes))[node] as number;
  }

  /** Elements inside `outer` that match the last compound, and whose ancestors inside `outer` match the others. */
  #findOne(compounds: readonly string[], outer: number, limit: number): number[] {
    const { nodes } = this.#matchesOf(compounds.at(-1) as string);
    const end = this.#tree.end[outer] as number;
    const found: number[] = [];
    for (let at = firstAbove(nodes, outer); at < nodes.length && found.length < limit; at++) {
      const node = nodes[at] as number;
      if (node >= end) break;
      let ancestor = node;
      for (let left = compounds.length - 2; left >= 0 && ancestor > outer; left--)
        ancestor = this.around(ancestor, compounds[left] as string);
      if (ancestor > outer) found.push(node);
    }
    return found;
  }

  #matchesOf(text: string): Matches {
    let matches = this.#matches.get(text);
    if (matches === undefined) {
      const compound = parseCompound(text);
      matches = { nodes: this.#candidates(compound).filter((node) => this.#is(node, compound)), around: null };
      this.#matches.set(text, matches);
    }
    return matches;
  }

  /** The elements that may match: those of the rarest part of the compound. */
  #candidates({ tag, id, classes, attributes }: Compound): readonly number[] {
    const parts = [...classes.map((name) => `.${name}`), ...attributes.map(([name]) => `[${name}]`)];
    if (id !== '') parts.push(`#${id}`);
    if (parts.length === 0) return this.#ofTag(tag);
    this.#named ??= this.#readNames();
    let rarest: readonly number[] | null = null;
    for (const part of parts) {
      const nodes = this.#named.get(part) ?? [];
      if (rarest === null || nodes.length < rarest.length) rarest = nodes;
    }
    return rarest ?? [];
  }

  #ofTag(name: string): number[] {
    const tag = this.#tags.idOf(name);
    const nodes: number[] = [];
    for (let node = 0; node < this.#tree.count; node++) if (this.#tree.tag[node] === tag) nodes.push(node);
    return nodes;
  }

  #readNames(): Map<string, number[]> {
    const tree = this.#tree;
    const named = new Map<string, number[]>();
    const add = (name: string, node: number): void => {
      const nodes = named.get(name);
      if (nodes === undefined) named.set(name, [node]);
      else if (nodes.at(-1) !== node) nodes.push(node);
    };
    for (let node = 1; node < tree.count; node++) {
      if (tree.tag[node] === TAG['#text'] || tree.tag[node] === TAG['#tex']) continue;
      for (const [name, value] of tree.attributesOf(node)) {
        add(`[${name}]`, node);
        if (name === 'id') add(`#${value}`, node);
        else if (name === 'class') for (const each of value.split(/\s+/)) add(`.${each}`, node);
      }
    }
    return named;
  }

  #is(node: number, { tag, id, classes, attributes }: Compound): boolean {
    if (tag !== '' && this.#tree.tag[node] !== this.#tags.idOf(tag)) return false;
    if (id === '' && classes.length < 2 && attributes.length === 0) return true;
    const own = this.#tree.attributesOf(node);
    if (id !== '' && own.get('id') !== id) return false;
    const names = classes.length === 0 ? [] : (own.get('class') ?? '').split(/\s+/);
    return (
      classes.every((name) => names.includes(name)) &&
      attributes.every(([name, value]) => (value === undefined ? own.has(name) : own.get(name) === value))
    );
  }

  #aroundAll(nodes: readonly number[]): Int32Array {
    const { count, parent } = this.#tree;
    const around = new Int32Array(count).fill(-1);
    const isMatch = new Uint8Array(count);
    for (const node of nodes) isMatch[node] = 1;
    // Parents come before their children.
    for (let node = 1; node < count; node++) {
      const outer = parent[node] as number;
      around[node] = isMatch[outer] === 1 ? outer : (around[outer] as number);
    }
    return around;
  }
}

/** The index of the first number above `limit` in an ascending list. */
function firstAbove(ascending: readonly number[], limit: number): number {
  let [from, to] = [0, ascending.length];
  while (from < to) {
    const middle = (from + to) >> 1;
    if ((ascending[middle] as number) > limit) to = middle;
    else from = middle + 1;
  }
  return from;
}

/** Throws for a selector that is not of the subset: selectors are constants of adapters. */
function parseCompound(text: string): Compound {
  const groups = COMPOUND.exec(text)?.groups;
  if (groups === undefined || text === '') throw new Error(`'${text}' is no selector of the supported subset`);
  const pieces = [...(groups['rest'] ?? '').matchAll(/([.#])([\w-]+)|\[([\w-]+)(?:=([^\]]*))?\]/g)];
  return {
    tag: (groups['tag'] ?? '').toLowerCase(),
    id: pieces.find(([, mark]) => mark === '#')?.[2] ?? '',
    classes: pieces.filter(([, mark]) => mark === '.').map((piece) => piece[2] ?? ''),
    attributes: pieces.flatMap(([, , , name, value]) => (name === undefined ? [] : [[name, value] as const])),
  };
}
