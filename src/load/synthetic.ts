// Synthetic conversations: prompts and answers of chosen lengths, some prefixes that many of them share, several turns.
// Made by the command line when no file is given; a seed and the same settings give the same requests.

import { createSeededRandom } from '../actor/index.ts';
import type { Script, Turn, Workload } from './script.ts';
import { words } from './words.ts';

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
  /** How many prefixes there are to share; 0 for none. */
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
export function syntheticScripts(settings: SyntheticSettings): () => Script {
  const { seed, prefixes, prefixTokens, inputTokens, outputTokens, turns } = settings;
  const random = createSeededRandom(seed);
  const shared = Array.from({ length: prefixes }, (_, at) => words(prefixTokens, createSeededRandom(seed + 1 + at)));
  return () => {
    const system = shared[Math.floor(random() * shared.length)] ?? '';
    const turn = (): Turn => ({
      text: words(drawn(inputTokens, random), random),
      outputTokens: drawn(outputTokens, random),
    });
    return { system, turns: Array.from({ length: drawn(turns, random) }, turn) };
  };
}

/** A length out of the range, evenly. */
export function drawn({ least, most }: Length, random: () => number): number {
  return least + Math.floor(random() * (most - least + 1));
}
