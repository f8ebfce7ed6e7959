// Explanations of the picker: they name the CRN that the next request goes to, at the cost by which it is chosen, and change nothing.
import t from 'tap';
import { createSeededRandom } from '../../src/actor/testkit.ts';
import { Board, type BoardMemory, createBoardMemory, STANDING, type Standing } from '../../src/routing/board.ts';
import { CacheFeedback } from '../../src/routing/cache-feedback.ts';
import { hashText, type Model } from '../../src/routing/model-table.ts';
import { type AffinityHint, Candidates, type PickerDeps, type PromptHashes } from '../../src/routing/picker.ts';
import { NO_HINT, PICKER, pickerDeps } from '../support/picker.ts';

const NOW_MS = 100_000;
const COUNT = 5;

interface Scene {
  readonly memory: BoardMemory;
  readonly board: Board;
  readonly deps: PickerDeps;
  readonly model: Model;
}

function scene(standings: readonly Standing[] = Array<Standing>(COUNT).fill(STANDING.up)): Scene {
  const memory = createBoardMemory(COUNT, COUNT, 1);
  const board = new Board(memory, 0);
  for (const [at, standing] of standings.entries()) board.setStanding(at, standing, 0);
  const deps = pickerDeps(board, memory, () => NOW_MS);
  const members = standings.map((_, at) => {
    const url = `http://10.0.0.${at}:8000`;
    return { url, server: at, member: at, hash: hashText(url), apiKey: undefined, weight: 1, dialects: 0 };
  });
  return { memory, board, deps, model: { id: 'm', members, budget: 0 } };
}

function promptOf(seed: number, count: number): PromptHashes {
  const random = createSeededRandom(seed);
  return {
    hashes: Int32Array.from({ length: 2 * count }, () => (random() * 2 ** 32) | 0),
    count,
    bytes: count * 512 + 100,
  };
}

/** Every byte of the shared memory. */
function bytesOf({ blocks, loads, ...memory }: BoardMemory): string {
  const buffers = [...Object.values({ ...memory, ...blocks, ...loads })].filter(
    (each) => each instanceof SharedArrayBuffer,
  );
  return buffers.map((each) => Buffer.from(each).toString('latin1')).join('|');
}

t.test('an explanation names the CRN that the request goes to then, and writes nothing', async (t) => {
  const random = createSeededRandom(7);
  const oneOf = <T>(values: readonly T[]): T => values[Math.floor(random() * values.length)] as T;
  const { capable, down, drained, probing, up } = STANDING;
  const reasons = new Set<string>();
  for (let run = 0; run < 300; run++) {
    const standings = Array.from({ length: COUNT }, () =>
      oneOf(run % 10 === 0 ? [drained, down] : [up, up, up, capable, down, probing]),
    );
    const { board, deps, memory, model } = scene(standings);
    const prompt = promptOf(run, oneOf([0, 3, 40]));
    for (let at = 0; at < COUNT; at++) {
      if (random() < 0.5) deps.index.enter(at, prompt.hashes, Math.floor(random() * (prompt.count + 1)));
      if (random() < 0.5) board.loads.charge(at, Math.floor(random() * 100_000), NOW_MS - 10);
      if (random() < 0.5) board.loads.noteFirst(at, 10_000, 1 + random() * 500, NOW_MS - 1000);
      if (random() < 0.3) board.noteFailure(at, NOW_MS - 100);
      if (random() < 0.2) board.offerTrial(at);
    }
    const hint: AffinityHint = {
      ...NO_HINT,
      url: random() < 0.3 ? oneOf(model.members).url : undefined,
      session: random() < 0.3 ? hashText(`session ${run}`) : 0,
      holder: random() < 0.1 ? oneOf(model.members).hash : 0,
      bytes: prompt.bytes,
      blocks: () => prompt,
    };
    const settings = { ...PICKER, affinity: random() < 0.9 };
    const before = bytesOf(memory);
    const explanation = new Candidates(model, deps, settings, hint).explain();
    t.equal(bytesOf(memory), before, 'nothing is written');
    const candidates = new Candidates(model, deps, settings, hint);
    t.equal(candidates.next()?.url ?? null, explanation.chosen, `${run}`);
    if (candidates.trial) t.equal(explanation.reason, 'trial');
    else if (candidates.lastResort) t.equal(explanation.reason, 'last resort');
    else t.equal(explanation.reason, candidates.affinity);
    reasons.add(explanation.reason);
    const { chosen, crns, reason } = explanation;
    if (chosen !== null && !['cookie', 'response', 'trial'].includes(reason)) {
      const least = Math.min(...crns.flatMap(({ cost, eligible }) => (eligible ? [cost] : [])));
      const own = crns.find(({ crn }) => crn === chosen)?.cost ?? Infinity;
      t.ok(own <= 1.01 * least, `${run} ${reason}: ${own} is no more than ${least}`);
    }
    for (const { backlog, cost, failures, inFlight, miss, slowness, slowStart } of explanation.crns) {
      t.ok(Math.abs((backlog + inFlight + miss) * slowness * failures * slowStart - cost) <= 1e-9 * cost);
    }
  }
  for (const reason of ['cache', 'cookie', 'moved', 'none', 'prior', 'response', 'spilled', 'trial', 'last resort'])
    t.ok(reasons.has(reason), reason);
});

t.test('without a CRN there is none to choose', async (t) => {
  const { deps } = scene();
  const none = new Candidates({ id: 'm', members: [], budget: 0 }, deps, PICKER, NO_HINT).explain();
  t.match(none, { chosen: null, crns: [] });
  const { deps: drained, model } = scene(Array<Standing>(COUNT).fill(STANDING.drained));
  t.equal(new Candidates(model, drained, PICKER, NO_HINT).explain().chosen, null);
});

t.test('what a CRN holds counts as much as its reports confirm', async (t) => {
  const { deps, memory, model } = scene();
  const prompt = promptOf(1, 40);
  const hint: AffinityHint = { ...NO_HINT, bytes: prompt.bytes, blocks: () => prompt };
  const settings = { ...PICKER, prior: 0, commonShare: 0 };
  deps.index.enter(2, prompt.hashes, prompt.count);
  const feedback = new CacheFeedback(memory, deps.index);
  const explain = (): readonly number[] =>
    new Candidates(model, deps, settings, hint).explain().crns.map(({ miss }) => Math.round(miss));
  t.same(explain(), [41_160, 41_160, 200, 41_160, 41_160]);
  t.equal(new Candidates(model, deps, settings, hint).explain().chosen, 'http://10.0.0.2:8000');
  feedback.reported(0, 2, null, false);
  t.same(explain(), Array(5).fill(41_160));
});
