import fc from 'fast-check';
import t from 'tap';
import { Roster } from '../../src/net/roster.ts';

class Guest {
  seat = -1;
}

t.test('who is in can leave, come back, and leave twice without harm', async (t) => {
  const roster = new Roster<'seat', Guest>('seat');
  const [a, b, c] = [new Guest(), new Guest(), new Guest()];
  for (const guest of [a, b, c, b]) roster.add(guest);
  t.equal(roster.size, 3, 'nobody is in twice');
  roster.delete(a);
  roster.delete(a);
  t.same(new Set(roster.list()), new Set([b, c]));
  roster.add(a);
  t.equal(roster.size, 3);
});

t.test('all may leave while they are counted off', async (t) => {
  const roster = new Roster<'seat', Guest>('seat');
  for (let at = 0; at < 10; at++) roster.add(new Guest());
  for (const guest of roster.list()) roster.delete(guest);
  t.equal(roster.size, 0);
});

t.test('it holds what a set would hold', async () => {
  const steps = fc.array(fc.tuple(fc.boolean(), fc.nat(9)), { maxLength: 200 });
  fc.assert(
    fc.property(steps, (script) => {
      const guests = Array.from({ length: 10 }, () => new Guest());
      const roster = new Roster<'seat', Guest>('seat');
      const set = new Set<Guest>();
      for (const [comes, who] of script) {
        const guest = guests[who] as Guest;
        if (comes) {
          roster.add(guest);
          set.add(guest);
        } else {
          roster.delete(guest);
          set.delete(guest);
        }
      }
      const listed = roster.list();
      return listed.length === set.size && listed.every((guest) => set.has(guest));
    }),
  );
});
