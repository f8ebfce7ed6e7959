// What clients do not read of stored responses is bounded, for each account and for all.

import t from 'tap';
import { BodyBudget } from '../../src/ingress/body.ts';
import { UnreadResponses } from '../../src/responses/unread-responses.ts';
import { StubExchange } from '../ingress/stub-exchange.ts';

const KIB = 1024;

/** A client that reads nothing until it leaves. */
class SlowExchange extends StubExchange {
  constructor(account: string) {
    super('GET');
    this.account = account;
  }

  override end(): void {
    this.handedOver = true;
  }
}

t.test('an account that does not read its responses gets no more of them, and takes nothing from others', (t) => {
  const budget = new BodyBudget(4096 * KIB);
  const unread = new UnreadResponses(budget);
  const respond = (account: string, kib: number): SlowExchange => {
    const exchange = new SlowExchange(account);
    unread.respond(exchange, Buffer.alloc(kib * KIB));
    return exchange;
  };
  const first = respond('a', 128);
  const second = respond('a', 128);
  const tooMuch = { code: 'HR_OVERLOADED', message: 'The gateway is out of memory for responses' };
  t.throws(() => respond('a', 128), tooMuch, 'a sixteenth is taken');
  respond('a', 63).leave();
  t.equal(budget.usedBytes, 256 * KIB, 'small ones do not count');
  const large = respond('b', 1024);
  t.throws(() => respond('b', 64), tooMuch, 'one that is larger than the share is alone');
  t.throws(() => respond('c', 1024), tooMuch, 'half of the memory is left to requests');
  for (const exchange of [first, second, large]) exchange.leave();
  t.equal(budget.usedBytes, 0);
  respond('a', 128).leave();
  const gone = new SlowExchange('a');
  gone.leave();
  unread.respond(gone, Buffer.alloc(128 * KIB));
  t.equal(budget.usedBytes, 0, 'nothing is counted for a client that has gone');
  t.end();
});
