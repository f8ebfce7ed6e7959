// ModelTable and the hashes of rendezvous scores.
import fc from 'fast-check';
import t from 'tap';
import { hashText, mix, ModelTable } from '../../src/routing/model-table.ts';

t.test('finds a model in any case and keeps the configured spelling', async (t) => {
  const table = new ModelTable({ version: 3, models: [{ id: 'Org/Big-Model', members: [], budget: 0 }] });
  for (const id of ['Org/Big-Model', 'org/big-model', 'ORG/BIG-MODEL']) t.equal(table.find(id)?.id, 'Org/Big-Model');
  for (const id of ['', 'org', 'constructor', '__proto__']) t.equal(table.find(id), undefined);
  t.equal(table.version, 3);
});

t.test('hashes are 32-bit, the same every time, and fixed across versions', async (t) => {
  fc.assert(
    fc.property(fc.string(), (text) => {
      const hash = hashText(text);
      return Number.isInteger(hash) && hash >= 0 && hash <= 0xffffffff && hash === hashText(`${text}`);
    }),
  );
  // Gateways of different versions must choose the same CRN for a conversation.
  t.same([hashText(''), hashText('http://10.0.0.1:8000'), mix(1)], [2872998923, 2757642676, 1364076727]);
});

t.test('one changed bit changes about half of a hash', async (t) => {
  let changed = 0;
  for (let value = 0; value < 2000; value++) {
    for (let bit = 0; bit < 32; bit++) {
      let difference = (mix(value * 7919) ^ mix((value * 7919) ^ (1 << bit))) >>> 0;
      for (; difference !== 0; difference &= difference - 1) changed++;
    }
  }
  const share = changed / (2000 * 32 * 32);
  t.ok(share > 0.48 && share < 0.52, `${share}`);
});
