import { readdirSync, readFileSync } from 'node:fs';
import t, { type Test } from 'tap';
import { hashKey } from '../../src/billing/index.ts';
import { runCli } from '../support/cli.ts';
import { run, startAdminService, storeFor } from './accounts.ts';

/** A key and its row, from `keys create` with these flags. */
async function create(t: Test, where: readonly string[], ...flags: string[]): Promise<Record<string, string>> {
  const { stdout } = await run(t, 'keys', 'create', '--account', 'acme', '--format', 'json', ...flags, ...where);
  return JSON.parse(stdout) as Record<string, string>;
}

t.test('create shows the key once, on a line of its own; --quiet shows nothing else', async (t) => {
  const { where, folder } = storeFor(t);
  const first = await run(t, 'keys', 'create', '--account', 'acme', '--expires', '30d', '--rpm', '60', ...where);
  t.match(first.stdout, /^hr_[\w-]{43}\nkey_\w+ of account acme, until \d{4}-\S+Z, 60 requests a minute\nThe key is /);
  const { stdout } = await run(t, 'keys', 'create', '--account', 'acme', '--quiet', ...where);
  t.match(stdout, /^hr_[\w-]{43}\n$/);
  const listed = await run(t, 'keys', 'list', ...where);
  t.match(
    listed.stdout,
    /^id +prefix +account +label +state +running +rpm +tpm +monthly_usd +expires_at\n(?:key_.*\n){2}$/,
  );
  const files = readdirSync(folder).map((file) => readFileSync(`${folder}/${file}`, 'latin1'));
  for (const key of [first.stdout.slice(0, 46), stdout.trim()]) {
    t.notMatch(listed.stdout, key.slice(9));
    t.ok(listed.stdout.includes(key.slice(0, 9)));
    t.notOk(
      files.some((content) => content.includes(key.slice(9))),
      'the store never has the key',
    );
    t.ok(
      files.some((content) => content.includes(hashKey(key))),
      'but its hash',
    );
  }
});

t.test('list as CSV and JSON, of one account or all', async (t) => {
  const { where } = storeFor(t);
  const { key, store, ...row } = await create(t, where, '--label', 'a "b", c', '--monthly', '25');
  t.equal(store, where[1], 'the answer names the store');
  await run(t, 'keys', 'create', '--account', 'other', ...where);
  const json = await run(t, 'keys', 'list', '--account', 'acme', '--format', 'json', ...where);
  t.strictSame(JSON.parse(json.stdout), [row]);
  const csv = await run(t, 'keys', 'list', '--account', 'acme', '--format', 'csv', ...where);
  const [head, line] = csv.stdout.split('\r\n');
  t.equal(head, 'id,prefix,account,label,state,running,rpm,tpm,monthly_usd,created_at,expires_at,disabled_at,lineage');
  t.equal(line, `${row['id']},${row['prefix']},acme,"a ""b"", c",active,,,,25.00,${row['created_at']},,,${row['id']}`);
  t.equal((await run(t, 'keys', 'list', '--format', 'csv', ...where)).stdout.split('\r\n').length, 4);
  t.not(key, undefined);
});

t.test('rotate hands out a successor; disable stops a key', async (t) => {
  const { where } = storeFor(t);
  const old = await create(t, where, '--tpm', '9');
  const id = old['id'] ?? '';
  const rotated = await run(t, 'keys', 'rotate', id, '--grace', '1h', ...where);
  t.match(
    rotated.stdout,
    new RegExp(`^hr_\\S+\\nkey_.* 9 tokens a minute\\n${id} goes on until \\d{4}-\\S+Z\\nThe key`),
  );
  t.not(rotated.stdout.slice(0, 46), old['key']);
  t.match((await run(t, 'keys', 'disable', id, ...where)).stdout, `${id} (${old['prefix']}…) is disabled\n`);
  const { stderr, exit } = await runCli(t, ['keys', 'rotate', id, ...where]);
  t.equal(exit.code, 1);
  t.equal(stderr, `headrace: The key '${id}' is disabled: make a new one\n`);
});

t.test('edit changes limits in place', async (t) => {
  const { where } = storeFor(t);
  const { id = '' } = await create(t, where, '--rpm', '9', '--monthly', '1');
  const flags = ['--rpm', 'none', '--tpm', '5000', '--running=3', '--monthly', '2.50', '--format', 'json'];
  const edited = await run(t, 'keys', 'edit', id, ...flags, ...where);
  t.match(JSON.parse(edited.stdout), { id, rpm: null, tpm: 5000, running: 3, monthly_usd: '2.50' });
  const refused = await runCli(t, ['keys', 'edit', id, ...where]);
  t.equal(refused.stderr, 'headrace: label is required, or one of expires, running, rpm, tpm, monthly\n');
});

t.test('refusals: a sentence on standard error, exit code 1, nothing on standard output', async (t) => {
  const { where } = storeFor(t);
  for (const [args, sentence] of [
    [['create', ...where], /^headrace: account is required/],
    [['create', '--account', 'a', '--expires', '30', '--rpm', '0', ...where], /expires must be .*; rpm must be/],
    [['disable', 'key_x', ...where], /^headrace: No key 'key_x'\n$/],
    [
      ['list', '--create', '--store', 'sqlite:/nowhere/at/all.db'],
      /^headrace: the store failed: sqlite:\/nowhere\/at\/all\.db: .+\n$/,
    ],
    [
      ['list', '--store', 'postgres://me:secret-x@127.0.0.1:1/hr'],
      /^headrace: the store failed: postgres:\/\/127\.0\.0\.1:1\/hr: .+\n$/,
    ],
    [['list', '--admin', 'http://127.0.0.1:1', '--token', 'secret-x'], /127\.0\.0\.1:1 does not answer/],
    [['list', '--rpm', '3', ...where], /^headrace: unknown option '--rpm'\n/],
  ] as const) {
    const { exit, stdout, stderr } = await runCli(t, ['keys', ...args]);
    t.equal(exit.code, 1, args.join(' '));
    t.match(stderr, sentence);
    t.equal(stdout, '');
    t.notMatch(stderr, /secret-x|\n +at /);
  }
});

t.test('the same over a running gateway', async (t) => {
  const { where, env, ledger, log } = await startAdminService(t);
  const { stdout } = await runCli(t, ['keys', 'create', '--account', 'acme', '--quiet', ...where], { env });
  t.match(stdout, /^hr_[\w-]{43}\n$/);
  const stored = await ledger.findKey(hashKey(stdout.trim()));
  t.match(stored, { account: 'acme' });
  const id = stored?.id ?? '';
  const rotated = await runCli(t, ['keys', 'rotate', id, '--grace', '0s', '--quiet', ...where], { env });
  t.match(await ledger.findKey(hashKey(rotated.stdout.trim())), { account: 'acme' });
  t.match((await runCli(t, ['keys', 'disable', id, ...where], { env })).stdout, /is disabled/);
  const listed = await runCli(t, ['keys', 'list', '--account', 'acme', ...where], { env });
  t.match(listed.stdout, /disabled/);
  for (const secret of [stdout, rotated.stdout]) {
    t.notMatch(listed.stdout + log.join(), secret.trim().slice(9));
  }
  const wrong = await runCli(t, ['keys', 'create', '--account', 'a b', ...where], { env });
  t.equal(wrong.stderr, 'headrace: account must be 1 to 128 characters without blanks, other than . and ..\n');
  const unknown = await runCli(t, ['keys', 'disable', 'a/b', ...where], { env });
  t.match(unknown.stderr, /^headrace: http:\S+ answers 404: No key 'a\/b'\n$/);
  const refused = await runCli(t, ['keys', 'list', ...where, '--token', 'wrong'], { env });
  t.match(refused, { exit: { code: 1 }, stderr: /answers 401: the admin token is wrong/ });
});

t.test('--quiet=true is --quiet, --quiet=false is the default', async (t) => {
  const { where } = storeFor(t);
  t.match((await run(t, 'keys', 'create', '--account', 'acme', '--quiet=true', ...where)).stdout, /^hr_[\w-]{43}\n$/);
  t.match((await run(t, 'keys', 'create', '--account', 'acme', '--quiet=false', ...where)).stdout, /^hr_[\w-]{43}\n./);
});
