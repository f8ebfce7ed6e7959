// Pairs the references of footnotes with the notes at the end of a page.

import { BLOCK, TAG, traits } from './tags.ts';
import type { Dropped, Tree } from './tree.ts';

export interface Footnotes {
  /** Labels of references, by link. */
  readonly references: ReadonlyMap<number, string>;
  /** Labels of notes, by the block that holds one. */
  readonly notes: ReadonlyMap<number, string>;
  /** Links of notes back to their references. */
  readonly unwanted: ReadonlySet<number>;
  /** Whether the page has formulas in scripts, which make what is rendered from them a copy. */
  readonly hasTex: boolean;
}

const MAX_LABEL = 12;
const BACK = /^(?:[\s\u2190-\u21ff\u2934\u2935^]|\ufe0e|\ufe0f)*$/;

/** A link to a place in the page whose text is a number or a sign. */
interface Reference {
  readonly node: number;
  readonly target: string;
  /** Letters, digits and hyphens of the text; empty where it is a sign. */
  readonly label: string;
  /** Ids of the link and of what it stands in, to which its note leads back. */
  readonly origins: readonly string[];
}

export function footnotesOf(tree: Tree, dropped: Dropped): Footnotes {
  const found: Reference[] = [];
  let hasTex = false;
  for (let node = 1; node < tree.count; node++) {
    if (tree.tag[node] === TAG['#tex']) hasTex = true;
    if (dropped[node] === 1) {
      node = (tree.end[node] as number) - 1;
    } else if (tree.tag[node] === TAG.a) {
      const reference = referenceAt(tree, node);
      if (reference !== null) found.push(reference);
    }
  }
  if (found.length === 0) return { references: new Map(), notes: new Map(), unwanted: new Set(), hasTex };
  return { ...pairs(tree, dropped, found), hasTex };
}

function referenceAt(tree: Tree, node: number): Reference | null {
  const end = tree.end[node] as number;
  // Long links are no references.
  if (end - node > 8) return null;
  const attributes = tree.attributesOf(node);
  const href = attributes.get('href') ?? '';
  const hash = href.indexOf('#');
  if (hash === -1 || hash === href.length - 1) return null;
  let text = '';
  for (let inner = node + 1; inner < end; inner++) if (tree.tag[inner] === TAG['#text']) text += tree.textOf(inner, 40);
  const shown = text.trim().replace(/^[[(](.*)[\])]$/, '$1');
  const isRaised = tree.tag[tree.parent[node] as number] === TAG.sup || tree.tag[node + 1] === TAG.sup;
  const isNamed =
    /noteref|footnote-(?:ref|anchor)|\bfn-?ref\b/i.test(`${attributes.get('role')} ${attributes.get('class')}`) ||
    /^#_(?:ftn|edn)\d+$/.test(href);
  if ((!isRaised && !isNamed) || shown === '' || shown.length > MAX_LABEL || BACK.test(shown)) return null;
  const around = tree.parent[node] as number;
  const isInLine = (traits(tree.tag[around] as number) & BLOCK) === 0;
  const ids = [attributes.get('id'), attributes.get('name'), isInLine ? tree.attribute(around, 'id') : undefined];
  const origins = ids.filter((id) => id !== undefined);
  const label = shown.replaceAll(/[^\p{L}\p{N}_-]+/gu, '-').replaceAll(/^-+|-+$/g, '');
  return { node, target: decoded(href.slice(hash + 1)), label, origins };
}

function pairs(tree: Tree, dropped: Dropped, found: readonly Reference[]): Omit<Footnotes, 'hasTex'> {
  const references = new Map<number, string>();
  const notes = new Map<number, string>();
  const unwanted = new Set<number>();
  const targets = targetsOf(tree, dropped, new Set(found.map(({ target }) => target)));
  const origins = new Set(found.flatMap((reference) => reference.origins));
  const stated = new Set(found.map(({ label }) => label));
  const taken = new Set<string>();
  let next = 1;
  for (const { node, target, label } of found) {
    const note = targets.get(target);
    // A link to a place before it leads from a note back to the text: Wikipedia raises its letters, too.
    if (note === undefined || note <= node) continue;
    let own = notes.get(note);
    if (own === undefined) {
      while (taken.has(String(next)) || stated.has(String(next))) next++;
      own = label === '' || taken.has(label) ? String(next) : label;
      taken.add(own);
      notes.set(note, own);
    }
    references.set(node, own);
  }
  // A link inside a note is no reference to another note; notes do not stand inside notes, so that each node is looked at once.
  let end = 0;
  for (const note of [...notes.keys()].toSorted((one, other) => one - other)) {
    if (note < end) {
      notes.delete(note);
      continue;
    }
    end = tree.end[note] as number;
    for (let inner = note + 1; inner < end; inner++) references.delete(inner);
    for (const link of backLinks(tree, note, origins)) unwanted.add(link);
  }
  const used = new Set(references.values());
  for (const [note, label] of notes) if (!used.has(label)) notes.delete(note);
  const kept = new Set(notes.values());
  for (const [node, label] of references) if (!kept.has(label)) references.delete(node);
  return { references, notes, unwanted };
}

/** The blocks that hold the elements with these ids, among nodes that are kept. */
function targetsOf(tree: Tree, dropped: Dropped, ids: ReadonlySet<string>): ReadonlyMap<string, number> {
  const targets = new Map<string, number>();
  for (let node = 1; node < tree.count; node++) {
    if (dropped[node] === 1) {
      node = (tree.end[node] as number) - 1;
      continue;
    }
    const tag = tree.tag[node] as number;
    if (tag === TAG['#text'] || tag === TAG['#tex']) continue;
    const attributes = tree.attributesOf(node);
    const id = attributes.get('id') ?? (tag === TAG.a ? attributes.get('name') : undefined);
    if (id === undefined || !ids.has(id) || targets.has(id)) continue;
    let block = node;
    while (block > 0 && (traits(tree.tag[block] as number) & BLOCK) === 0) block = tree.parent[block] as number;
    const isNote = [TAG.li, TAG.p, TAG.div, TAG.aside, TAG.dd].includes(tree.tag[block] as number);
    if (block > 0 && isNote) targets.set(id, block);
  }
  return targets;
}

/** Links from a note to its place in the text, brackets around them, and what announces several of them. */
function backLinks(tree: Tree, note: number, origins: ReadonlySet<string>): number[] {
  const links: number[] = [];
  const end = tree.end[note] as number;
  for (let node = note + 1; node < end; node++) {
    const tag = tree.tag[node] as number;
    if (tag !== TAG.a && tag !== TAG.span) continue;
    const attributes = tree.attributesOf(node);
    const isNamed = /backlink|backref|footnote-back|reversefootnote|referencedby|fn-bracket/i.test(
      `${attributes.get('class')} ${attributes.get('role')} ${attributes.get('rel')}`,
    );
    let text = '';
    for (let inner = node + 1; inner < Math.min(tree.end[node] as number, node + 8); inner++)
      if (tree.tag[inner] === TAG['#text']) text += tree.textOf(inner, 40);
    const href = attributes.get('href') ?? '';
    const leadsBack = tag === TAG.a && href.startsWith('#') && (BACK.test(text) || origins.has(decoded(href.slice(1))));
    if (isNamed || leadsBack) links.push(node);
  }
  return links;
}

function decoded(fragment: string): string {
  try {
    return decodeURIComponent(fragment);
  } catch {
    return fragment;
  }
}
