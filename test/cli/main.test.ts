import { readFileSync } from 'node:fs';
import t from 'tap';
import { runCli } from '../support/cli.ts';

const { version } = JSON.parse(readFileSync(new URL('../../../package.json', import.meta.url), 'utf8')) as {
  version: string;
};

for (const args of [['--version'], ['-v'], ['serve', '--version']]) {
  t.test(`${args.join(' ')} prints the version of the package`, async (t) => {
    const cli = await runCli(t, args);
    t.equal(cli.stdout, `headrace ${version}\n`);
    t.strictSame(cli.exit, { code: 0, signal: null });
  });
}

const MISTAKES: readonly (readonly [string[], RegExp])[] = [
  [['toString'], /unknown command 'toString'/],
  [['serv'], /unknown command 'serv' \(Did you mean serve\?\)/],
  [['serve', 'now', '--config', 'x'], /too many arguments: now/],
  [['serve'], /required option '-c, --config <file>' not specified/],
  [['serve', 'a.yaml'], /required option '-c, --config <file>' not specified \(Did you mean --config a\.yaml\?\)/],
  [
    ['webhooks', 'redeliver', 'msg_2b1f'],
    /required option '--endpoint <name>' not specified\nRun "headrace webhooks redeliver --help" /,
  ],
  [
    ['--format=csv', 'keys', 'edit', 'create', '--rmp', '9'],
    /unknown option '--rmp' .*\nRun "headrace keys edit --help" /,
  ],
  [['keys', 'eddit'], /unknown command 'eddit' .*\nRun "headrace keys --help" /],
  [['serve', '--confg', 'x'], /unknown option '--confg' \(Did you mean --config\?\)/],
  [['check', '--conf=x', '--threads', '1'], /unknown option '--conf' \(Did you mean --config\?\)/],
  [['serve', '--threads', '1'], /required option '-c, --config <file>' not specified/],
  [['serve', '--config'], /option '-c, --config <file>' argument missing/],
  [['serve', '--config', 'x', '--threads'], /option '--threads' argument missing/],
  [['demo', '--port', 'http'], /option '--port <n>' argument 'http' is invalid\. It must be a port number/],
  [['demo', '--nothing', '1'], /--nothing: is unknown/],
  [['demo', '--prt', '1'], /unknown option '--prt' \(Did you mean --port\?\)/],
  [['help', 'srve'], /unknown command 'srve' \(Did you mean serve\?\)/],
  [['help', 'nothing'], /^headrace: unknown command 'nothing'\n/],
  [['host', '--model', 'm', '--ttft', 'soon'], /--ttft <ms>' argument 'soon' is invalid\. It must be a number of 0/],
  [['host', '--model', 'm', '--colour', 'red'], /unknown option '--colour'/],
  [['host', '--model', 'm', '--engine', 'real'], /--engine takes "simulated" or the URL of an engine, not real/],
];

for (const [args, sentence] of MISTAKES) {
  t.test(`headrace ${args.join(' ')}: one sentence and exit code 1`, async (t) => {
    const cli = await runCli(t, args);
    t.strictSame(cli.exit, { code: 1, signal: null });
    t.match(cli.stderr, sentence);
    t.match(cli.stderr, /^headrace: .*\nRun "headrace .*--help" for usage\.\n$/, 'no stack');
    t.equal(cli.stdout, '');
  });
}

/** Command lines with a secret that a usage error must not repeat. */
const SECRETS: readonly (readonly [string[], string])[] = [
  [['keys', 'create', '--tokn=S3cret'], "unknown option '--tokn'"],
  [['keys', 'create', '--tokn=-S3cret\nS3cret'], "unknown option '--tokn'"],
  [['keys', 'create', '--tokn', 'S3cret'], "unknown option '--tokn' (Did you mean --token?)"],
  [['keys', 'create', '-tS3cret'], "unknown option '-t'"],
  [['keys', 'create', '--quiet=S3cret'], "option '--quiet' takes only true or false"],
  [['serve', '-c', 'f', '-tS3cret'], 'too many arguments: -t'],
  [['--tokn=S3cret'], "unknown option '--tokn'"],
];

for (const [args, sentence] of SECRETS) {
  t.test(`${sentence}: the value is not repeated`, async (t) => {
    const cli = await runCli(t, args);
    t.strictSame(cli.exit, { code: 1, signal: null });
    t.equal(cli.stderr.split('\n')[0], `headrace: ${sentence}`);
    t.notMatch(cli.stdout + cli.stderr, /S3cret/);
  });
}
