// The words of the simulated model: a small bigram chain over one paragraph, walked by a seeded generator.
// Called by the generation of every dialect. The same seed always gives the same words, on every host, and the
// words come from the paragraph alone, so nothing of a prompt can leak into an answer.

const PARAGRAPH = `The headrace leads the water from the river to the wheel, and the wheel turns the mill. When the water
is high the miller opens the second gate, so that no wheel carries more than its share. A gate that sticks is closed and
looked at before the water may pass again. The rivière above the weir is calm, yet the channel below it is never silent.
Every bucket of the wheel takes what it can hold and gives it back to the tailrace. The Mühle by the bridge grinds rye in
the morning and oats when the wind is cold. No grain waits long, because the miller knows which stone is warm and which
stone was dressed last. If the first wheel stops, the water finds the next one, and the mill hardly notices the change.
In a dry summer the pond is kept for the night, and the flour is milled while the village sleeps. The old 水車 by the
temple turned for a hundred years before its axle was changed. A good channel is straight, short and clean, and whoever
keeps it walks its length every day.`;

const WORDS: readonly string[] = PARAGRAPH.split(/\s+/);
const SPACED: readonly string[] = WORDS.map((word) => ` ${word}`);
const SENTENCE_STARTS: readonly number[] = WORDS.flatMap((_, at) =>
  at === 0 || WORDS[at - 1]!.endsWith('.') ? [at] : [],
);
const FOLLOWERS: readonly (readonly number[])[] = WORDS.map((word) =>
  WORDS.flatMap((other, at) => (other === word ? [(at + 1) % WORDS.length] : [])),
);

/** Past this many characters only the two ends of a prompt are hashed, so that a long prompt costs no more. */
const HASHED_CHARACTERS = 4096;

/** Deterministic 32-bit generator (mulberry32); returns numbers in [0, 1). */
export function createRandom(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  };
}

/** 32-bit FNV-1a hash of the seed, the model and the prompt (its length and its two ends when it is long). */
export function seedOf(seed: number, model: string, prompt: string): number {
  const half = HASHED_CHARACTERS / 2;
  const ends = prompt.length > HASHED_CHARACTERS ? prompt.slice(0, half) + prompt.slice(-half) : prompt;
  const key = `${seed} ${model} ${prompt.length} ${ends}`;
  let hash = 0x811c9dc5;
  for (let at = 0; at < key.length; at++) hash = Math.imul(hash ^ key.charCodeAt(at), 0x01000193);
  return hash >>> 0;
}

/**
 * `count` words as pieces of text: joined without a separator they are the answer. One piece is one token of the
 * simulated model. Some pieces are not ASCII.
 */
export function writeWords(seed: number, count: number): string[] {
  const random = createRandom(seed);
  const pieces: string[] = [];
  let at = SENTENCE_STARTS[Math.floor(random() * SENTENCE_STARTS.length)]!;
  for (let made = 0; made < count; made++) {
    pieces.push(made === 0 ? WORDS[at]! : SPACED[at]!);
    const followers = FOLLOWERS[at]!;
    at = followers.length === 1 ? followers[0]! : followers[Math.floor(random() * followers.length)]!;
  }
  return pieces;
}

/** Tokens of a prompt, estimated as a quarter of its characters, at least 1: counting words would cost a scan. */
export function countTokens(text: string): number {
  return Math.max(1, Math.ceil(text.length / 4));
}

/**
 * Cuts the pieces before the earliest stop string. Returns the pieces left (the last one may be shortened) and the
 * stop string met, or the pieces as they were and an empty string.
 */
export function cutAtStop(pieces: string[], stops: readonly string[]): { pieces: string[]; stoppingWord: string } {
  const text = stops.length === 0 ? '' : pieces.join('');
  let end = -1;
  let stoppingWord = '';
  for (const stop of stops) {
    const at = text.indexOf(stop);
    if (at !== -1 && (end === -1 || at < end)) {
      end = at;
      stoppingWord = stop;
    }
  }
  if (end === -1) return { pieces, stoppingWord };
  const kept: string[] = [];
  let length = 0;
  for (const piece of pieces) {
    if (length >= end) break;
    kept.push(piece.slice(0, end - length));
    length += piece.length;
  }
  return { pieces: kept, stoppingWord };
}
