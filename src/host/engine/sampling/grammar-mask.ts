// A grammar applied to tokens: whether a token may come next, and which tokens may. The bytes of tokens are run through the
// grammar, so a token may end within a character. Masks are cached by state and shared by sequences.
import { type GrammarState, createMatcher } from '../grammar/matcher.ts';
import { parseGrammar } from '../grammar/gbnf.ts';
import type { Vocabulary } from '../model/vocabulary.ts';

/** A grammar over the tokens of one vocabulary; free of per-sequence state, so it can be shared. */
export interface TokenGrammar {
  readonly start: GrammarState;
  /** About how much memory it takes; see `Matcher`. */
  readonly size: number;
  /** The state after a token, or null when the grammar does not allow it there. */
  advance(state: GrammarState, token: number): GrammarState | null;
  /** 1 for every token that is allowed: the end of sequence where the text may end, others by their bytes. */
  allowed(state: GrammarState): Uint8Array;
}

/** Binds a GBNF grammar to a vocabulary. Throws a GrammarError for text that is no usable grammar. */
export function createTokenGrammar(text: string, vocabulary: Vocabulary): TokenGrammar {
  const matcher = createMatcher(parseGrammar(text));
  const masks = new WeakMap<GrammarState, Uint8Array>();

  function advance(state: GrammarState, token: number): GrammarState | null {
    if (token === vocabulary.eos) return state.accepting ? state : null;
    const bytes = vocabulary.bytes(token);
    // Special tokens have no bytes, and text of zero bytes ends strings in many places.
    if (bytes.length === 0 || bytes[0] === 0) return null;
    let next: GrammarState | null = state;
    for (const byte of bytes) {
      next = matcher.step(next, byte);
      if (next === null) return null;
    }
    return next;
  }

  function mark(mask: Uint8Array, state: GrammarState, parent: number): void {
    const { firstChild, nextSibling, edge, token } = vocabulary.trie;
    for (let node = firstChild[parent]!; node !== 0; node = nextSibling[node]!) {
      const next = matcher.step(state, edge[node]!);
      if (next === null) continue;
      if (token[node]! >= 0) mask[token[node]!] = 1;
      mark(mask, next, node);
    }
  }

  function allowed(state: GrammarState): Uint8Array {
    const known = masks.get(state);
    if (known !== undefined) return known;
    const mask = new Uint8Array(vocabulary.size);
    if (state.accepting) mask[vocabulary.eos] = 1;
    for (let byte = 1; byte < 256; byte++) {
      if (matcher.step(state, byte) !== null) mask[vocabulary.firstByte + byte] = 1;
    }
    mark(mask, state, 0);
    masks.set(state, mask);
    return mask;
  }

  return {
    get start() {
      return matcher.start;
    },
    get size() {
      return matcher.size;
    },
    advance,
    allowed,
  };
}
