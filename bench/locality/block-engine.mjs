// An engine for simulated hosts whose caches can be seen: the step scheduler and the block cache of `headrace host` over tokens that are
// a fixed number of bytes each. Steps, queueing, chunks of prefill, sharing and eviction of blocks are those of the host; only the
// language model is missing, since prompts of 100 KB would otherwise spend the core on tokens. `createOracle` chooses between such
// engines by what their caches really hold.

import { systemClock } from '../../dist/src/actor/index.js';
import { BlockCache } from '../../dist/src/host/engine/block-cache.js';
import { Generation } from '../../dist/src/host/engine/generation.js';
import { Scheduler } from '../../dist/src/host/engine/scheduler.js';
import { NO_FIGURES } from '../../dist/src/host/model-engine.js';
import { BLOCK_TOKENS } from './traces.mjs';

/** Tokens of a block of the caches: a block of a trace is eight of them, as partial blocks are cached in parts. */
const CACHE_BLOCK_TOKENS = 64;
const MAX_SEQUENCES = 256;
/** No prompt of a trace is cut. */
const CONTEXT_TOKENS = 1 << 24;

/** Tokens of roles stand above those of text. */
const ROLE_TOKENS = { system: 1 << 28, user: (1 << 28) + 1, assistant: (1 << 28) + 2, tool: (1 << 28) + 3 };

/** Every answer consists of these, as many as are asked for. */
const WORD = 1;
const VOCABULARY = { eos: 0, text: () => ' word', bytes: () => [] };
const SAMPLER = { next: () => WORD, probabilities: [], logProbabilities: null };

/** Tokens of the turns of a chat: `tokenBytes` characters each, one for each role. */
export function tokensOf(turns, tokenBytes) {
  const count = turns.reduce((sum, { text }) => sum + 1 + Math.ceil(text.length / tokenBytes), 0);
  const tokens = new Int32Array(count + 1);
  let at = 0;
  for (const { role, text } of turns) {
    tokens[at++] = ROLE_TOKENS[role];
    for (let from = 0; from < text.length; from += tokenBytes) {
      let token = 0;
      for (let end = Math.min(from + tokenBytes, text.length), i = from; i < end; i++) {
        token = (Math.imul(token, 31) + text.charCodeAt(i)) & 0xfffffff;
      }
      tokens[at++] = token;
    }
  }
  tokens[at] = ROLE_TOKENS.assistant;
  return tokens;
}

/**
 * An engine of one model. `cacheBlocks` counts blocks of 512 tokens; `speed` has the members of a profile that say how long steps
 * take (`stepUs`, `sequenceUs`, `memoryTokenUs`, `prefillTokenUs`) and `maxBatchTokens`.
 */
export class BlockEngine {
  kind = 'blocks';
  models;
  #cache;
  #scheduler;
  #tokenBytes;
  #cacheBlocks;
  #figures = { ...NO_FIGURES };
  /** Tokens to prefill of the requests that have no first token yet, and sequences that decode. */
  backlogTokens = 0;
  decoding = 0;

  constructor({ model, cacheBlocks, speed, blockBytes, clock = systemClock }) {
    this.models = [model];
    this.#tokenBytes = blockBytes / BLOCK_TOKENS;
    if (!Number.isInteger(this.#tokenBytes)) throw new RangeError(`blockBytes must be a multiple of ${BLOCK_TOKENS}`);
    this.#cacheBlocks = (cacheBlocks * BLOCK_TOKENS) / CACHE_BLOCK_TOKENS;
    const memory = { kind: 'blocks', blocks: this.#cacheBlocks, blockTokens: CACHE_BLOCK_TOKENS };
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

  /** Tokens of a prompt that would have to be prefilled now. */
  missing(tokens) {
    return tokens.length - this.#cache.cachedTokens(tokens, tokens.length);
  }

  tokensOf(prompt) {
    return tokensOf(prompt.turns, this.#tokenBytes);
  }

  complete(task, sink) {
    const prompt = this.tokensOf(task.prompt);
    const missing = this.missing(prompt);
    let hasBegun = false;
    const begin = () => {
      if (hasBegun) return;
      hasBegun = true;
      this.backlogTokens -= missing;
      this.decoding++;
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
        this.decoding--;
        this.#ended(end);
      },
    });
    this.backlogTokens += missing;
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
    const memoryUse = usedTokens / capacityTokens;
    return { ...this.#figures, steps: counts.steps, lateSteps, mostBehindMs: mostBehindUs / 1000, memoryUse };
  }

  /** What a server of this kind says of itself, the size of its cache among it. */
  metrics() {
    const labels = `block_size="${CACHE_BLOCK_TOKENS}",num_gpu_blocks="${this.#cacheBlocks}",enable_prefix_caching="True"`;
    return Promise.resolve(
      `# TYPE vllm:cache_config_info gauge\nvllm:cache_config_info{engine="0",${labels}} 1\n` +
        `# TYPE vllm:num_requests_waiting gauge\nvllm:num_requests_waiting{model_name="${this.models[0]}"} ${this.#figures.waiting}\n`,
    );
  }

  props() {
    return { assistantName: '', antiPrompt: '', systemPrompt: '', slots: MAX_SEQUENCES, isMultimodal: false };
  }

  slots() {
    return [];
  }

  close() {
    this.#scheduler.close();
    return Promise.resolve();
  }
}

/** Weight of the tokens to be prefilled over those that wait already, as the gateway has it. */
const MISS_WEIGHT = 3;

/**
 * A choice between engines by the gateway's cost with the truth in place of what it knows: tokens that wait to be prefilled, plus
 * three times those that the cache of the engine does not have. Equal costs go to the engine that has had the fewest. Returns `choose(prompt)`, the index
 * of an engine.
 */
export function createOracle(engines) {
  const given = engines.map(() => 0);
  return (prompt) => {
    const tokens = engines[0].tokensOf(prompt);
    let best = 0;
    let bestCost = Infinity;
    for (const [at, engine] of engines.entries()) {
      const cost = engine.backlogTokens + MISS_WEIGHT * engine.missing(tokens);
      if (cost > bestCost || (cost === bestCost && given[at] >= given[best])) continue;
      best = at;
      bestCost = cost;
    }
    given[best]++;
    return best;
  };
}
