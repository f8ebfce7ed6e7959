import t from 'tap';
import { createManualClock } from '../../src/actor/clock.ts';
import { HostLimits, type HostLimitSettings, type Release } from '../../src/fetch/host-limits.ts';
import { said } from '../support/site.ts';

const SETTINGS = { concurrency: 3, perHost: 2, hostDelayMs: 0, queue: 4 };

class Bench {
  readonly clock = createManualClock();
  readonly limits: HostLimits;
  /** Hosts of the requests that have started, in order. */
  readonly started: string[] = [];
  readonly #releases: Release[] = [];
  #asked = 0;

  constructor(fields: Partial<HostLimitSettings> = {}) {
    this.limits = new HostLimits({ ...SETTINGS, ...fields }, this.clock);
  }

  /** `host`, or `account@host`; without an account each request is of another one. */
  async ask(host: string, signal: AbortSignal = new AbortController().signal): Promise<string> {
    const [account = '', name] = host.includes('@') ? host.split('@') : [`of ${++this.#asked}`, host];
    try {
      const release = await this.limits.acquire(account, name ?? '', signal);
      this.started.push(host);
      this.#releases.push(release);
      return 'started';
    } catch (error) {
      return said(error);
    }
  }

  /** Ends the request that started as the index-th. */
  end(index: number): void {
    this.#releases[index]?.();
  }

  async settled(): Promise<string> {
    await new Promise((resolve) => setImmediate(resolve));
    return this.started.join(' ');
  }
}

t.test('keeps the limits per host and in total', async (t) => {
  const b = new Bench();
  for (const host of ['a', 'a', 'a', 'b', 'b']) void b.ask(host);
  t.equal(await b.settled(), 'a a b', 'the third of a waits and delays no other host');
  b.end(2);
  t.equal(await b.settled(), 'a a b b');
  b.end(0);
  b.end(0);
  t.equal(await b.settled(), 'a a b b a', 'a slot is given back once');
});

t.test('keeps the delay between two starts at a host', async (t) => {
  const b = new Bench({ hostDelayMs: 100 });
  for (const host of ['a', 'a', 'b']) void b.ask(host);
  t.equal(await b.settled(), 'a b');
  b.end(0);
  b.clock.advance(99);
  t.equal(await b.settled(), 'a b', 'even when the first has ended');
  b.clock.advance(1);
  t.equal(await b.settled(), 'a b a');
  b.end(1);
  b.end(2);
  b.clock.advance(100);
  t.equal(b.clock.nextDueMs, Infinity, 'idle hosts are forgotten');
});

t.test('refuses a request when the queue is full', async (t) => {
  const b = new Bench({ queue: 1 });
  const asked = ['a', 'a', 'a', 'a'].map((host) => b.ask(host));
  t.equal(await asked[3], 'HR_FETCH_BUSY');
  const { signal } = new AbortController();
  t.throws(() => b.limits.acquire('', 'a', signal), { code: 'HR_FETCH_BUSY', headers: ['retry-after', '1'] });
  t.equal(await b.ask('b'), 'started', 'a free host has no queue');
});

t.test('an aborted request leaves the queue', async (t) => {
  const b = new Bench({ queue: 1, perHost: 1 });
  void b.ask('a');
  const controller = new AbortController();
  const left = b.ask('a', controller.signal);
  controller.abort(new Error('gone'));
  t.equal(await left, 'Error: gone');
  void b.ask('a');
  b.end(0);
  t.equal(await b.settled(), 'a a');
  t.equal(await b.ask('b', AbortSignal.abort(new Error('gone'))), 'Error: gone');
});

t.test('wider limits start waiting requests', async (t) => {
  const b = new Bench({ perHost: 1 });
  for (let i = 0; i < 3; i++) void b.ask('a');
  t.equal(await b.settled(), 'a');
  b.limits.configure({ ...SETTINGS, perHost: 3 });
  t.equal(await b.settled(), 'a a a');
  b.limits.close();
});

t.test('accounts take turns at a host', async (t) => {
  const b = new Bench({ concurrency: 10, perHost: 1, queue: 10 });
  for (const host of ['x@h', 'a@h', 'a@h', 'a@h', 'b@h', 'b@h', 'c@h']) void b.ask(host);
  for (let index = 0; index < 7; index++) {
    await b.settled();
    b.end(index);
  }
  t.equal(b.started.join(' '), 'x@h a@h b@h c@h a@h b@h a@h');
});

t.test('the slow requests of one account leave a slot to others, of each host and in total', async (t) => {
  const b = new Bench({ concurrency: 5, perHost: 3, queue: 100 });
  for (let count = 0; count < 9; count++) void b.ask('a@h');
  t.equal(await b.settled(), 'a@h a@h');
  void b.ask('b@h');
  t.equal(await b.settled(), 'a@h a@h b@h');
  for (let count = 0; count < 9; count++) void b.ask(`a@${count}`);
  t.equal(await b.settled(), 'a@h a@h b@h a@0 a@1', 'none is left in total');
  b.end(2);
  void b.ask('b@1');
  t.equal(await b.settled(), 'a@h a@h b@h a@0 a@1 b@1');
  t.equal(b.limits.waiting, 14);
});
