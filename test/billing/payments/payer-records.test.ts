import t from 'tap';
import { createManualClock } from '../../../src/actor/clock.ts';
import { PayerRecords } from '../../../src/billing/payments/payer-records.ts';

t.test('a payer begins with one unpaid request and gains one with every payment', (t) => {
  const records = new PayerRecords(3, createManualClock());
  const limits = [records.unpaidLimit('a')];
  t.equal(records.hasPaid('a'), false);
  for (let paid = 0; paid < 4; paid++) {
    records.paid('a');
    limits.push(records.unpaidLimit('a'));
  }
  t.same(limits, [1, 2, 3, 3, 3]);
  t.equal(records.hasPaid('a'), true);
  t.equal(records.unpaidLimit('b'), 1);
  t.end();
});

t.test('a refusal takes that back and bars the payer, longer each time, until the next payment', (t) => {
  const clock = createManualClock();
  const records = new PayerRecords(8, clock);
  records.paid('a');
  records.paid('a');
  const bars: number[] = [];
  for (let refusal = 0; refusal < 12; refusal++) {
    records.refused('a');
    bars.push(records.barredMs('a'));
  }
  t.same(bars.slice(0, 4), [1000, 2000, 4000, 8000]);
  t.equal(bars.at(-1), 600_000);
  t.same([records.unpaidLimit('a'), records.hasPaid('a')], [0, false]);
  clock.advance(600_000);
  t.equal(records.unpaidLimit('a'), 1);
  t.equal(records.barredMs('a'), 0);
  records.refused('a');
  records.paid('a');
  t.equal(records.barredMs('a'), 0);
  records.refused('a');
  t.equal(records.barredMs('a'), 1000);
  t.equal(records.barredMs('b'), 0);
  t.end();
});
