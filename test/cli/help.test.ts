import t, { type Test } from 'tap';
import { SETTINGS } from '../../src/config/settings.ts';
import { runCli } from '../support/cli.ts';

/** Options of every command on accounts. */
const ACCOUNT = 'store config admin token format';

/** The help texts of each command, and the options that they must name. */
const COMMANDS: Readonly<Record<string, string>> = {
  serve: 'config',
  check: 'config',
  init: 'config server listen key yes force',
  completion: 'help',
  demo: 'port admin-port',
  host:
    'model port listen name config slots context tokens profile speed seed ttft itl control fleet engine engine-key ' +
    'engine-wait gguf threads',
  'search-worker': 'engine port listen config timeout concurrency secret-file',
  fetch: 'format include json fetch.allow',
  top: 'admin once',
  tail: 'lines once json errors status model account crn code endpoint slower-than search admin token',
  bench:
    'model dialect stream key headers body ignore-eos timeout users rate arrivals speed ramp warm-up duration requests think ' +
    'max-in-flight grace workload input-tokens output-tokens turns prefixes prefix-tokens seed make slo fail-on truth json ' +
    'csv html progress',
  keys: ACCOUNT,
  'keys create': `account label expires running rpm tpm monthly quiet ${ACCOUNT}`,
  'keys edit': `label expires running rpm tpm monthly ${ACCOUNT}`,
  'keys list': `account ${ACCOUNT}`,
  'keys disable': ACCOUNT,
  'keys rotate': `grace expires quiet ${ACCOUNT}`,
  budgets: ACCOUNT,
  'budgets set': `account key model period limit alert ${ACCOUNT}`,
  'budgets list': `account ${ACCOUNT}`,
  'budgets remove': ACCOUNT,
  credits: ACCOUNT,
  'credits grant': `id memo expires ${ACCOUNT}`,
  'credits adjust': `id memo ${ACCOUNT}`,
  'credits refund': `charge request id memo ${ACCOUNT}`,
  'credits grants': ACCOUNT,
  accounts: ACCOUNT,
  'accounts list': `organisation limit cursor ${ACCOUNT}`,
  'accounts create': `label ${ACCOUNT}`,
  'accounts set': `credit-limit organisation low-balance ${ACCOUNT}`,
  requests: `account key model from to limit cursor ${ACCOUNT}`,
  admins: '',
  'admins token': 'role',
  'admins log': `actor action subject from to limit cursor ${ACCOUNT}`,
  webhooks: '',
  'webhooks secret': '',
  'webhooks list': `endpoint state limit cursor ${ACCOUNT}`,
  'webhooks redeliver': `endpoint ${ACCOUNT}`,
  'credits balance': ACCOUNT,
  'credits history': `before limit cursor ${ACCOUNT}`,
  usage: `by from to account key model ${ACCOUNT}`,
  audit: ACCOUNT,
  backup: 'store config',
  payments: ACCOUNT,
  'payments list': `state payer limit cursor ${ACCOUNT}`,
  'payments decide': `transaction not-settled force ${ACCOUNT}`,
  explain: 'path header session cookie account json admin token',
  picker: 'config grpc fallbacks tls-cert tls-key',
  mcp: 'config url key-file',
};

async function helpOf(t: Test, ...args: readonly string[]): Promise<string> {
  const cli = await runCli(t, args);
  t.strictSame(cli.exit, { code: 0, signal: null });
  t.equal(cli.stderr, '');
  for (const line of cli.stdout.split('\n')) t.ok(line.length <= 120, `not wider than 120: ${line}`);
  t.notMatch(cli.stdout, /^\w.{100,}\n\S+(?: \S+){0,2}(?<![.:])\n\w/m, 'no line was broken that was a little too long');
  return cli.stdout;
}

t.test('the general help names every command and where to start', async (t) => {
  const text = await helpOf(t, '--help');
  for (const command of Object.keys(COMMANDS).filter((name) => !name.includes(' '))) {
    t.match(text, new RegExp(`^  ${command} +\\w`, 'm'));
  }
  t.match(text, /Start with\n {2}headrace demo/);
  t.equal(await helpOf(t, 'nothing', '--help'), text);
});

t.test('without a command it prints help', async (t) => {
  t.equal(await helpOf(t), await helpOf(t, '--help'));
});

for (const [command, options] of Object.entries(COMMANDS)) {
  t.test(`the help of ${command} has every option it takes`, async (t) => {
    const text = await helpOf(t, ...command.split(' '), '--help');
    t.match(text, `Usage: headrace ${command} `);
    for (const option of options.split(' ')) t.match(text, new RegExp(`^ +(-\\w, )?--${option}\\b`, 'm'), option);
  });
}

t.test('the help of serve tells of every setting', async (t) => {
  const text = await helpOf(t, 'serve', '--help');
  for (const { flag } of SETTINGS) t.ok(text.includes(`${flag} `), flag);
  t.equal(await helpOf(t, 'help', 'serve'), text);
  t.equal(await helpOf(t, 'help', 'keys', 'create'), await helpOf(t, 'keys', 'create', '--help'));
});

t.test('help fits a narrow terminal', async (t) => {
  const { stdout } = await runCli(t, ['usage', '--help'], { terminal: { columns: 80, rows: 24 } });
  t.same(
    stdout.split('\n').filter((line) => line.length > 80 && !line.startsWith('  headrace usage ')),
    [],
    'but for the example, which is pasted',
  );
  t.match(stdout, 'rests on an estimate, as after a broken stream; an empty key', 'lines of a paragraph are joined');
  t.match(stdout, /^ {23}HEADRACE_STORE$/m, 'what is cut goes on below its column');
});
