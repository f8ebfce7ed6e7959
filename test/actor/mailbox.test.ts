// The mailbox is a first-in first-out queue with a bound, and its positions survive growth and wrapping.

import * as fc from 'fast-check';
import t from 'tap';
import { Mailbox } from '../../src/actor/mailbox.ts';

t.test('behaves as a bounded queue under any sequence of pushes and shifts', (t) => {
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 100 }), fc.array(fc.boolean(), { maxLength: 400 }), (capacity, steps) => {
      const mailbox = new Mailbox<number>(capacity);
      const model: number[] = [];
      for (const [index, isPush] of steps.entries()) {
        if (isPush) {
          const accepted = mailbox.push(index);
          if (accepted !== model.length < capacity) return false;
          if (accepted) model.push(index);
        } else if (model.length > 0 && mailbox.shift() !== model.shift()) return false;
        if (mailbox.size !== model.length) return false;
      }
      return true;
    }),
  );
  t.end();
});

t.test('a position is reached when everything that waited before it has been taken', (t) => {
  const mailbox = new Mailbox<number>(1000);
  for (let index = 0; index < 5; index++) mailbox.push(index);
  const position = mailbox.end;
  for (let index = 5; index < 100; index++) mailbox.push(index);
  for (let index = 0; index < 5; index++) {
    t.notOk(mailbox.reached(position), `after ${index}`);
    mailbox.shift();
  }
  t.ok(mailbox.reached(position));
  t.end();
});

t.test('undefined is a message like any other', (t) => {
  const mailbox = new Mailbox<undefined>(2);
  mailbox.push(undefined);
  t.equal(mailbox.size, 1);
  t.equal(mailbox.shift(), undefined);
  t.equal(mailbox.size, 0);
  t.end();
});

t.test('refuses a capacity below one', (t) => {
  t.throws(() => new Mailbox(0), RangeError);
  t.throws(() => new Mailbox(NaN), RangeError);
  t.end();
});
