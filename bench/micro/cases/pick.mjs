// Cases of picking a CRN for a request, among 2, 8 and 64: by load, by what is known of prompts of 1 KB and 100 KB, and by the affinity
// cookie. Each request begins to answer and ends at once. The hashes of the prompt are made before.

const NOW_MS = 1_000_000;

/** The cases of this file: see `../measure.mjs`. */
export async function cases(load) {
  const { BlockIndex, Board, CacheFeedback, Candidates, CommonPrefixes, createBoardMemory, hashText, STANDING } =
    await load('src/routing/index.js');
  const settings = {
    ...{ affinity: true, missWeight: 2, requestBytes: 4096, speedWeight: 1, failurePenalty: 10 },
    ...{ commonShare: 0.2, prior: 0.5, sessionPrior: 0.2, stickiness: 4, slowStartMs: 10_000 },
  };
  let seed = 1;
  const random = () => (seed = (seed * 48_271) % 2_147_483_647) / 2_147_483_647;
  const promptOf = (count) => {
    const hashes = Int32Array.from({ length: 2 * count }, () => (random() * 2 ** 32) | 0);
    return { hashes, count, bytes: count * 512 + 100 };
  };

  const pick = (count, prompts, { cookie = false, measured = false } = {}) => {
    const memory = createBoardMemory(count, count, 1, 64 * 1024 * 1024);
    const board = new Board(memory, 0);
    const index = new BlockIndex(memory.blocks);
    const deps = {
      ...{ board, index, common: new CommonPrefixes(), feedback: new CacheFeedback(memory, index) },
      ...{ clock: { now: () => NOW_MS }, random },
    };
    const members = Array.from({ length: count }, (_, at) => {
      const url = `http://10.0.0.${at}:8000`;
      board.setStanding(at, STANDING.up, 0);
      if (measured) board.loads.noteFirst(at, 10_000, 50 + at, NOW_MS - 1000);
      return { url, server: at, member: at, hash: hashText(url), apiKey: undefined };
    });
    const model = { id: 'm', members, budget: 0 };
    const url = cookie ? members.at(-1).url : undefined;
    const hints = prompts.map((prompt) => ({
      ...{ url, session: 0, holder: 0, stream: true, bytes: prompt.bytes, blocks: () => prompt },
    }));
    let request = 0;
    return () => {
      const candidates = new Candidates(model, deps, settings, hints[request++ % hints.length]);
      const member = candidates.next();
      candidates.prefilled(candidates, null);
      board.leave(member.server);
    };
  };
  const none = [promptOf(0)];
  const small = Array.from({ length: 256 }, () => promptOf(2));
  const large = Array.from({ length: 256 }, () => promptOf(146));
  return {
    'pick of 2, by load': pick(2, none),
    'pick of 2, 1 KB': pick(2, small),
    'pick of 8, by load': pick(8, none),
    'pick of 8, by load, measured': pick(8, none, { measured: true }),
    'pick of 8, 1 KB': pick(8, small, { measured: true }),
    'pick of 8, 100 KB': pick(8, large, { measured: true }),
    'pick of 8, by cookie': pick(8, small, { cookie: true }),
    'pick of 64, 1 KB': pick(64, small),
    'pick of 64, 100 KB': pick(64, large),
  };
}
