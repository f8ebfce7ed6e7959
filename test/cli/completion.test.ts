// Completion scripts, in the shells themselves: bash always, zsh and fish where they are installed.

import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import t from 'tap';
import { runCli } from '../support/cli.ts';

type Ask = (line: string) => string[];

const isInstalled = (shell: string): boolean => spawnSync(shell, ['-c', ':']).status === 0;

/** Lines that a shell prints. It must not complain. */
function lines(shell: string, ...args: readonly string[]): string[] {
  const env = { PATH: process.env['PATH'], HOME: '/nonexistent' };
  const { stderr, stdout } = spawnSync(shell, args, { encoding: 'utf8', env });
  if (stderr !== '') throw new Error(stderr);
  return stdout.split('\n').filter((line) => line !== '');
}

/** How each shell is asked for what may stand in place of the last word of a command line. */
const ASK: Readonly<Record<string, (folder: string) => Ask>> = {
  bash: (folder) => (line) => {
    const words = line.split(' ').map((word) => `'${word}'`);
    const ask = `source ${folder}/script; COMP_WORDS=(${words.join(' ')}); COMP_CWORD=${words.length - 1}; _headrace
      printf '%s\\n' "\${COMPREPLY[@]}"`;
    return lines('bash', '-c', ask);
  },
  // Outside of the line editor, its functions are stand-ins that print what they are given.
  zsh: (folder) => (line) => {
    const words = line.split(' ').map((word) => `'${word}'`);
    const ask = `compdef() { : }; _files() { ls -1 }; compadd() { shift; print -l -- "$@" }
      _describe() { print -l -- "\${(@)\${(P)2}%%:*}" }
      source ${folder}/script; words=(${words.join(' ')}); CURRENT=${words.length}; _headrace`;
    const last = line.slice(line.lastIndexOf(' ') + 1);
    return lines('zsh', '-fc', ask).filter((offer) => offer.startsWith(last));
  },
  fish: (folder) => (line) => {
    const ask = `source ${folder}/script; complete -C '${line}'`;
    return lines('fish', '--no-config', '-c', ask).map((offer) => offer.split('\t', 1)[0] ?? '');
  },
};

for (const [shell, asking] of Object.entries(ASK).filter(([name]) => name === 'bash' || isInstalled(name))) {
  t.test(`${shell} completes commands, options, values and files`, async (t) => {
    const { exit, stdout } = await runCli(t, ['completion', shell]);
    t.strictSame(exit, { code: 0, signal: null });
    const folder = t.testdir({ script: stdout, files: { 'headrace.yaml': '' } });
    const ask = asking(folder);
    t.strictSame(ask('headrace se').sort(), ['search-worker', 'serve']);
    t.strictSame(ask('headrace keys ro'), ['rotate']);
    t.ok(ask('headrace keys ').includes('create'));
    t.strictSame(ask('headrace keys create --mon'), ['--monthly']);
    t.strictSame(ask('headrace completion fi'), ['fish']);
    t.strictSame(ask('headrace webhooks list --state pe'), ['pending']);
    t.strictSame(ask('headrace serve --timeouts.conn'), ['--timeouts.connect']);
    t.strictSame(ask('headrace check --server u'), ['uws']);
    for (const command of ['picker', 'mcp']) t.strictSame(ask(`headrace ${command} --log.lev`), ['--log.level']);
    const here = process.cwd();
    process.chdir(join(folder, 'files'));
    t.teardown(() => process.chdir(here));
    t.strictSame(ask('headrace serve --config head'), ['headrace.yaml']);
    t.strictSame(ask('headrace keys create --label '), [], 'nothing for free text');
  });
}

t.test('another shell is refused', async (t) => {
  const { exit, stderr } = await runCli(t, ['completion', 'tcsh']);
  t.equal(exit.code, 1);
  t.match(stderr, /'tcsh' is invalid.*Allowed choices are bash, zsh, fish/);
});
