// Log lines reach a file whole and in order, and a disk that is full loses them without an error.
import { execFileSync } from 'node:child_process';
import { closeSync, constants, openSync, readFileSync, readSync } from 'node:fs';
import t, { type Test } from 'tap';
import { LateLines, writeNow } from '../../src/telemetry/standard-error.ts';
import { until } from '../support/system.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

const LINES = Array.from({ length: 500 }, (_, index) => `{"line":${index},"text":"${'ä'.repeat(index)}"}\n`);

t.test('lines are written in order', async (t) => {
  const file = `${temporaryFolder(t)}/log`;
  const fd = openSync(file, 'a');
  t.teardown(() => closeSync(fd));
  for (const line of LINES) writeNow(line, fd);
  t.equal(readFileSync(file, 'utf8'), LINES.join(''));
  const late = new LateLines(fd);
  for (const line of LINES) late.write(line);
  await until('all are written', () => readFileSync(file, 'utf8') === LINES.join('').repeat(2));
  late.write('again\n');
  await until('a later one is written', () => readFileSync(file, 'utf8').endsWith('\nagain\n'));
});

t.test('what waits is written by a flush', async (t) => {
  const file = `${temporaryFolder(t)}/log`;
  const fd = openSync(file, 'a');
  const late = new LateLines(fd);
  for (const line of LINES) late.write(line);
  late.flush();
  await until('the write under way is over', () => readFileSync(file, 'utf8').length === LINES.join('').length);
  t.strictSame(readFileSync(file, 'utf8').split('\n').sort(), LINES.join('').split('\n').sort());
  closeSync(fd);
});

t.test('lines for a full disk are lost', async (t) => {
  const fd = openSync('/dev/full', 'a');
  t.teardown(() => closeSync(fd));
  for (const line of LINES) writeNow(line, fd);
  const late = new LateLines(fd);
  for (const line of LINES) late.write(line);
  late.flush();
  late.write('again\n');
  late.flush();
  await new Promise((resolve) => setImmediate(resolve));
});

/** A pipe that does not block. */
function openPipe(t: Test): number {
  const pipe = `${temporaryFolder(t)}/pipe`;
  execFileSync('mkfifo', [pipe]);
  const fd = openSync(pipe, constants.O_RDWR | constants.O_NONBLOCK);
  t.teardown(() => closeSync(fd));
  return fd;
}

t.test('a full pipe holds up its first line, and no other until it takes lines again', (t) => {
  const fd = openPipe(t);
  const line = `${'x'.repeat(4000)}\n`;
  while (writeNow(line, fd));
  const beganMs = performance.now();
  for (let at = 0; at < 20; at++) t.notOk(writeNow(line, fd));
  const elapsedMs = performance.now() - beganMs;
  t.ok(elapsedMs < 1000, `${elapsedMs} ms`);
  readSync(fd, Buffer.alloc(65_536));
  t.ok(writeNow('again\n', fd));
  const rest = Buffer.alloc(65_536);
  t.match(rest.toString('latin1', 0, readSync(fd, rest)), /again\n$/);
  t.end();
});

t.test('a flush waits once for a full pipe that nobody reads, not once for each write', (t) => {
  const late = new LateLines(openPipe(t));
  for (let at = 0; at < 40; at++) late.write(`${'x'.repeat(4000)}\n`);
  const beganMs = performance.now();
  late.flush();
  const elapsedMs = performance.now() - beganMs;
  t.ok(elapsedMs < 5000, `${elapsedMs} ms`);
  t.end();
});
