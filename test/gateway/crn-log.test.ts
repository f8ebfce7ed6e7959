// What the log says of CRNs, and how little of it when many change at once.

import t from 'tap';
import { createManualClock, type ManualClock } from '../../src/actor/index.ts';
import { CrnLog } from '../../src/gateway/crn-log.ts';
import { type Standing, STANDING } from '../../src/routing/index.ts';
import { createLog } from '../../src/telemetry/log.ts';

interface Line {
  readonly level: number;
  readonly crn: string;
  readonly model: string;
  readonly standing: string;
  readonly reason?: string;
  readonly msg: string;
}

class Fixture {
  readonly clock: ManualClock = createManualClock();
  readonly lines: Line[] = [];
  readonly log: CrnLog = new CrnLog(
    createLog('info', { write: (line: string) => void this.lines.push(JSON.parse(line) as Line) }),
    this.clock,
  );

  note(standing: Standing, reason: string | null = null, crn = 'http://x'): void {
    this.log.note({ type: 'standing', url: crn, model: 'm', standing, reason });
  }
}

t.test('a standing is logged with its reason: down as a warning, anything else as information', async (t) => {
  const fixture = new Fixture();
  fixture.note(STANDING.down, 'connection refused');
  fixture.note(STANDING.down, 'connection refused');
  fixture.note(STANDING.down, '404 at /health');
  fixture.note(STANDING.up);
  t.match(fixture.lines, [
    { level: 40, crn: 'http://x', model: 'm', standing: 'down', reason: 'connection refused' },
    { level: 40, standing: 'down', reason: '404 at /health' },
    { level: 30, standing: 'up' },
  ]);
  t.equal(fixture.lines.length, 3);
  t.notOk('reason' in (fixture.lines[2] ?? {}));
  fixture.log.close();
});

t.test('a CRN that refuses credentials is named in a warning with what to look at', async (t) => {
  const fixture = new Fixture();
  fixture.log.note({ type: 'refused credentials', url: 'http://x' });
  t.match(fixture.lines, [
    { level: 40, crn: 'http://x', advice: /apiKey/, msg: 'CRN refuses the credentials of requests' },
  ]);
  fixture.log.close();
});

t.test('a CRN that flaps is logged four times in ten seconds, then as it stands', async (t) => {
  const fixture = new Fixture();
  for (let round = 0; round < 50; round++) {
    fixture.note(STANDING.down, 'timeout after 2 s');
    fixture.note(STANDING.up);
  }
  fixture.note(STANDING.down, 'connection refused');
  t.equal(fixture.lines.length, 4);
  fixture.clock.advance(10_000);
  t.equal(fixture.lines.length, 5);
  t.match(fixture.lines[4], { standing: 'down', reason: 'connection refused' });
  fixture.clock.advance(10_000);
  t.equal(fixture.clock.nextDueMs, Infinity, 'no timer is left');
});

t.test('what changed back while it was held back is not logged', async (t) => {
  const fixture = new Fixture();
  for (let round = 0; round < 2; round++) {
    fixture.note(STANDING.down, 'timeout after 2 s');
    fixture.note(STANDING.up);
  }
  fixture.note(STANDING.down, 'timeout after 2 s');
  fixture.note(STANDING.up);
  fixture.clock.advance(60_000);
  t.equal(fixture.lines.length, 4);
});

t.test('of a thousand CRNs that go down at once a hundred are logged in ten seconds, and all in the end', async (t) => {
  const fixture = new Fixture();
  for (let at = 0; at < 1000; at++) fixture.note(STANDING.down, 'network unreachable', `http://${at}`);
  t.equal(fixture.lines.length, 100);
  fixture.log.keep(new Set(Array.from({ length: 950 }, (_, at) => `http://${at}`)));
  fixture.clock.advance(100_000);
  t.equal(new Set(fixture.lines.map(({ crn }) => crn)).size, 950);
  t.equal(fixture.lines.length, 950);
});

t.test('other events of CRNs are logged as they come', async (t) => {
  const fixture = new Fixture();
  const url = 'http://x';
  fixture.log.note({ type: 'ejected', url, forMs: 1000.4, failure: 'connect', reason: 'connection refused' });
  fixture.log.note({ type: 'left out', url, model: 'm', count: 2 });
  fixture.log.note({ type: 'drained', url });
  fixture.log.note({ type: 'returned', url });
  fixture.log.note({ type: 'restarted', url });
  fixture.log.note({ type: 'probed', url, ejected: false });
  t.match(fixture.lines, [
    { level: 40, crn: url, forMs: 1000, failure: 'connect', reason: 'connection refused', msg: 'CRN ejected' },
    { level: 50, crn: url, model: 'm', count: 2 },
    { level: 40, msg: 'CRN drained' },
    { level: 30, msg: 'CRN returned' },
    { level: 30 },
  ]);
  t.equal(fixture.lines.length, 5);
});
