// Which CRN has a response: shared by threads, bounded, forgetful.
import t from 'tap';
import { createBoardMemory } from '../../src/routing/board.ts';
import { hashText, type Member } from '../../src/routing/model-table.ts';
import { ResponseHolders } from '../../src/routing/response-holders.ts';

const member = (at: number): Member => {
  const url = `http://10.0.0.${at}:8000`;
  return { url, server: at, member: at, hash: hashText(url), apiKey: undefined, weight: 1, dialects: 0 };
};

t.test('a response is found by every thread until others take its place', (t) => {
  const memory = createBoardMemory(8, 8, 2);
  const [one, two] = [new ResponseHolders(memory), new ResponseHolders(memory)];
  t.equal(two.find('resp_0'), 0);
  for (let n = 0; n < 1000; n++) one.note(`resp_${n}`, member(n % 8));
  let kept = 0;
  for (let n = 0; n < 1000; n++) {
    const hash = two.find(`resp_${n}`);
    if (hash !== 0) kept++;
    t.ok(hash === 0 || hash === member(n % 8).hash);
  }
  t.ok(kept > 950, `${kept} of 1000`);
  one.note('resp_7', member(0));
  t.equal(two.find('resp_7'), member(0).hash, 'the last note counts');
  for (let n = 0; n < 200_000; n++) one.note(`later_${n}`, member(1));
  let left = 0;
  for (let n = 0; n < 1000; n++) if (two.find(`resp_${n}`) !== 0) left++;
  t.equal(left, 0);
  t.end();
});
