// Builds the prompt tokens of a request: special tokens, system prompt, images. The tokens of the first turns of a
// conversation do not depend on later ones, so that they are found in the prefix cache.
import { fnv1a } from '../../routing/index.ts';
import { type ImageData, type PromptPart, readImageMarks, refuseUnknownTokens } from '../completion-options.ts';
import type { Prompt, Turn } from '../model-engine.ts';
import type { Tokenizer } from './model/tokenizer.ts';
import { type Vocabulary, SPECIAL } from './model/vocabulary.ts';
/** Tokens that an image is worth, whatever its size. */
const IMAGE_TOKENS = 64;

const ROLE_TOKENS: Readonly<Record<Turn['role'], number>> = {
  system: SPECIAL.system,
  user: SPECIAL.user,
  assistant: SPECIAL.assistant,
  tool: SPECIAL.tool,
};

/** What prompts are made with. */
export interface PromptDeps {
  readonly vocabulary: Vocabulary;
  readonly tokenizer: Tokenizer;
  /** Tokens of the system prompt set for all slots, their beginning-of-sequence included; empty for none. */
  readonly systemTokens: Int32Array;
}

/**
 * Tokens of a prompt, at least one. A system prompt stands before it and has the beginning of the sequence then.
 * Throws InvalidOptions for numbers that are no tokens and for images that are not there.
 */
export function promptTokens(prompt: Prompt, images: readonly ImageData[], deps: PromptDeps): Int32Array {
  const tokens: number[] = [...deps.systemTokens];
  const begin = (): void => {
    if (tokens.length === 0) tokens.push(SPECIAL.bos);
  };
  const text = (value: string): void => push(tokens, deps.tokenizer.tokenize(value));
  if (prompt.kind === 'infill') {
    begin();
    for (const { filename, text: content } of prompt.extra ?? []) text(`${filename ?? 'filename'}\n${content}\n`);
    tokens.push(SPECIAL.prefix);
    text(prompt.prefix);
    tokens.push(SPECIAL.suffix);
    text(prompt.suffix.replace(/^ /, ''));
    tokens.push(SPECIAL.middle);
    text(prompt.middle ?? '');
  } else if (prompt.kind === 'chat') {
    begin();
    const { tools, turns } = prompt;
    const start = turns.findIndex(({ role }) => role !== 'system');
    const listed = tools === undefined ? [] : [{ role: 'system', text: tools } as const];
    for (const turn of turns.toSpliced(start === -1 ? turns.length : start, 0, ...listed)) {
      tokens.push(ROLE_TOKENS[turn.role]);
      text(turn.text);
      tokens.push(SPECIAL.endOfTurn);
    }
    if (prompt.continues === true) tokens.pop();
    else tokens.push(prompt.speaks === 'data' ? SPECIAL.call : SPECIAL.assistant);
  } else {
    if (typeof prompt.parts[0] === 'string') begin();
    addParts(tokens, prompt.parts, images, deps);
    begin();
  }
  return Int32Array.from(tokens);
}

function addParts(
  tokens: number[],
  parts: readonly PromptPart[],
  images: readonly ImageData[],
  deps: PromptDeps,
): void {
  refuseUnknownTokens('prompt', parts, deps.vocabulary.size);
  const text = (value: string): void => push(tokens, deps.tokenizer.tokenize(value));
  const texts = parts.filter((part) => typeof part === 'string');
  // Without an image, marks are text.
  const read = (images.length === 0 ? [] : readImageMarks(texts, images)).values();
  for (const part of parts) {
    if (typeof part === 'number') {
      tokens.push(part);
      continue;
    }
    const { images: marked, rest } = read.next().value ?? { images: [], rest: part };
    for (const { before, image } of marked) {
      text(before);
      push(tokens, imageTokens(image, deps.vocabulary));
    }
    text(rest);
  }
}

/** The simulated model sees an image as bytes that depend on all of its data. */
function imageTokens({ data }: ImageData, { firstByte }: Vocabulary): Int32Array {
  let hash = fnv1a(data);
  return Int32Array.from({ length: IMAGE_TOKENS }, () => {
    hash = Math.imul(hash ^ (hash >>> 15), 0x2c1b3c6d) + 1;
    return firstByte + ((hash >>> 16) & 0xff);
  });
}

/** Not by spreading: a long prompt has more tokens than a call may have arguments. */
function push(tokens: number[], more: Int32Array): void {
  for (const token of more) tokens.push(token);
}
