// What the commands on accounts share: where the accounts are, and wrong command lines.

import { existsSync, readdirSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import t from 'tap';
import { postgresDatabase } from '../support/postgres.ts';
import { runCli } from '../support/cli.ts';
import { run, storeFor } from './accounts.ts';

t.test('wrong command lines are refused before a store is opened', async (t) => {
  const store = ['--store', 'sqlite::memory:'];
  for (const [args, message] of [
    [[], /^Usage: headrace keys [^]* create [^]* list [^]* disable [^]* rotate /],
    [['toString'], /unknown command 'toString'/],
    [['list', 'acme'], /too many arguments.* acme/],
    [['disable'], /missing required argument 'id'/],
    [
      ['list', '--format', 'xml'],
      /--format <format>' argument 'xml' is invalid\. Allowed choices are table, csv, json/,
    ],
    [['list', '--store', 'mysql://x'], /--store: must be sqlite:FILE/],
    [['list', '--config', '/nowhere.yaml'], /nowhere\.yaml cannot be read \(ENOENT\)/],
    [['list', '--token', 'x', ...store], /--token needs --admin URL/],
    [['list', '--admin', 'http://127.0.0.1:1'], /--admin needs --token or HEADRACE_ADMIN_TOKEN/],
    [['list', '--admin', 'http://h', '--token', 'x', ...store], /--admin cannot be combined with --store or --config/],
    [['list', '--admin', 'nowhere', '--token', 'x'], /--admin takes the URL/],
  ] as const) {
    const { exit, stdout, stderr } = await runCli(t, ['keys', ...args]);
    t.strictSame([exit.code, stdout], [1, ''], args.join(' '));
    t.match(stderr, message);
  }
});

t.test('the store comes from the flag, the environment, the file or the default', async (t) => {
  const { url, folder } = storeFor(t, {
    'headrace.yaml': 'store: ${HERE}\nmodels: { m: { apiKey: "${NOT_SET}", servers: wrong } }\n',
    'none.yaml': 'store: null\n',
    'broken.yaml': 'store: [\n',
    'plain.yaml': '5\n',
  });
  await run(t, 'keys', 'create', '--account', 'acme', '--store', url);
  const file = ['--config', `${folder}/headrace.yaml`];
  for (const [args, env] of [
    [file, { HERE: url, HEADRACE_STORE: '' }],
    [[], { HEADRACE_STORE: url }],
    [file, { HERE: 'sqlite::memory:', HEADRACE_STORE: url }],
    [['--store', url, ...file], { HERE: 'sqlite::memory:', HEADRACE_STORE: 'sqlite::memory:' }],
  ] as const) {
    const { stdout } = await runCli(t, ['keys', 'list', ...args], { env });
    t.match(stdout, /\nkey_/, args.join(' '));
  }
  for (const [name, sentence] of [
    ['headrace.yaml', /store: .*HERE/],
    ['none.yaml', /keeps no accounts: its store is null/],
    ['plain.yaml', /plain\.yaml must be a mapping/],
    ['broken.yaml', /broken\.yaml:\d+:\d+/],
  ] as const) {
    const env = { HEADRACE_STORE: '' };
    const { exit, stderr } = await runCli(t, ['keys', 'list', '--config', `${folder}/${name}`], { env });
    t.equal(exit.code, 1);
    t.match(stderr, sentence);
  }
  t.ok(readdirSync(folder).includes('accounts.db'));
});

t.test('a store is made on demand only, beside the configuration that names it', async (t) => {
  const folder = t.testdir({ etc: { 'headrace.yaml': 'store: sqlite:./own.db', 'default.yaml': '' } });
  const env = { HEADRACE_STORE: '' };
  const create = ['keys', 'create', '--account', 'acme'];
  const config = ['--config', `${folder}/etc/headrace.yaml`];
  const file = `${folder}/etc/own.db`;
  const refused = await runCli(t, [...create, ...config], { env });
  t.strictSame([refused.exit.code, refused.stdout], [1, '']);
  t.match(refused.stderr, `headrace: there is no store at ${file}: name it with --config or --store`);
  t.notOk(existsSync(file));
  const made = await runCli(t, [...create, '--create', '--quiet', ...config], { env });
  t.equal(made.stderr, `store: sqlite:${file}\n`);
  t.match(made.stdout, /^hr_\S+\n$/);
  t.ok(existsSync(file));
  const again = await runCli(t, [...create, '--format', 'json', ...config], { env });
  t.equal((JSON.parse(again.stdout) as { store: string }).store, `sqlite:${file}`);
  const byDefault = await runCli(t, ['keys', 'list', '--config', `${folder}/etc/default.yaml`], { env });
  t.match(byDefault.stderr, `there is no store at ${folder}/etc/headrace.db`);
  const relative = await runCli(t, ['keys', 'list', ...config], { env: { HEADRACE_STORE: 'sqlite:./nowhere.db' } });
  t.match(relative.stderr, `there is no store at ${resolve('nowhere.db')}`, 'a variable is of the working folder');
});

t.test('no second store is made where the first one lies in the working folder', async (t) => {
  // Any file that the working folder of the tests has.
  const folder = t.testdir({ 'headrace.yaml': 'store: sqlite:./package.json' });
  const config = ['--config', `${folder}/headrace.yaml`];
  const { exit, stderr } = await runCli(t, ['keys', 'create', '--account', 'acme', '--create', ...config], {
    env: { HEADRACE_STORE: '' },
  });
  t.equal(exit.code, 1);
  t.match(stderr, `there is no store at ${folder}/package.json; if ${resolve('package.json')} is meant`);
  t.notOk(existsSync(`${folder}/package.json`));
});

t.test('a database of another program is no store, and stays as it is', async (t) => {
  const file = join(t.testdir({}), 'other.db');
  const other = new DatabaseSync(file);
  other.exec('create table theirs (id text)');
  other.close();
  const { exit, stderr } = await runCli(t, ['keys', 'list', '--store', `sqlite:${file}`]);
  t.equal(exit.code, 1);
  t.match(stderr, `there is no store at ${file}`);
  const same = new DatabaseSync(file);
  t.teardown(() => same.close());
  t.same(same.prepare('select name from sqlite_schema').all(), [{ name: 'theirs' }]);
});

t.test('keys in PostgreSQL', async (t) => {
  const where = ['--store', await postgresDatabase()];
  const refused = await runCli(t, ['keys', 'list', ...where]);
  t.match(refused.stderr, 'there is no store at postgres://', 'a database without a ledger stays as it is');
  const { stdout } = await run(t, 'keys', 'create', '--create', '--account', 'acme', '--quiet', ...where);
  t.match((await run(t, 'keys', 'list', ...where)).stdout, new RegExp(`\\nkey_\\w+ +${stdout.slice(0, 9)} `));
  await run(t, 'credits', 'grant', 'acme', '12.345678901234', ...where);
  t.match((await run(t, 'credits', 'balance', 'acme', ...where)).stdout, / 12\.345678901234 +12345678\.901234 /);
  t.match((await run(t, 'audit', ...where)).stdout, /^sound: .* 1 movement, 1 account,/);
});
