// Workloads for locality: traces from files, generators with a seed, and chat bodies made of either. A block id stands for a
// block of 512 tokens and everything before it, so two requests share exactly the prefix in which their ids are equal. The same
// file, or the same generator, seed and settings give the same requests and the same bytes.
//
// A request is { atMs, conversation, blocks, inputTokens, outputTokens }: when it is due, an id that the requests of one
// conversation have in common, block ids (whole numbers counted from 0), the last one possibly a part of a block.

import { createSeededRandom } from '../../dist/src/actor/index.js';

/** Tokens of a block, as in the traces of Mooncake. */
export const BLOCK_TOKENS = 512;

/** Limits of a trace file: a larger one is refused, since all of it is in memory. */
export const LIMITS = { lineChars: 1 << 20, requests: 200_000, blocks: 16_384 };

/**
 * Requests of a text with one JSON object a line: `{ timestamp, input_length, output_length, hash_ids }` as Mooncake publishes them.
 * Traces of coding agents have the same members; `conversation` (or `session_id`) may name the conversation. Without it, a
 * request continues the conversation whose blocks it repeats and extends. Sorted by time, which begins at 0. Throws an Error
 * with `name` and the line.
 */
export function readTrace(text, name = 'trace', mostRequests = Infinity) {
  const requests = [];
  const ids = new Map();
  const blockOf = (id) => {
    if (!ids.has(id)) ids.set(id, ids.size);
    return ids.get(id);
  };
  let from = 0;
  for (let line = 1; from < text.length && requests.length < mostRequests; line++) {
    const end = text.indexOf('\n', from);
    const row = text.slice(from, end < 0 ? text.length : end).trim();
    from = end < 0 ? text.length : end + 1;
    if (row === '') continue;
    if (requests.length === LIMITS.requests) throw new Error(`${name}: more than ${LIMITS.requests} requests`);
    requests.push(readLine(row, `${name}, line ${line}`, blockOf));
  }
  if (requests.length === 0) throw new Error(`${name} has no request`);
  requests.sort((a, b) => a.atMs - b.atMs);
  const firstMs = requests[0].atMs;
  for (const request of requests) request.atMs -= firstMs;
  nameConversations(requests);
  return requests;
}

function readLine(row, place, blockOf) {
  if (row.length > LIMITS.lineChars) throw new Error(`${place}: longer than ${LIMITS.lineChars} characters`);
  let value;
  try {
    value = JSON.parse(row);
  } catch (error) {
    throw new Error(`${place}: no JSON (${error.message})`, { cause: error });
  }
  const number = (member, least) => {
    const found = value?.[member];
    if (typeof found === 'number' && Number.isFinite(found) && found >= least) return found;
    throw new Error(`${place}: "${member}" is not a number of ${least} or more`);
  };
  const inputTokens = Math.round(number('input_length', 1));
  const { hash_ids: hashIds } = value;
  if (!Array.isArray(hashIds) || !hashIds.every((id) => Number.isSafeInteger(id))) {
    throw new Error(`${place}: "hash_ids" is not an array of whole numbers`);
  }
  if (hashIds.length > LIMITS.blocks) throw new Error(`${place}: more than ${LIMITS.blocks} blocks`);
  if (hashIds.length === 0) throw new Error(`${place}: "hash_ids" is empty`);
  if ((hashIds.length - 1) * BLOCK_TOKENS >= inputTokens) {
    throw new Error(`${place}: ${hashIds.length} blocks are too many for ${inputTokens} tokens`);
  }
  const conversation = value.conversation ?? value.session_id;
  return {
    atMs: number('timestamp', 0),
    conversation: conversation === undefined || conversation === null ? undefined : String(conversation),
    blocks: hashIds.map(blockOf),
    // Tokens behind the last block have no id, so nothing can find them again.
    inputTokens: Math.min(inputTokens, hashIds.length * BLOCK_TOKENS),
    outputTokens: Math.max(1, Math.round(number('output_length', 0))),
  };
}

/**
 * Names the conversations of requests that have none: a request continues the one whose last request had all of its whole blocks but
 * those it adds. The last block of the earlier request may have been a part of one, and does not count.
 */
function nameConversations(requests) {
  /** Last whole block of a request to its conversation. */
  const ends = new Map();
  let count = 0;
  for (const request of requests) {
    const { blocks } = request;
    for (let at = blocks.length - 1; at >= 0 && request.conversation === undefined; at--) {
      request.conversation = ends.get(blocks[at]);
    }
    request.conversation ??= `conversation-${count++}`;
    const isWhole = blocks.length * BLOCK_TOKENS === request.inputTokens;
    const last = blocks[blocks.length - (isWhole ? 1 : 2)];
    if (last !== undefined) ends.set(last, request.conversation);
  }
}

/** Different blocks in `requests`: the working set. */
export function workingSet(requests) {
  const seen = new Set();
  for (const { blocks } of requests) for (const id of blocks) seen.add(id);
  return seen.size;
}

/** Blocks of each of `hosts` caches that together hold `share` of the working set; never fewer than the longest prompt needs. */
export function cacheBlocks(requests, share, hosts) {
  const longest = Math.max(...requests.map(({ blocks, outputTokens }) => blocks.length + outputTokens / BLOCK_TOKENS));
  return Math.max(Math.ceil(longest) + 1, Math.round((share * workingSet(requests)) / hosts));
}

/** The same requests, evenly spread so that the last one is due at `durationMs`. */
export function spread(requests, durationMs) {
  const factor = durationMs / Math.max(1, requests.at(-1).atMs);
  return requests.map((request) => ({ ...request, atMs: request.atMs * factor }));
}

// --- Generators ------------------------------------------------------------------------------------------------------

/** Numbers for a generator, all from one seed. */
function drawer(seed) {
  const random = createSeededRandom(seed);
  const real = () => random();
  const between = (least, most) => least + Math.floor(real() * (most - least + 1));
  const exponential = (mean) => -Math.log(1 - real()) * mean;
  return {
    real,
    between,
    exponential,
    /** Many small values and few large ones, evenly over the logarithm. */
    logBetween: (least, most) => Math.floor(least * Math.exp(real() * Math.log((most + 1) / least))),
    pick: (list) => list[Math.floor(real() * list.length)],
    /** A rank below `count`, low ones more often: the chance falls with the rank to the power of `exponent`, not 1. */
    zipf(count, exponent) {
      // By inversion of the continuous distribution, which is close enough for a workload.
      const most = (count + 1) ** (1 - exponent);
      const rank = (1 + real() * (most - 1)) ** (1 / (1 - exponent));
      return Math.min(count, Math.floor(rank)) - 1;
    },
  };
}

/** Collects requests; ids are given out in order. */
class Builder {
  #nextId = 0;
  requests = [];

  /** Ids of `count` new blocks. */
  blocks(count) {
    return Array.from({ length: count }, () => this.#nextId++);
  }

  /** Adds a request over whole `blocks` and `extraTokens` in a block of its own. */
  add(atMs, conversation, blocks, extraTokens, outputTokens) {
    const all = extraTokens > 0 ? [...blocks, ...this.blocks(1)] : [...blocks];
    const inputTokens = blocks.length * BLOCK_TOKENS + extraTokens;
    this.requests.push({ atMs, conversation, blocks: all, inputTokens, outputTokens });
  }

  /** The first `count` requests by time. */
  sorted(count) {
    const all = this.requests.sort((a, b) => a.atMs - b.atMs).slice(0, count);
    const firstMs = all[0].atMs;
    for (const request of all) request.atMs -= firstMs;
    return all;
  }
}

/** Growing conversations: each turn repeats all before it and adds the last answer and a question. */
function chat({ seed, requests }) {
  const draw = drawer(seed);
  const builder = new Builder();
  const systems = Array.from({ length: 8 }, () => builder.blocks(draw.between(1, 3)));
  // Conversations begin all the time; more are made than needed, so that none is cut off short of the last request.
  for (let at = 0, startMs = 0; at < requests; at++) {
    startMs += draw.exponential(900);
    if (builder.requests.length > 2 * requests) break;
    const blocks = [...draw.pick(systems), ...builder.blocks(draw.logBetween(1, 48))];
    let atMs = startMs;
    for (let turn = draw.logBetween(1, 12); turn > 0; turn--) {
      const outputTokens = draw.logBetween(40, 700);
      builder.add(atMs, `chat-${at}`, blocks, draw.between(1, BLOCK_TOKENS - 1), outputTokens);
      blocks.push(...builder.blocks(draw.logBetween(1, 6)));
      atMs += outputTokens * 20 + draw.exponential(30_000);
    }
  }
  return builder.sorted(requests);
}

/**
 * Coding agents: sessions that call the model again and again with a growing context. Those with the same tools share the beginning
 * of the prompt; sub-agents have the tools of their session, and a system prompt and a context of their own.
 */
function agents({ seed, requests }) {
  const draw = drawer(seed);
  const builder = new Builder();
  const kinds = Array.from({ length: 4 }, () => {
    const tools = builder.blocks(draw.between(14, 24));
    return { main: [...tools, ...builder.blocks(6)], sub: [...tools, ...builder.blocks(3)] };
  });
  let sessions = 0;
  const run = (name, start, startMs, steps, mostBlocks) => {
    const blocks = [...start, ...builder.blocks(draw.logBetween(4, 24))];
    let atMs = startMs;
    for (let step = 0; step < steps && blocks.length < mostBlocks; step++) {
      const outputTokens = draw.logBetween(60, 900);
      builder.add(atMs, name, blocks, draw.between(1, BLOCK_TOKENS - 1), outputTokens);
      blocks.push(...builder.blocks(draw.logBetween(1, 9)));
      atMs += outputTokens * 20 + draw.exponential(draw.real() < 0.15 ? 40_000 : 4000);
    }
    return atMs;
  };
  for (let startMs = 0; builder.requests.length < 1.6 * requests; startMs += draw.exponential(18_000)) {
    const kind = draw.pick(kinds);
    const name = `agent-${sessions++}`;
    const endMs = run(name, kind.main, startMs, draw.logBetween(8, 60), 220);
    for (let sub = draw.between(0, 3); sub > 0; sub--) {
      run(`${name}-sub-${sub}`, kind.sub, startMs + draw.real() * (endMs - startMs), draw.between(4, 14), 160);
    }
  }
  return builder.sorted(requests);
}

/** 200 tenants with a system prompt of 3072 tokens each, and short questions that nobody repeats. */
function tenants({ seed, requests }) {
  const draw = drawer(seed);
  const builder = new Builder();
  const systems = Array.from({ length: TENANTS }, () => builder.blocks(TENANT_BLOCKS));
  for (let at = 0, atMs = 0; at < requests; at++) {
    atMs += draw.exponential(100);
    const tenant = draw.zipf(TENANTS, 0.4);
    builder.add(atMs, `tenant-${tenant}-${at}`, systems[tenant], draw.between(40, 400), draw.logBetween(40, 400));
  }
  return builder.sorted(requests);
}

const TENANTS = 200;
const TENANT_BLOCKS = 6;

/** Conversations of three turns; one request in four begins with the same 4096 tokens. */
function hot({ seed, requests }) {
  const draw = drawer(seed);
  const builder = new Builder();
  const shared = builder.blocks(8);
  for (let at = 0, startMs = 0; builder.requests.length < 1.3 * requests; at++) {
    startMs += draw.exponential(300);
    // Every fourth, not one in four by chance: the share is what the workload is about.
    const blocks = at % 4 === 0 ? [...shared] : builder.blocks(draw.between(3, 9));
    let atMs = startMs;
    for (let turn = 0; turn < 3; turn++) {
      const outputTokens = draw.logBetween(40, 400);
      builder.add(atMs, `hot-${at}`, blocks, draw.between(40, BLOCK_TOKENS - 1), outputTokens);
      blocks.push(...builder.blocks(draw.between(1, 2)));
      atMs += outputTokens * 20 + draw.exponential(8000);
    }
  }
  return builder.sorted(requests);
}

/** Long documents, each asked about many times, popular ones more often; every question is new. */
function documents({ seed, requests }) {
  const draw = drawer(seed);
  const builder = new Builder();
  const count = Math.max(8, Math.round(requests / 5));
  const all = Array.from({ length: count }, () => builder.blocks(draw.logBetween(12, 120)));
  for (let at = 0, atMs = 0; at < requests; at++) {
    atMs += draw.exponential(250);
    const document = draw.zipf(count, 0.7);
    builder.add(atMs, `question-${at}`, all[document], draw.between(10, 300), draw.logBetween(10, 400));
  }
  return builder.sorted(requests);
}

/** One request from each of very many conversations that have one system prompt in common: 3 KB in bodies of the default size. */
function crowd({ seed, requests }) {
  const draw = drawer(seed);
  const builder = new Builder();
  const system = builder.blocks(3);
  for (let at = 0, atMs = 0; at < requests; at++) {
    atMs += draw.exponential(30);
    const blocks = [...system, ...builder.blocks(draw.between(0, 2))];
    builder.add(atMs, `crowd-${at}`, blocks, draw.between(100, BLOCK_TOKENS - 1), draw.logBetween(20, 200));
  }
  return builder.sorted(requests);
}

/** What the workloads are, with the number of requests of each and the cache sizes at which it is measured. */
export const WORKLOADS = {
  chat: { make: chat, requests: 2000, shares: [0.1, 0.03], text: 'growing conversations' },
  agents: { make: agents, requests: 1500, shares: [0.5, 0.4], text: 'coding agents with sub-agents and shared tools' },
  documents: { make: documents, requests: 2000, shares: [0.3, 0.1], text: 'questions about long shared documents' },
  tenants: { make: tenants, requests: 3000, blocks: 325, text: '200 tenants, a system prompt of 3k tokens each' },
  hot: { make: hot, requests: 3000, blocks: 320, text: 'one request in four begins with the same 4k tokens' },
  crowd: { make: crowd, requests: 10_000, blocks: 1000, text: '10,000 conversations with one system prompt of 3 KB' },
};

/** Requests of the workload `name`. `requests` is how many there are; the same seed gives the same ones. */
export function generate(name, { seed = 1, requests = WORKLOADS[name]?.requests } = {}) {
  const workload = WORKLOADS[name];
  if (workload === undefined) {
    throw new Error(`there is no workload "${name}"; there are ${Object.keys(WORKLOADS).join(', ')}`);
  }
  return workload.make({ seed, requests });
}

// --- Chat bodies -----------------------------------------------------------------------------------------------------

const WORDS =
  'river gate weir channel intake turbine screen spill flow level gauge sluice pond valve pipe head mill race'.split(
    ' ',
  );

/** Text of block `id`: `bytes` of ASCII with a line end, the same for the same id, different from the first bytes for others. */
export function blockText(id, bytes) {
  const random = createSeededRandom(id + 1);
  let text = `${id.toString(36)}:`;
  while (text.length < bytes) text += ` ${WORDS[Math.floor(random() * WORDS.length)]}`;
  return `${text.slice(0, bytes - 1)}\n`;
}

/**
 * Makes the chat bodies of `requests`, a block of 512 tokens being `blockBytes` of text; returns `bodyOf(request, fields)`, a Buffer.
 * `fields` are more members of the body. Messages end where prompts of the workload part or end, so requests that share blocks share
 * messages, and grow as a client's would: a system message first, answers and questions, a user's message last.
 */
export function chatBodies(requests, { model, blockBytes = 1024 }) {
  const isEnd = messageEnds(requests);
  /** Text of each block as it stands in JSON. */
  const texts = new Map();
  const jsonOf = (id) => {
    if (!texts.has(id)) texts.set(id, JSON.stringify(blockText(id, blockBytes)).slice(1, -1));
    return texts.get(id);
  };
  const contentOf = ({ inputTokens }, blocks, from, to) => {
    let text = '';
    for (let at = from; at < to; at++) {
      const tokens = Math.min(BLOCK_TOKENS, inputTokens - at * BLOCK_TOKENS);
      if (tokens === BLOCK_TOKENS) text += jsonOf(blocks[at]);
      else
        text += JSON.stringify(blockText(blocks[at], blockBytes).slice(0, partBytes(tokens, blockBytes))).slice(1, -1);
    }
    return text;
  };
  const messagesOf = (request) => {
    const { blocks } = request;
    const messages = [];
    let from = 0;
    for (let at = 0; at < blocks.length; at++) {
      if (at < blocks.length - 1 && !isEnd.has(blocks[at])) continue;
      const role = from === 0 && at < blocks.length - 1 ? 'system' : 'user';
      // The first block behind an earlier question is the answer to it, where the next question has a block of its own.
      const isAnswered = messages.length > 1 && at > from;
      if (isAnswered) messages.push({ role: 'assistant', content: contentOf(request, blocks, from, from + 1) });
      messages.push({ role, content: contentOf(request, blocks, isAnswered ? from + 1 : from, at + 1) });
      from = at + 1;
    }
    return messages;
  };
  return (request, fields = {}) => {
    const head = JSON.stringify({ model, stream: true, ...fields });
    const messages = messagesOf(request).map(({ role, content }) => `{"role":"${role}","content":"${content}"}`);
    return Buffer.from(`${head.slice(0, -1)},"messages":[${messages.join(',')}]}`, 'latin1');
  };
}

/** Bytes of the first `tokens` of a block, at least one. */
function partBytes(tokens, blockBytes) {
  return Math.max(1, Math.round((tokens * blockBytes) / BLOCK_TOKENS));
}

/**
 * Ids behind which a message ends: those with several successors, and those at which a prompt ends, or ends but for a part of a
 * block. An id stands for all before it, so a prefix has the same messages in every request.
 */
function messageEnds(requests) {
  const ends = new Set();
  const next = new Map();
  for (const { blocks, inputTokens } of requests) {
    for (let at = 0; at + 1 < blocks.length; at++) {
      const known = next.get(blocks[at]);
      if (known === undefined) next.set(blocks[at], blocks[at + 1]);
      else if (known !== blocks[at + 1]) ends.add(blocks[at]);
    }
    const isWhole = blocks.length * BLOCK_TOKENS === inputTokens;
    if (isWhole) ends.add(blocks.at(-1));
    else if (blocks.length > 1) ends.add(blocks.at(-2));
  }
  return ends;
}
