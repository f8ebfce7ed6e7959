// The image that an `img` stands for, whatever way its page loads it, or the formula that it draws.

import { bare } from './content-math.ts';
import type { Source } from './content.ts';
import { TAG } from './tags.ts';
import type { Attributes, Dropped, Tree } from './tree.ts';

/** Attributes where scripts that load images later find the URL. */
const LAZY = [
  'data-src',
  'data-original',
  'data-lazy-src',
  'data-lazy',
  'data-actualsrc',
  'data-hi-res-src',
  'data-full-src',
];
const SETS = ['srcset', 'data-srcset', 'data-lazy-srcset'];

const PLACEHOLDER =
  /^(?:data:|about:)|(?:^|\/)(?:blank|spacer|placeholder|pixel|transparent|lazy|loading|1x1)[\w-]*\.(?:gif|png|svg|jpe?g)(?:$|\?)/i;

const FORMULA = /(?:^|\s)(?:mwe-math-fallback-image-(?:inline|display)|latex|tex|math)(?:$|\s)/;

/** Nodes that are searched for other sources of an image. */
const MAX_EXAMINED = 8;
/** Images further inside a `picture` are none of its own. */
const MAX_PICTURE_NODES = 32;
const MAX_MATH_NODES = 500;

/** Null for images without a URL, and for those without a description, which decorate; in figures they are kept. */
export function imageOf(
  { tree, dropped, urls }: Pick<Source, 'dropped' | 'tree' | 'urls'>,
  node: number,
  isInFigure: boolean,
): { kind: 'image'; url: string; alt: string } | { kind: 'math'; tex: string; isDisplayed: boolean } | null {
  const attributes = tree.attributesOf(node);
  const alt = attributes.get('alt') ?? '';
  const className = attributes.get('class') ?? '';
  if (alt !== '' && FORMULA.test(className)) {
    if (followsMath(tree, dropped, node)) return null;
    return { kind: 'math', tex: bare(alt), isDisplayed: className.includes('-display') };
  }
  if (alt.trim() === '' && !isInFigure) return null;
  const reference = referenceOf(attributes) ?? referenceBeside(tree, node) ?? attributes.get('src');
  const url = urls.absolute(reference);
  return url === null ? null : { kind: 'image', url, alt };
}

/** Whether the formula that an image draws stands before it as MathML. */
function followsMath(tree: Tree, dropped: Dropped, node: number): boolean {
  for (let before = node - 1; before > (tree.parent[node] as number) && node - before < MAX_MATH_NODES; before--)
    if (tree.tag[before] === TAG.math) return dropped[before] !== 1 && dropped[tree.parent[before] as number] !== 1;
  return false;
}

/** The best URL among the attributes of an image or a `source`; undefined if there is none but a placeholder. */
function referenceOf(attributes: Attributes): string | undefined {
  const isReal = (reference: string | undefined): reference is string =>
    reference !== undefined && reference.trim() !== '' && !PLACEHOLDER.test(reference);
  const candidates = [...LAZY.map((name) => attributes.get(name)), attributes.get('src')];
  return candidates.find(isReal) ?? SETS.map((name) => largestOf(attributes.get(name) ?? '')).find(isReal);
}

/** An address of a `srcset` and what is said of it. It matches at any word, so that it takes time in proportion to the length. */
const CANDIDATE = /([^\s,]\S*)(?:\s+([^,]*))?/y;

/** The URL of the largest image of a `srcset` (HTML, "Parsing a srcset attribute"). */
function largestOf(set: string): string | undefined {
  let largest: string | undefined;
  let size = -1;
  for (let at = 0; at < set.length; at++) {
    CANDIDATE.lastIndex = at;
    const found = CANDIDATE.exec(set);
    if (found === null) continue;
    const [whole, url = '', descriptor = ''] = found;
    const isAlone = url.endsWith(',');
    const own = isAlone ? 1 : Number.parseFloat(descriptor) || 1;
    if (own > size) [largest, size] = [isAlone ? url.slice(0, -1) : url, own];
    at += (isAlone ? url : whole).length - 1;
  }
  return largest;
}

/** The URL of a `source` in the same `picture`, or of the image in a `noscript` that follows. */
function referenceBeside(tree: Tree, node: number): string | undefined {
  const parent = tree.parent[node] as number;
  if (tree.tag[parent] === TAG.picture && node - parent <= MAX_PICTURE_NODES) {
    for (let other = parent + 1; other < Math.min(node, parent + MAX_EXAMINED); other++) {
      const found = tree.tag[other] === TAG.source ? referenceOf(tree.attributesOf(other)) : undefined;
      if (found !== undefined) return found;
    }
  }
  const next = tree.end[tree.tag[parent] === TAG.picture ? parent : node] as number;
  if (next >= tree.count || tree.tag[next] !== TAG.noscript) return undefined;
  for (let inner = next + 1; inner < Math.min(tree.end[next] as number, next + MAX_EXAMINED); inner++) {
    if (tree.tag[inner] === TAG.img) return referenceOf(tree.attributesOf(inner));
  }
  return undefined;
}
