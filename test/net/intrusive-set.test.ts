import fc from 'fast-check';
import t from 'tap';
import { IntrusiveSet } from '../../src/net/intrusive-set.ts';

class Guest {
  slot = -1;
}

t.test('who is in can leave, come back, and leave twice without harm', async (t) => {
  const present = new IntrusiveSet<'slot', Guest>('slot');
  const [a, b, c] = [new Guest(), new Guest(), new Guest()];
  for (const guest of [a, b, c, b]) present.add(guest);
  t.equal(present.size, 3, 'nobody is in twice');
  present.delete(a);
  present.delete(a);
  t.same(new Set(present.list()), new Set([b, c]));
  present.add(a);
  t.equal(present.size, 3);
});

t.test('all may leave while they are counted off', async (t) => {
  const present = new IntrusiveSet<'slot', Guest>('slot');
  for (let at = 0; at < 10; at++) present.add(new Guest());
  for (const guest of present.list()) present.delete(guest);
  t.equal(present.size, 0);
});

t.test('it holds what a set would hold', async () => {
  const steps = fc.array(fc.tuple(fc.boolean(), fc.nat(9)), { maxLength: 200 });
  fc.assert(
    fc.property(steps, (script) => {
      const guests = Array.from({ length: 10 }, () => new Guest());
      const present = new IntrusiveSet<'slot', Guest>('slot');
      const set = new Set<Guest>();
      for (const [comes, who] of script) {
        const guest = guests[who] as Guest;
        if (comes) {
          present.add(guest);
          set.add(guest);
        } else {
          present.delete(guest);
          set.delete(guest);
        }
      }
      const listed = present.list();
      return listed.length === set.size && listed.every((guest) => set.has(guest));
    }),
  );
});
