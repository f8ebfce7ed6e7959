// Cases of picking a CRN for a request, among 2, 8 and 64: by load, by what is known of prompts of 1 KB and 100 KB, and by the affinity
// cookie. Each request begins to answer and ends at once. The hashes of the prompt are made before.

import { createPlanes, pickerDefaults } from '../../lib/picker-planes.mjs';

const NOW_MS = 1_000_000;

/** The cases of this file: see `../measure.mjs`. */
export async function cases(load) {
  const routing = await load('src/routing/index.js');
  const settings = pickerDefaults(await load('src/config/load.js'));
  let seed = 1;
  const random = () => (seed = (seed * 48_271) % 2_147_483_647) / 2_147_483_647;
  const promptOf = (count) => {
    const hashes = Int32Array.from({ length: 2 * count }, () => (random() * 2 ** 32) | 0);
    return { hashes, count, bytes: count * 512 + 100 };
  };

  const pick = (count, prompts, { cookie = false, measured = false } = {}) => {
    const clock = { now: () => NOW_MS };
    const {
      model,
      planes: [plane],
    } = createPlanes(routing, { count, clock, random });
    const { board } = plane;
    const { members } = model;
    if (measured) for (const { member } of members) board.loads.noteFirst(member, 10_000, 50 + member, NOW_MS - 1000);
    const url = cookie ? members.at(-1).url : undefined;
    const hints = prompts.map((prompt) => ({
      ...{ dialectBit: 0, translatedBit: 0, isUntranslatable: false },
      ...{ url, session: 0, holder: 0, stream: true, bytes: prompt.bytes, blocks: () => prompt },
    }));
    let request = 0;
    return () => {
      const candidates = new routing.Candidates(model, plane, settings, hints[request++ % hints.length]);
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
