import t from 'tap';
import { readRest } from '../../src/cli/setting-options.ts';
import { runCli } from '../support/cli.ts';

const CONFIG = 'models: { m: { servers: ["http://10.0.0.1:9001"] } }\n';

t.test('reads words and both forms of a setting', (t) => {
  t.same(readRest({ args: ['http://x', '--timeouts.connect=5s', '--threads', '2'], options: [] }, 1), {
    words: ['http://x'],
    settings: { 'timeouts.connect': '5s', threads: '2' },
  });
  t.end();
});

t.test('a value may begin with a dash or hold an equals sign', (t) => {
  t.same(readRest({ args: ['--a', '-1', '--b=c=d', '--e='], options: [] }, 0).settings, { a: '-1', b: 'c=d', e: '' });
  t.end();
});

t.test('the last of two equal settings wins', (t) => {
  t.same(readRest({ args: ['--a', '1', '--a', '2'], options: [] }, 0).settings, { a: '2' });
  t.end();
});

t.test('a setting without its value, and a word too many, are usage errors', (t) => {
  t.throws(() => readRest({ args: ['--threads'], options: [] }, 0), {
    name: 'UsageError',
    message: "option '--threads' argument missing",
  });
  t.throws(() => readRest({ args: ['--nonsense'], options: [] }, 0), { message: "unknown option '--nonsense'" });
  t.throws(() => readRest({ args: ['a', 'b'], options: [] }, 1), {
    name: 'UsageError',
    message: 'too many arguments: b',
  });
  t.end();
});

t.test('options and settings of a command stand in any order', async (t) => {
  const file = `${t.testdir({ 'headrace.yaml': CONFIG })}/headrace.yaml`;
  for (const args of [
    ['--threads', '3', '--config', file, '--health.interval=7s'],
    ['-c', file, '--health.interval', '7s', '--threads=3'],
    [`--config=${file}`, '--threads', '9', '--health.interval', '7s', '--threads', '3'],
  ]) {
    const cli = await runCli(t, ['check', ...args]);
    t.equal(cli.exit.code, 0, cli.stderr);
    t.match(cli.stdout, /threads\s+3, HTTP server auto/);
    t.match(cli.stdout, /every 7s/);
  }
});

t.test('the last of two equal options wins', async (t) => {
  const file = `${t.testdir({ 'headrace.yaml': CONFIG })}/headrace.yaml`;
  t.equal((await runCli(t, ['check', '--config', '/none.yaml', '-c', file])).exit.code, 0);
});

t.test('options may stand before the command', async (t) => {
  const file = `${t.testdir({ 'headrace.yaml': CONFIG })}/headrace.yaml`;
  for (const args of [
    ['--config', file, 'check', '--threads', '3'],
    ['-c', file, '--threads', '3', 'check'],
    [`--config=${file}`, 'check', '--threads=3'],
  ]) {
    const cli = await runCli(t, args);
    t.equal(cli.exit.code, 0, cli.stderr);
    t.match(cli.stdout, /threads\s+3, /);
  }
});

t.test('a value that looks like an option with one dash is a value', async (t) => {
  const file = `${t.testdir({ 'headrace.yaml': CONFIG })}/headrace.yaml`;
  for (const value of ['-v', '-cAbc', '-h']) {
    const cli = await runCli(t, ['check', '--config', file, '--adminToken', value]);
    t.equal(cli.exit.code, 0, cli.stderr);
    t.match(cli.stdout, /^.*headrace\.yaml/);
  }
});

t.test('words after -- are left as they are', async (t) => {
  const cli = await runCli(t, ['credits', 'balance', '--', '--memo', '-v']);
  t.match(cli.stderr, /too many arguments/);
});
