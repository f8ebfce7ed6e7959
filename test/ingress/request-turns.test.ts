// Which requests begin in a turn of the event loop, and which wait.
import t from 'tap';
import { RequestTurns, type WaitingRequest } from '../../src/ingress/request-turns.ts';

/** As many as begin in a turn. */
const PER_TURN = 48;

const endOfTurn = (): Promise<void> => new Promise((resolve) => void setImmediate(resolve));

class Caller {
  readonly turns = new RequestTurns();
  readonly begun: string[] = [];

  /** Asks for a request, and again when it is called, until it may begin. */
  ask(name: string, then?: () => unknown, bytes = 1000): void {
    const request: WaitingRequest = { beginRequest: () => this.#ask(request, name, then, bytes) };
    this.#ask(request, name, then, bytes);
  }

  #ask(request: WaitingRequest, name: string, then: (() => unknown) | undefined, bytes: number): void {
    if (!this.turns.mayBegin(request, bytes)) return;
    this.begun.push(name);
    then?.();
  }

  askMany(count: number, name: string): void {
    for (let i = 0; i < count; i++) this.ask(`${name} ${i}`);
  }
}

t.test('a turn begins as many requests as it may, the next ones follow in their order', async (t) => {
  const caller = new Caller();
  caller.askMany(3 * PER_TURN + 10, 'read');
  const counts = [caller.begun.length];
  while (caller.begun.length < 3 * PER_TURN + 10) {
    await endOfTurn();
    counts.push(caller.begun.length);
  }
  t.same(counts, [1, 2, 3].map((turn) => turn * PER_TURN).concat(3 * PER_TURN + 10));
  t.same(
    caller.begun,
    Array.from({ length: 3 * PER_TURN + 10 }, (_, i) => `read ${i}`),
  );
});

t.test('nobody overtakes one that waits', async (t) => {
  const caller = new Caller();
  caller.askMany(PER_TURN, 'early');
  caller.ask('waits', () => caller.ask('behind it on its connection'));
  caller.ask('waits too');
  await endOfTurn();
  caller.ask('late');
  while (caller.begun.length < PER_TURN + 4) await endOfTurn();
  t.same(caller.begun.slice(PER_TURN), ['waits', 'waits too', 'behind it on its connection', 'late']);
});

t.test('a connection with many requests has what others leave of a turn', async (t) => {
  const caller = new Caller();
  caller.askMany(PER_TURN, 'early');
  const askMany = (left: number): void => caller.ask('many', () => left > 1 && askMany(left - 1));
  askMany(PER_TURN - 1);
  caller.ask('one');
  await endOfTurn();
  t.same(caller.begun.slice(PER_TURN), ['many', 'one', ...Array<string>(PER_TURN - 2).fill('many')]);
});

t.test('a request that is gone when it is called holds up nobody', async (t) => {
  const caller = new Caller();
  caller.askMany(PER_TURN, 'early');
  for (let i = 0; i < 2 * PER_TURN; i++) caller.turns.mayBegin({ beginRequest: () => undefined }, 1000);
  caller.ask('behind them');
  for (let i = 0; i < 3; i++) await endOfTurn();
  t.same(caller.begun.slice(PER_TURN), ['behind them']);
});

t.test('while nothing waits there is no end of a turn to wait for', async (t) => {
  const caller = new Caller();
  for (let turn = 0; turn < 3; turn++) {
    caller.askMany(PER_TURN / 3, `turn ${turn}`);
    await endOfTurn();
  }
  t.equal(caller.begun.length, PER_TURN);
  caller.ask('counted with them');
  t.equal(caller.begun.length, PER_TURN, 'it waits');
  await endOfTurn();
  t.equal(caller.begun.at(-1), 'counted with them', 'for the end of this turn');
});

t.test('few bytes wait: a request that finds more begins at once', async (t) => {
  const caller = new Caller();
  const [largeBytes, waiting] = [64 * 1024, 64];
  let asked = 0;
  for (let round = 0; round < 3; round++) {
    caller.askMany(PER_TURN, 'early');
    const before = caller.begun.length;
    for (let i = 0; i < 2 * waiting; i++) caller.ask('large', undefined, largeBytes);
    const begun = caller.begun.slice(before).filter((name) => name === 'large').length;
    // Some of the first ones may wait too.
    t.ok(begun === waiting || begun === waiting + 1, `all but 4 MiB begin: ${begun}`);
    asked += PER_TURN + 2 * waiting;
    while (caller.begun.length < asked) await endOfTurn();
  }
});
