import { EventEmitter, once } from 'node:events';
import { mkdirSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { watchConfig } from '../../src/config/watch.ts';

/** A deadline for a file event; generous, since it is only reached on failure. */
const DEADLINE_MS = 10_000;
/** An interval that is never reached, so that events alone are tested. */
const NEVER_MS = 3_600_000;

interface Watched {
  /** Settles with the next change that has not been taken yet. */
  nextChange(): Promise<string>;
  nextError(): Promise<Error>;
  readonly changes: string[];
  readonly errors: Error[];
  close(): void;
}

function watched(t: Test, path: string, pollMs: number, debounceMs = 20): Watched {
  const events = new EventEmitter();
  const taken = { change: 0, error: 0 };
  const changes: string[] = [];
  const errors: Error[] = [];
  const watch = watchConfig(path, {
    debounceMs,
    pollMs,
    onChange: (text) => events.emit('change', changes.push(text)),
    onError: (error) => events.emit('problem', errors.push(error)),
  });
  t.teardown(() => watch.close());
  const alive = setInterval(() => {}, 1000);
  t.teardown(() => clearInterval(alive));
  async function next<T>(kind: keyof typeof taken, event: string, list: readonly T[]): Promise<T> {
    const index = taken[kind]++;
    const signal = AbortSignal.timeout(DEADLINE_MS);
    while (list.length <= index) await once(events, event, { signal });
    return list[index] as T;
  }
  return {
    nextChange: () => next('change', 'change', changes),
    nextError: () => next('error', 'problem', errors),
    changes,
    errors,
    close: () => watch.close(),
  };
}

t.test('a file written in place is noticed', async (t) => {
  const path = join(t.testdir({ 'h.yaml': 'one' }), 'h.yaml');
  const file = watched(t, path, NEVER_MS);
  writeFileSync(path, 'two');
  t.equal(await file.nextChange(), 'two');
  writeFileSync(path, 'three');
  t.equal(await file.nextChange(), 'three');
});

t.test('a file replaced atomically is noticed, again and again', async (t) => {
  const directory = t.testdir({ 'h.yaml': 'one' });
  const path = join(directory, 'h.yaml');
  const file = watched(t, path, NEVER_MS);
  for (const text of ['two', 'three']) {
    writeFileSync(join(directory, 'h.yaml.tmp'), text);
    renameSync(join(directory, 'h.yaml.tmp'), path);
    t.equal(await file.nextChange(), text);
  }
});

t.test('an editor that moves the file away and creates it anew is one change', async (t) => {
  const directory = t.testdir({ 'h.yaml': 'one' });
  const path = join(directory, 'h.yaml');
  const file = watched(t, path, NEVER_MS);
  renameSync(path, join(directory, 'h.yaml~'));
  writeFileSync(path, 'two');
  t.equal(await file.nextChange(), 'two');
  t.same(file.changes, ['two']);
  t.same(file.errors, []);
});

t.test('the symlink swap of a mounted config map is noticed', async (t) => {
  const directory = t.testdir({});
  for (const version of ['1', '2']) {
    mkdirSync(join(directory, `..v${version}`));
    writeFileSync(join(directory, `..v${version}`, 'h.yaml'), `version ${version}`);
  }
  symlinkSync('..v1', join(directory, '..data'));
  symlinkSync('..data/h.yaml', join(directory, 'h.yaml'));
  const file = watched(t, join(directory, 'h.yaml'), NEVER_MS);
  symlinkSync('..v2', join(directory, '..data_tmp'));
  renameSync(join(directory, '..data_tmp'), join(directory, '..data'));
  t.equal(await file.nextChange(), 'version 2');
});

t.test('a change without an event is found by comparing', async (t) => {
  const directory = t.testdir({ there: { 'h.yaml': 'one' }, here: {} });
  symlinkSync('../there/h.yaml', join(directory, 'here', 'h.yaml'));
  const file = watched(t, join(directory, 'here', 'h.yaml'), 20);
  writeFileSync(join(directory, 'there', 'h.yaml'), 'two');
  t.equal(await file.nextChange(), 'two');
});

t.test('a directory that is replaced with the file is found by comparing', async (t) => {
  const directory = t.testdir({ conf: { 'h.yaml': 'one' }, next: { 'h.yaml': 'two' } });
  const file = watched(t, join(directory, 'conf', 'h.yaml'), 20);
  renameSync(join(directory, 'conf'), join(directory, 'old'));
  renameSync(join(directory, 'next'), join(directory, 'conf'));
  t.equal(await file.nextChange(), 'two');
});

t.test('writes in quick succession are one change', async (t) => {
  const path = join(t.testdir({ 'h.yaml': 'one' }), 'h.yaml');
  const file = watched(t, path, NEVER_MS);
  writeFileSync(path, 'two');
  writeFileSync(path, 'three');
  t.equal(await file.nextChange(), 'three');
  t.same(file.changes, ['three']);
});

t.test('a file that comes back with the same text is reported, once: its problem is over', async (t) => {
  const path = join(t.testdir({ 'h.yaml': 'one' }), 'h.yaml');
  const file = watched(t, path, 20);
  rmSync(path);
  await file.nextError();
  writeFileSync(path, 'one');
  t.equal(await file.nextChange(), 'one');
  rmSync(path);
  await file.nextError();
  t.same(file.changes, ['one']);
});

t.test('writes to another file of the directory do not delay the change', async (t) => {
  const directory = t.testdir({ 'h.yaml': 'one', 'h.db': '' });
  const path = join(directory, 'h.yaml');
  const file = watched(t, path, NEVER_MS, 200);
  let writes = 0;
  const busy = setInterval(() => writeFileSync(join(directory, 'h.db'), String(writes++)), 2);
  try {
    writeFileSync(path, 'two');
    t.equal(await file.nextChange(), 'two');
  } finally {
    clearInterval(busy);
  }
});

t.test('a missing file is reported once, and its return with other text is a change', async (t) => {
  const path = join(t.testdir({ 'h.yaml': 'one' }), 'h.yaml');
  const file = watched(t, path, 20);
  rmSync(path);
  t.match(await file.nextError(), { code: 'ENOENT' });
  symlinkSync('nowhere', path);
  await watched(t, path, NEVER_MS).nextError();
  rmSync(path);
  writeFileSync(path, 'two');
  t.equal(await file.nextChange(), 'two');
  t.equal(file.errors.length, 1);
  rmSync(path);
  t.match(await file.nextError(), { code: 'ENOENT' }, 'the next disappearance is reported again');
});

t.test('a file that never existed is reported, also in a missing directory', async (t) => {
  const file = watched(t, join(t.testdir({}), 'none', 'h.yaml'), NEVER_MS);
  t.match(await file.nextError(), { code: 'ENOENT' });
});

t.test('nothing is reported after close', async (t) => {
  const directory = t.testdir({ 'h.yaml': 'one' });
  const path = join(directory, 'h.yaml');
  const closed = watched(t, path, 20);
  const open = watched(t, path, 20);
  writeFileSync(path, 'two');
  closed.close();
  for (const text of ['three', 'four', 'five', 'six']) {
    t.ok(await open.nextChange());
    writeFileSync(path, text);
  }
  t.same(closed.changes, []);
});
