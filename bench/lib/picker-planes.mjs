// Gateways without sockets, for what measures or simulates the choice of CRNs: what the picker of each thread needs, in front of CRNs that
// are all up.

const INDEX_BYTES = 64 * 1024 * 1024;

/**
 * One model on `count` CRNs, and a plane for each of the threads of one gateway. `routing`: the module `src/routing` of a build. `makeIndex`:
 * the block index of a thread, given the memory.
 */
export function createPlanes(routing, { count, threads = 1, clock, random, makeIndex, indexBytes = INDEX_BYTES }) {
  const { BlockIndex, Board, CacheFeedback, CommonPrefixes, createBoardMemory, hashText, STANDING } = routing;
  const memory = createBoardMemory(count, count, threads, indexBytes);
  const members = Array.from({ length: count }, (_, at) => {
    const url = `http://10.0.0.${at}:8000`;
    return { url, server: at, member: at, hash: hashText(url), apiKey: undefined, weight: 1, dialects: 0 };
  });
  const planes = Array.from({ length: threads }, (_, thread) => {
    const board = new Board(memory, thread);
    for (const { member } of members) board.setStanding(member, STANDING.up, 0);
    const index = makeIndex?.(memory) ?? new BlockIndex(memory.blocks);
    const feedback = new CacheFeedback(memory, index);
    return { board, index, feedback, common: new CommonPrefixes(), clock, random };
  });
  return { memory, model: { id: 'm', members, budget: 0 }, planes };
}

/** The settings of a picker in a gateway that sets none. `load`: the module `src/config/load` of a build. */
export function pickerDefaults({ resolveSettings }) {
  const { ejection, routing } = resolveSettings({}).settings;
  return { ...routing, slowStartMs: ejection.slowStartMs };
}
