// What the start file and the command line door do before a command begins.

import { readFileSync } from 'node:fs';
import t from 'tap';
import { helpFor } from '../../src/cli/help.ts';
import { runCli } from '../support/system-cli.ts';

const { version } = JSON.parse(readFileSync(new URL('../../../package.json', import.meta.url), 'utf8')) as {
  version: string;
};

/** Preloaded code that makes Node claim another version. */
function claiming(node: string): string[] {
  const code = `Object.defineProperty(process, 'versions', { value: { ...process.versions, node: '${node}' } });`;
  return ['--import', `data:text/javascript,${encodeURIComponent(code)}`];
}

t.test('an older Node is told so in one sentence', async (t) => {
  const cli = await runCli(t, ['demo'], { execArgv: claiming('20.20.0') });
  t.strictSame(cli.exit, { code: 1, signal: null });
  t.equal(cli.stderr, 'headrace needs Node.js 22 or newer; this is 20.20.0.\n');
  t.equal(cli.stdout, '');
});

t.test('a newer Node is fine', async (t) => {
  const cli = await runCli(t, ['--version'], { execArgv: claiming('26.0.0') });
  t.strictSame(cli.exit, { code: 0, signal: null });
});

for (const flag of ['--version', '-v']) {
  t.test(`${flag} prints the version of the package`, async (t) => {
    const cli = await runCli(t, [flag]);
    t.equal(cli.stdout, `headrace ${version}\n`);
    t.strictSame(cli.exit, { code: 0, signal: null });
  });
}

t.test('without a command it helps', async (t) => {
  const cli = await runCli(t, []);
  t.equal(cli.stdout, helpFor(undefined));
  t.equal(cli.exit.code, 0);
});

const MISTAKES: readonly (readonly [string[], RegExp])[] = [
  [['toString'], /there is no command "toString"/],
  [['serve', 'now', '--config', 'x'], /"now" is one word too many/],
  [['serve'], /--config FILE is missing/],
  [['demo', '--port', 'http'], /--port takes a port number/],
  [['demo', '--nothing', '1'], /nothing/],
  [['host', '--model', 'm', '--ttft', 'soon'], /--ttft takes a number of 0 or more, not soon/],
  [['host', '--model', 'm', '--colour', 'red'], /headrace host has no flag --colour/],
  [['host', '--model', 'm', '--engine', 'real'], /--engine takes "simulated" or the URL of an engine, not real/],
];

for (const [args, sentence] of MISTAKES) {
  t.test(`headrace ${args.join(' ')}: one sentence and exit code 1`, async (t) => {
    const cli = await runCli(t, args);
    t.strictSame(cli.exit, { code: 1, signal: null });
    t.match(cli.stderr, sentence);
    t.match(cli.stderr, /^headrace: .*\n {7}headrace --help tells more\n$/, 'no stack');
    t.equal(cli.stdout, '');
  });
}
