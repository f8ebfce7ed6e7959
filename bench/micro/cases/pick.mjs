// Cases of picking a CRN for a request, among 2, 8 and 64: by load, by the hash of a conversation, and by the affinity cookie.
// Each request ends at once.

const NOW_MS = 1_000_000;
// Older builds call `url` `favourite`.
const NONE = { url: undefined, favourite: undefined, key: 0, holder: 0 };

/** The cases of this file: see `../measure.mjs`. */
export async function cases(load) {
  const { Board, Candidates, createBoardMemory, hashText, STANDING } = await load('src/routing/index.js');
  const settings = { affinity: true, boundedLoad: 1.25, slowStartMs: 10_000 };
  let seed = 1;
  const random = () => (seed = (seed * 48_271) % 2_147_483_647) / 2_147_483_647;

  const pick = (count, hintOf, measured = false) => {
    const board = new Board(createBoardMemory(count, count, 1), 0);
    const members = Array.from({ length: count }, (_, at) => {
      const url = `http://10.0.0.${at}:8000`;
      board.setStanding(at, STANDING.up, 0);
      if (measured) board.noteFirstByte(at, 50 + at, NOW_MS - 1000);
      return { url, server: at, member: at, hash: hashText(url), apiKey: undefined };
    });
    const model = { id: 'm', members, budget: 0 };
    let request = 0;
    return () => {
      const hint = hintOf(request++, members);
      const member = new Candidates(model, board, settings, hint, NOW_MS, random).next();
      board.leave(member.server);
    };
  };
  const keys = Array.from({ length: 512 }, (_, at) => ({ ...NONE, key: hashText(`conversation ${at}`) }));
  return {
    'pick of 2, by load': pick(2, () => NONE),
    'pick of 2, by hash': pick(2, (request) => keys[request & 511]),
    'pick of 8, by load': pick(8, () => NONE),
    'pick of 8, by load, measured': pick(8, () => NONE, true),
    'pick of 8, by hash': pick(8, (request) => keys[request & 511]),
    'pick of 8, by cookie': pick(8, (_, members) => ({
      url: members[3].url,
      favourite: members[3].url,
      key: 0,
      holder: 0,
    })),
    'pick of 64, by hash': pick(64, (request) => keys[request & 511]),
  };
}
