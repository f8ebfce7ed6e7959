// An engine for simulated hosts whose caches can be seen: the step scheduler and the block cache of `headrace host` over tokens that are
// four bytes each. Steps, queueing, chunks of prefill, sharing and eviction of blocks are those of the host; only the
// language model is missing, since prompts of 100 KB would otherwise spend the core on tokens. `createOracle` chooses between such
// engines by what their caches really hold.

import { systemClock } from '../../dist/src/actor/index.js';
import { BlockCache } from '../../dist/src/host/engine/block-cache.js';
import { Generation } from '../../dist/src/host/engine/generation.js';
import { Scheduler } from '../../dist/src/host/engine/scheduler.js';
import { NO_FIGURES } from '../../dist/src/host/model-engine.js';

/** Bytes of a token, as English has them on average. A block of 512 tokens of a trace is shorter text, and so fewer tokens here. */
export const TOKEN_BYTES = 4;
/** Tokens of a block of the caches; vLLM has 16, which costs twice as much. */
const CACHE_BLOCK_TOKENS = 32;
const MAX_SEQUENCES = 256;
/** No prompt of a trace is cut. */
const CONTEXT_TOKENS = 1 << 24;

/** Tokens of text are not negative. */
const ROLE_TOKENS = { system: -2, user: -3, assistant: -4, tool: -5 };

/** Every answer consists of these, as many as are asked for. */
const WORD = 1;
const VOCABULARY = { eos: 0, text: () => ' word', bytes: () => [] };
const SAMPLER = { next: () => WORD, probabilities: [], logProbabilities: null };

/** Text of a turn on its way to tokens. */
let scratch = Buffer.from(new ArrayBuffer(1 << 16));

/** Tokens of the turns of a chat: those of the texts, which are ASCII, and one for each role. */
export function tokensOf(turns) {
  const count = turns.reduce((sum, { text }) => sum + 1 + Math.ceil(text.length / TOKEN_BYTES), 0);
  const tokens = new Int32Array(count + 1);
  let at = 0;
  for (const { role, text } of turns) {
    tokens[at++] = ROLE_TOKENS[role];
    const length = Math.ceil(text.length / TOKEN_BYTES);
    if (length * TOKEN_BYTES > scratch.length) scratch = Buffer.from(new ArrayBuffer(2 * length * TOKEN_BYTES));
    scratch.fill(0, (length - 1) * TOKEN_BYTES, length * TOKEN_BYTES);
    scratch.latin1Write(text);
    tokens.set(new Int32Array(scratch.buffer, 0, length), at);
    at += length;
  }
  tokens[at] = ROLE_TOKENS.assistant;
  return tokens;
}

/**
 * An engine of one model. `cacheBlocks` counts blocks of `blockBytes` of text; `speed` has the members of a profile that say how long steps
 * take (`stepUs`, `sequenceUs`, `memoryTokenUs`, `prefillTokenUs`) and `maxBatchTokens`.
 */
export class BlockEngine {
  kind = 'blocks';
  models;
  #cache;
  #scheduler;
  #figures = { ...NO_FIGURES };
  /** Prompts that were announced and have no first token yet, each with the tokens that it adds to the work of the engine. */
  #expected = new Set();
  /** The sum of what they add, and requests that were announced and have not ended. */
  backlogTokens = 0;
  requests = 0;

  constructor({ model, cacheBlocks, speed, blockBytes, clock = systemClock }) {
    this.models = [model];
    if (blockBytes % (TOKEN_BYTES * CACHE_BLOCK_TOKENS) !== 0) {
      throw new RangeError(`blockBytes must be a multiple of ${TOKEN_BYTES * CACHE_BLOCK_TOKENS}, not ${blockBytes}`);
    }
    const blocks = (cacheBlocks * blockBytes) / TOKEN_BYTES / CACHE_BLOCK_TOKENS;
    const memory = { kind: 'blocks', blocks, blockTokens: CACHE_BLOCK_TOKENS };
    const profile = { ...speed, maxSequences: MAX_SEQUENCES, contextTokens: CONTEXT_TOKENS, memory };
    this.#cache = new BlockCache({ ...memory, sequences: MAX_SEQUENCES });
    this.#scheduler = new Scheduler({ profile, clock, cache: this.#cache });
  }

  contextTokens() {
    return CONTEXT_TOKENS;
  }

  health() {
    return 'ready';
  }

  /** Tokens of a prompt that neither the cache has nor a prompt on its way here. */
  missing(tokens) {
    let found = this.#cache.cachedTokens(tokens, tokens.length);
    for (const { tokens: other } of this.#expected) found = Math.max(found, sharedTokens(tokens, other));
    return tokens.length - found;
  }

  /** Announces a prompt: it counts as waiting, and its blocks as there, before it arrives. */
  expect(tokens) {
    const missing = this.missing(tokens);
    this.#expected.add({ tokens, missing, isHere: false });
    this.backlogTokens += missing;
    this.requests++;
  }

  #arrived(tokens) {
    for (const expected of this.#expected) {
      if (expected.isHere || expected.tokens.length !== tokens.length) continue;
      if (sharedTokens(tokens, expected.tokens) < Math.floor(tokens.length / CACHE_BLOCK_TOKENS) * CACHE_BLOCK_TOKENS)
        continue;
      expected.isHere = true;
      return expected;
    }
    return null;
  }

  tokensOf(prompt) {
    return tokensOf(prompt.turns);
  }

  complete(task, sink) {
    const prompt = this.tokensOf(task.prompt);
    const expected = this.#arrived(prompt);
    const begin = () => {
      if (expected !== null && this.#expected.delete(expected)) this.backlogTokens -= expected.missing;
    };
    const watched = {
      mayWait: sink.mayWait,
      start: (...given) => sink.start(...given),
      leave: () => sink.leave?.(),
      end: (end) => sink.end(end),
      text(...given) {
        begin();
        sink.text(...given);
      },
    };
    const generation = new Generation({
      ...{ task, prompt, systemTokens: 0, sampler: SAMPLER, vocabulary: VOCABULARY, seed: 0, sink: watched },
      onStart: () => {
        this.#figures.waiting--;
        this.#figures.running++;
      },
      onEnd: (end) => {
        begin();
        if (expected !== null) this.requests--;
        this.#ended(end);
      },
    });
    this.#figures.waiting++;
    this.#scheduler.submit(generation.job);
    return {
      cancel: () => {
        generation.cancel();
        this.#scheduler.cancel(generation.job);
      },
    };
  }

  #ended(end) {
    const figures = this.#figures;
    if (end.slotId < 0) figures.waiting--;
    else figures.running--;
    figures.promptTokens += end.promptTokens;
    figures.cachedTokens += end.cachedTokens;
    figures.generatedTokens += end.generatedTokens;
    figures.promptMs += (end.firstTokenUs - end.startedUs) / 1000;
    figures.generationMs += (end.endedUs - end.firstTokenUs) / 1000;
  }

  /** Counters since the start: requests, prompt tokens, those of them found in the cache, time spent in steps. */
  counters() {
    const { counts } = this.#scheduler.state();
    const requests = Object.values(counts.ended).reduce((sum, count) => sum + count, 0);
    const { promptTokens, cachedTokens, stepUs, preemptions } = counts;
    return { requests, promptTokens, cachedTokens, stepUs, preemptions };
  }

  figures() {
    const { counts, usedTokens, capacityTokens, lateSteps, mostBehindUs } = this.#scheduler.state();
    return {
      ...this.#figures,
      ...{ steps: counts.steps, lateSteps, mostBehindMs: mostBehindUs / 1000 },
      ...{ memoryUse: usedTokens / capacityTokens, cacheTokens: capacityTokens },
    };
  }

  props() {
    return { slots: MAX_SEQUENCES, isMultimodal: false };
  }

  slots() {
    return [];
  }

  close() {
    this.#scheduler.close();
    return Promise.resolve();
  }
}

/** Tokens of the whole blocks in which two prompts begin alike. */
function sharedTokens(one, other) {
  const most = Math.min(one.length, other.length) - 1;
  let at = 0;
  while (at < most && one[at] === other[at]) at++;
  return at - (at % CACHE_BLOCK_TOKENS);
}

/** Weight of the tokens to be prefilled over those that wait already, and tokens that a running request counts as: the gateway's. */
const MISS_WEIGHT = 2;
const REQUEST_TOKENS = 1024;

/**
 * A choice between engines by the gateway's cost with the truth in place of what it knows: tokens that wait to be prefilled, plus those
 * that the engine does not have with their weight, plus its requests. What was sent to an engine and has not arrived counts as there. Equal
 * costs go to the engine that has had the fewest. Returns `choose(prompt)`, the index of an engine.
 */
export function createOracle(engines) {
  const given = engines.map(() => 0);
  return (prompt) => {
    const tokens = engines[0].tokensOf(prompt);
    let best = 0;
    let bestCost = Infinity;
    for (const [at, engine] of engines.entries()) {
      const cost = engine.backlogTokens + MISS_WEIGHT * engine.missing(tokens) + REQUEST_TOKENS * engine.requests;
      if (cost > bestCost || (cost === bestCost && given[at] >= given[best])) continue;
      best = at;
      bestCost = cost;
    }
    given[best]++;
    engines[best].expect(tokens);
    return best;
  };
}
