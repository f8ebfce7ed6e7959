// Synthetic workloads: conversations with prompts and answers of given lengths, shared prefixes and several turns, also as
// files in the formats of ShareGPT and Mooncake. The same seed and settings give the same requests.
import { createSeededRandom } from '../actor/index.ts';
import { timetable } from './arrivals.ts';
import type { Script, UserTurn, Workload } from './workload.ts';

/** A length in tokens, drawn evenly between the two. */
export interface Length {
  readonly least: number;
  readonly most: number;
}

export interface SyntheticSettings {
  readonly seed: number;
  /** Of what the user says in one turn. */
  readonly inputTokens: Length;
  /** Most tokens of an answer. */
  readonly outputTokens: Length;
  /** Turns of a conversation. */
  readonly turns: Length;
  /** Number of shared prefixes; 0 for none. */
  readonly prefixes: number;
  readonly prefixTokens: number;
}

/** Never ends. */
export function syntheticWorkload(settings: SyntheticSettings): Workload {
  const { prefixes, prefixTokens, inputTokens, outputTokens, turns } = settings;
  const shown = ({ least, most }: Length): string => (least === most ? `${least}` : `${least}-${most}`);
  return {
    description:
      `synthetic, ${shown(inputTokens)} tokens in, at most ${shown(outputTokens)} out` +
      (turns.most > 1 ? `, ${shown(turns)} turns` : '') +
      (prefixes > 0 ? `, ${prefixes} shared prefixes of ${prefixTokens}` : ''),
    next: syntheticScripts(settings),
  };
}

/** Makes one script after the other. */
function syntheticScripts(settings: SyntheticSettings): () => Script {
  const { seed, prefixes, prefixTokens, inputTokens, outputTokens, turns } = settings;
  const random = createSeededRandom(seed);
  const shared = Array.from({ length: prefixes }, (_, at) =>
    syntheticWords(prefixTokens, createSeededRandom(seed + 1 + at)),
  );
  return () => {
    const system = shared[Math.floor(random() * shared.length)] ?? '';
    const turn = (): UserTurn => ({
      text: syntheticWords(drawn(inputTokens, random), random),
      outputTokens: drawn(outputTokens, random),
    });
    return { system, turns: Array.from({ length: drawn(turns, random) }, turn) };
  };
}

/** A length out of the range, evenly. */
function drawn({ least, most }: Length, random: () => number): number {
  return least + Math.floor(random() * (most - least + 1));
}

/** Tokens of one block of a trace. */
const BLOCK_TOKENS = 512;

/** Conversations in the format of ShareGPT: a JSON array. */
export function syntheticConversations(settings: SyntheticSettings, count: number): string {
  const next = syntheticScripts(settings);
  const random = createSeededRandom(settings.seed + 1);
  const entries = Array.from({ length: count }, (_, at) => {
    const { system, turns } = next();
    const said = turns.flatMap(({ text, outputTokens }) => [
      { from: 'human', value: text },
      { from: 'gpt', value: syntheticWords(outputTokens, random) },
    ]);
    const conversations = system === '' ? said : [{ from: 'system', value: system }, ...said];
    return JSON.stringify({ id: `synthetic-${at + 1}`, conversations });
  });
  return `[\n${entries.join(',\n')}\n]\n`;
}

/**
 * Requests in the format of Mooncake, one per line: Poisson arrivals of conversations at this rate, whose later turns
 * contain all earlier messages. Shared blocks have the same hashes.
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

/** Think time between the turns of a conversation, plus a time per token of the answer. */
const TURN_MS = 5000;
const TOKEN_MS = 20;

const WORDS: readonly string[] =
  `the water river wheel mill gate stone grain bridge channel morning winter summer village miller long short high low
old new first second last open close turn hold carry wait stand fall rise keep give take find look work rest one two three
many few some all every no more less under over behind before after near far with without from into light dark cold warm
good great small large clear strong white black green red house road field hill tree wind rain snow sun day night year hour
hand head foot word name line side end part place time way world people child father mother friend king book letter`.split(
    /\s+/,
  );

/** Text of this many words; the same numbers of `random` give the same text. */
export function syntheticWords(count: number, random: () => number): string {
  let text = '';
  for (let at = 0; at < count; at++) text += `${at === 0 ? '' : ' '}${WORDS[Math.floor(random() * WORDS.length)]}`;
  return text;
}

/** The words a text would have if it were English prose: four characters to a token. */
export function tokensOf(text: string): number {
  return Math.max(1, Math.round(text.length / 4));
}
