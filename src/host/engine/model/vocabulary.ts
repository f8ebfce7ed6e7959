// The tokens of the simulated model: special tokens, one token per byte, and pieces cut from the corpus. The same on every
// host and for every seed. A special token has no text; the bytes of any other token need not be whole characters.
import { CODE, DATA, LETTERS, PROSE, WORDS } from './corpus.ts';
import { type PieceTrie, createTrie } from './trie.ts';

/** Ids of the special tokens. */
export const SPECIAL = {
  unknown: 0,
  /** Beginning of sequence. */
  bos: 1,
  /** End of sequence; the only special token that the model puts into an answer. */
  eos: 2,
  /** End of a turn in a chat. */
  endOfTurn: 3,
  system: 4,
  user: 5,
  assistant: 6,
  tool: 7,
  /** Infill: before the prefix, before the suffix, before the middle. */
  prefix: 8,
  suffix: 9,
  middle: 10,
  /** Start of a tool call in an answer. */
  call: 11,
} as const;

/** Token of the byte 0, after the special ones. */
const FIRST_BYTE = 12;

/** What is known of all tokens. */
export interface Vocabulary {
  readonly size: number;
  /** The end of sequence. */
  readonly eos: number;
  /** The newline, which `penalize_nl` is about. */
  readonly newline: number;
  /** Token of the byte 0; the byte b is the token `firstByte + b`. */
  readonly firstByte: number;
  /** Bytes of a token; empty for special tokens. Throws a RangeError for a number that is no token. */
  bytes(token: number): Uint8Array;
  /** Text of a token, or null when its bytes are no whole characters. */
  text(token: number): string | null;
  readonly trie: PieceTrie;
}

/** Substrings of words that become pieces: this many, the most useful ones. */
const SUBWORDS = 600;
const INDENTS = ['  ', '    ', '      ', '        ', '\n\n', '\n  ', '\n    ', '\n      ', '\n        '];

/** Words, runs of punctuation and line breaks with their indent, each with the one space before it. */
const WORD_LIKE = / ?\p{L}+| ?[^\s\p{L}\d]+|\n */gu;

/** Builds the vocabulary; takes some milliseconds, so build it once per process and share it. */
export function createVocabulary(): Vocabulary {
  const encoder = new TextEncoder();
  const texts: (string | null)[] = Array.from({ length: FIRST_BYTE }, () => '');
  const pieces: Uint8Array[] = Array.from({ length: FIRST_BYTE }, () => new Uint8Array());
  for (let byte = 0; byte < 256; byte++) {
    pieces.push(Uint8Array.of(byte));
    texts.push(byte < 128 ? String.fromCharCode(byte) : null);
  }
  for (const text of piecesOfCorpus()) {
    pieces.push(encoder.encode(text));
    texts.push(text);
  }
  const trie = createTrie(pieces);
  return {
    size: pieces.length,
    eos: SPECIAL.eos,
    newline: FIRST_BYTE + 10,
    firstByte: FIRST_BYTE,
    bytes: (token) => pieces[token] ?? refuse(token),
    text(token) {
      const text = texts[token];
      return text === undefined ? refuse(token) : text;
    },
    trie,
  };
}

function refuse(token: number): never {
  throw new RangeError(`not a token: ${token}`);
}

/** Pieces longer than one byte, in the order of their ids. */
function piecesOfCorpus(): string[] {
  const words = WORDS.trim().split(/\s+/);
  const found = [...PROSE, ...CODE, ...DATA].flatMap((text) => text.match(WORD_LIKE) ?? []);
  const pieces = new Set<string>([...Array.from(LETTERS), ...INDENTS]);
  for (const word of [...words, ...found]) {
    const bare = word.startsWith(' ') ? word.slice(1) : word;
    if (!isPlain(bare)) continue;
    pieces.add(bare);
    if (/^[a-z]/i.test(bare)) pieces.add(` ${bare}`);
    else pieces.add(word);
  }
  for (const part of subwords([...words, ...found])) pieces.add(part);
  return [...pieces].filter((piece) => piece.length > 1 || piece.charCodeAt(0) > 127);
}

/** Pieces of words beyond ASCII are left out, so that such words are split within characters. */
function isPlain(word: string): boolean {
  // oxlint-disable-next-line no-control-regex
  return /^[\x00-\x7f]+$/.test(word);
}

/** The substrings of two to four letters that save the most, by their count times the letters they cover. */
function subwords(words: readonly string[]): string[] {
  const counts = new Map<string, number>();
  for (const word of words) {
    const letters = word.trim().toLowerCase();
    if (!/^[a-z]+$/.test(letters)) continue;
    for (let from = 0; from < letters.length; from++) {
      for (let to = from + 2; to <= Math.min(from + 4, letters.length); to++) {
        const part = letters.slice(from, to);
        counts.set(part, (counts.get(part) ?? 0) + part.length - 1);
      }
    }
  }
  return [...counts]
    .sort(([a, scoreA], [b, scoreB]) => scoreB - scoreA || (a < b ? -1 : 1))
    .slice(0, SUBWORDS)
    .map(([part]) => part);
}
