// Converts text to tokens and back. The longest piece wins at every position; where no piece matches, the byte is the token.
// Lossless for every well-formed string (a lone surrogate becomes U+FFFD). Adds no beginning-of-sequence token; text never
// becomes a special token.
import type { Vocabulary } from './vocabulary.ts';

/** Converts between text and the tokens of one vocabulary. */
export interface Tokenizer {
  readonly tokenize: (text: string) => Int32Array;
  /** Special tokens have no text; bytes that form no character become U+FFFD. Throws a RangeError for unknown tokens. */
  readonly detokenize: (tokens: ArrayLike<number>) => string;
  /** The bytes behind the tokens. */
  readonly bytesOf: (tokens: ArrayLike<number>) => Uint8Array;
}

/** Creates the tokenizer of a vocabulary. */
export function createTokenizer(vocabulary: Vocabulary): Tokenizer {
  const { token, child, classOf, classCount } = vocabulary.trie;
  const { firstByte } = vocabulary;
  const encoder = new TextEncoder();
  const decoder = new TextDecoder('utf-8', { ignoreBOM: true });

  function tokenize(text: string): Int32Array {
    const bytes = encoder.encode(text);
    const end = bytes.length;
    const tokens = new Int32Array(end);
    let count = 0;
    let at = 0;
    while (at < end) {
      let best = firstByte + bytes[at]!;
      let next = at + 1;
      let node = 0;
      for (let reach = at; reach < end;) {
        node = child[node * classCount + classOf[bytes[reach]!]!]!;
        if (node === 0) break;
        reach++;
        if (token[node]! >= 0) {
          best = token[node]!;
          next = reach;
        }
      }
      tokens[count++] = best;
      at = next;
    }
    return tokens.slice(0, count);
  }

  function bytesOf(tokens: ArrayLike<number>): Uint8Array {
    let length = 0;
    for (let at = 0; at < tokens.length; at++) length += vocabulary.bytes(tokens[at]!).length;
    const bytes = new Uint8Array(length);
    let filled = 0;
    for (let at = 0; at < tokens.length; at++) {
      const piece = vocabulary.bytes(tokens[at]!);
      bytes.set(piece, filled);
      filled += piece.length;
    }
    return bytes;
  }

  return { tokenize, bytesOf, detokenize: (tokens) => decoder.decode(bytesOf(tokens)) };
}
