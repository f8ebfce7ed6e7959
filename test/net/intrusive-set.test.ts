// IntrusiveSet compared with a Set, and removal during iteration.
import fc from 'fast-check';
import t from 'tap';
import { IntrusiveSet } from '../../src/net/intrusive-set.ts';

class Member {
  slot = -1;
}

t.test('members can be removed, added again, and removed twice', async (t) => {
  const members = new IntrusiveSet<'slot', Member>('slot');
  const [a, b, c] = [new Member(), new Member(), new Member()];
  for (const member of [a, b, c, b]) members.add(member);
  t.equal(members.size, 3, 'no member is in twice');
  members.delete(a);
  members.delete(a);
  t.same(new Set(members.list()), new Set([b, c]));
  members.add(a);
  t.equal(members.size, 3);
});

t.test('members may be removed during iteration', async (t) => {
  const members = new IntrusiveSet<'slot', Member>('slot');
  for (let at = 0; at < 10; at++) members.add(new Member());
  for (const member of members.list()) members.delete(member);
  t.equal(members.size, 0);
});

t.test('behaves like a Set under random operations', async () => {
  const steps = fc.array(fc.tuple(fc.boolean(), fc.nat(9)), { maxLength: 200 });
  fc.assert(
    fc.property(steps, (script) => {
      const all = Array.from({ length: 10 }, () => new Member());
      const members = new IntrusiveSet<'slot', Member>('slot');
      const set = new Set<Member>();
      for (const [add, which] of script) {
        const member = all[which] as Member;
        if (add) {
          members.add(member);
          set.add(member);
        } else {
          members.delete(member);
          set.delete(member);
        }
      }
      const listed = members.list();
      return listed.length === set.size && listed.every((member) => set.has(member));
    }),
  );
});
