// Synthetic workloads as files in the shapes of recorded ones, for this client and for others that read them. Written by
// `headrace bench --make`; the same settings give the same file.

import { createSeededRandom } from '../actor/index.ts';
import { timetable } from './plan.ts';
import { drawn, type SyntheticSettings, syntheticScripts } from './synthetic.ts';
import { words } from './words.ts';

/** Tokens of one block of a trace. */
const BLOCK_TOKENS = 512;

/** So many conversations in the shape of ShareGPT: a JSON array. */
export function syntheticConversations(settings: SyntheticSettings, count: number): string {
  const next = syntheticScripts(settings);
  const random = createSeededRandom(settings.seed + 1);
  const entries = Array.from({ length: count }, (_, at) => {
    const { system, turns } = next();
    const said = turns.flatMap(({ text, outputTokens }) => [
      { from: 'human', value: text },
      { from: 'gpt', value: words(outputTokens, random) },
    ]);
    const conversations = system === '' ? said : [{ from: 'system', value: system }, ...said];
    return JSON.stringify({ id: `synthetic-${at + 1}`, conversations });
  });
  return `[\n${entries.join(',\n')}\n]\n`;
}

/**
 * So many requests in the shape of Mooncake, a line each: Poisson arrivals of conversations at this rate, whose later turns
 * hold all that was said before. Blocks of what is shared have the same hashes.
 */
export function syntheticTrace(settings: SyntheticSettings, count: number, perSecond: number): string {
  const { seed, prefixes, prefixTokens, inputTokens, outputTokens, turns } = settings;
  const random = createSeededRandom(seed);
  const dueOf = timetable({ kind: 'poisson', perSecond, rampMs: 0 }, random);
  const prefixBlocks = Math.floor(prefixTokens / BLOCK_TOKENS);
  let nextId = prefixes * prefixBlocks;
  const requests: { timestamp: number; input_length: number; output_length: number; hash_ids: number[] }[] = [];
  while (requests.length < count) {
    let atMs = dueOf(undefined);
    const prefix = prefixes === 0 ? -1 : Math.floor(random() * prefixes);
    let length = prefix < 0 ? 0 : prefixTokens;
    const hashes = prefix < 0 ? [] : Array.from({ length: prefixBlocks }, (_, at) => prefix * prefixBlocks + at);
    for (let left = drawn(turns, random); left > 0 && requests.length < count; left--) {
      length += drawn(inputTokens, random);
      const output = drawn(outputTokens, random);
      // Whole blocks stay what they were in the next turn; the last, unfinished one does not.
      while (hashes.length < Math.floor(length / BLOCK_TOKENS)) hashes.push(nextId++);
      const last = length % BLOCK_TOKENS === 0 ? [] : [nextId++];
      requests.push({
        timestamp: Math.round(atMs),
        input_length: length,
        output_length: output,
        hash_ids: [...hashes, ...last],
      });
      length += output;
      atMs += TURN_MS + output * TOKEN_MS;
    }
  }
  requests.sort((a, b) => a.timestamp - b.timestamp);
  return `${requests.map((request) => JSON.stringify(request)).join('\n')}\n`;
}

/** Between the turns of a conversation: somebody reads and writes, after so long for each token of the answer. */
const TURN_MS = 5000;
const TOKEN_MS = 20;
