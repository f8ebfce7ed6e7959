import t from 'tap';
import { helpFor } from '../../src/cli/help.ts';
import { SETTINGS } from '../../src/config/settings.ts';
import { runCli } from '../support/system-cli.ts';

const COMMANDS = [
  'serve',
  'check',
  'demo',
  'host',
  'search-worker',
  'fetch',
  'top',
  'keys',
  'credits',
  'usage',
  'audit',
  'bench',
];

/** Flags of every command on accounts. */
const ACCOUNT_FLAGS = ['store', 'config', 'admin', 'token', 'format'];

t.test('the general help names every command and where to start', (t) => {
  for (const command of COMMANDS) t.match(helpFor(undefined), new RegExp(`^  headrace ${command} `, 'm'));
  t.match(helpFor(undefined), /Start with\n {2}headrace demo/);
  t.equal(helpFor('nothing'), helpFor(undefined));
  t.end();
});

t.test('each command has a help of its own, with every flag it takes', (t) => {
  const flags: Readonly<Record<string, readonly string[]>> = {
    serve: ['config'],
    check: ['config'],
    demo: ['port', 'admin-port'],
    fetch: ['format', 'include', 'json', 'fetch.allow'],
    top: ['admin', 'once'],
    'search-worker': ['engine', 'port', 'listen', 'config', 'secret-file', 'timeout', 'concurrency'],
    keys: ['account', 'label', 'expires', 'rpm', 'tpm', 'monthly', 'quiet', 'grace', ...ACCOUNT_FLAGS],
    credits: ['id', 'memo', 'limit', 'before', ...ACCOUNT_FLAGS],
    usage: ['by', 'from', 'to', 'account', 'key', 'model', ...ACCOUNT_FLAGS],
    audit: ACCOUNT_FLAGS,
    host: 'model port listen engine name profile slots context speed seed ttft itl tokens config control fleet'.split(
      ' ',
    ),
  };
  for (const command of COMMANDS) {
    t.ok(helpFor(command).startsWith(`headrace ${command} `));
    for (const flag of flags[command] ?? []) t.ok(helpFor(command).includes(`--${flag}`), `${command} --${flag}`);
  }
  t.end();
});

t.test('the help of serve tells of every setting', (t) => {
  const text = helpFor('serve');
  for (const { flag } of SETTINGS) t.ok(text.includes(`${flag} `), flag);
  for (const line of text.split('\n')) t.ok(line.length <= 120, `not wider than 120: ${line}`);
  t.end();
});

for (const args of [
  ['serve', '--help'],
  ['help', 'serve'],
]) {
  t.test(`headrace ${args.join(' ')} prints it and exits 0`, async (t) => {
    const cli = await runCli(t, args);
    t.strictSame(cli.exit, { code: 0, signal: null });
    t.equal(cli.stdout, helpFor('serve'));
    t.equal(cli.stderr, '');
  });
}
