// `headrace explain`: against a running gateway, as text and JSON, from a file and standard input, and what it refuses.
import { writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import t, { type Test } from 'tap';
import type { RequestExplanation } from '../../src/api/explain.ts';
import { explanationText } from '../../src/cli/explain.ts';
import { createGateway } from '../../src/gateway/gateway.ts';
import { runCli, startCli } from '../support/cli.ts';
import { MODEL, settingsFor, startHosts } from '../support/system.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

const TOKEN = 'hra_test';
const BODY = { model: MODEL, messages: [{ role: 'user', content: 'Say why. '.repeat(1000) }] };

async function open(t: Test): Promise<{ admin: string; file: string }> {
  const hosts = await startHosts(t, [{}, {}]);
  const gateway = createGateway({
    ...settingsFor(hosts),
    listen: '127.0.0.1:0',
    admin: '127.0.0.1:0',
    adminToken: TOKEN,
    threads: 1,
    log: { level: 'silent' },
  });
  t.teardown(() => gateway.close());
  const { adminUrl } = await gateway.listen();
  await gateway.ready();
  const file = join(temporaryFolder(t), 'request.json');
  writeFileSync(file, JSON.stringify(BODY));
  return { admin: adminUrl as string, file };
}

t.test('an explanation of a file, as a table and as JSON', async (t) => {
  const { admin, file } = await open(t);
  const env = { HEADRACE_ADMIN_TOKEN: TOKEN };
  const cli = await runCli(t, ['explain', file, '--admin', admin], { env });
  t.same([cli.exit.code, cli.stderr], [0, '']);
  t.match(cli.stdout, /^model atlas-27b, chat-completions dialect, 8\.8 KiB of prompt\n/);
  t.match(cli.stdout, /CRN +STANDING +FORM +BLOCKS +HELD +HIT +RATE +BACKLOG/);
  t.equal(cli.stdout.split('\n').filter((line) => / up +own +0 +0 B +0 % /.test(line)).length, 2);
  t.match(cli.stdout, /^chosen: http:\S+: it costs least/m);
  t.notMatch(cli.stdout, /Say why/);
  const json = await runCli(
    t,
    ['explain', file, '--admin', admin, '--json', '--session', 'abc', '--path=/v1/messages'],
    { env },
  );
  t.match(JSON.parse(json.stdout), {
    model: MODEL,
    dialect: 'messages',
    session: true,
    reason: 'prior',
    crns: [{}, {}],
  });
});

t.test('an explanation of standard input, with headers', async (t) => {
  const { admin } = await open(t);
  const args = [
    'explain',
    '-',
    '--admin',
    admin,
    '--token',
    TOKEN,
    '--json',
    '--header',
    'X-Session-Id: a',
    '--header',
    'x-other: b',
  ];
  const cli = startCli(t, args);
  cli.stdin.end(JSON.stringify(BODY));
  await cli.exited;
  t.match(JSON.parse(cli.stdout), { session: true, cookie: null });
  const crn = (JSON.parse(cli.stdout) as RequestExplanation).crns[1]?.crn as string;
  const cookie = `preferred_instances=${encodeURIComponent(JSON.stringify({ [MODEL]: crn }))}`;
  const kept = startCli(t, ['explain', '-', '--admin', admin, '--token', TOKEN, '--cookie', cookie]);
  kept.stdin.end(JSON.stringify(BODY));
  await kept.exited;
  t.match(kept.stdout, `chosen: ${crn}: the affinity cookie names it`);
});

t.test('refusals are a sentence', async (t) => {
  const { admin, file } = await open(t);
  const env = { HEADRACE_ADMIN_TOKEN: TOKEN };
  const none = join(dirname(file), 'none.json');
  const other = join(dirname(file), 'other.json');
  writeFileSync(other, '{"model":"other","messages":[]}');
  const empty = join(dirname(file), 'empty.json');
  writeFileSync(empty, '{}');
  const search = join(dirname(file), 'search.json');
  writeFileSync(search, '{"query":"mill"}');
  for (const [args, more, complaint] of [
    [[file, '--admin', admin], {}, /--token or HEADRACE_ADMIN_TOKEN is missing/],
    [[file, '--admin', admin, '--token', 'wrong'], {}, /answers 401: the admin token is wrong/],
    [[file, '--admin', admin, '--token', 'hra_Gb…'], {}, /the admin token has spaces or characters that no token has/],
    [[empty, '--admin', admin], env, /answers 422: model Field required\n/],
    [[none, '--admin', admin], env, /cannot read .*none\.json/],
    [[other, '--admin', admin], env, /answers 404: .*other/],
    [[search, '--admin', admin, '--path', '/search'], env, /\/search goes to no CRN; --json prints what it did/],
    [[file, '--admin', admin, '--header', 'no colon'], env, /--header takes "name: value"/],
    [[file, '--admin', 'ftp://x'], env, /--admin takes the URL/],
    [[file, '--admin', 'http://127.0.0.1:1'], env, /http:\/\/127\.0\.0\.1:1/],
  ] as const) {
    const cli = await runCli(t, ['explain', ...args], { env: more });
    t.equal(cli.exit.code, 1);
    t.match(cli.stderr, complaint);
    t.equal(cli.stdout, '');
  }
});

t.test('the text says what is common, who is favoured, and that no CRN is left', async (t) => {
  const crn = {
    ...{
      crn: 'http://a',
      form: 'own',
      standing: 'up',
      eligible: true,
      matchedBlocks: 4,
      matchedBytes: 2048,
      hitFactor: 0.5,
      favourite: true,
    },
    ...{
      weight: 1,
      backlog: 1000,
      inFlight: 4096,
      siblings: 0,
      miss: 2048,
      bytesPerS: 2 ** 20,
      slowness: 1,
      failures: 2,
      slowStart: 1,
      cost: 14_288,
    },
  };
  const down = {
    ...crn,
    crn: 'http://b',
    form: 'messages-chat',
    standing: 'down',
    eligible: false,
    bytesPerS: null,
    favourite: false,
  };
  const explanation: RequestExplanation = {
    ...{ model: 'm', dialect: null, session: true, cookie: 'http://b', chosen: 'http://a', reason: 'moved' },
    untranslatable: null,
    ...{ promptBytes: 4096, commonBytes: 512, crns: [crn, down] },
  };
  const lines = explanationText(explanation).split('\n');
  t.match(lines[0], 'model m, no known dialect, 4.0 KiB of prompt');
  t.match(lines[1], /^512 B at its beginning are common/);
  t.equal(lines[2], 'the request names a session and the cookie of http://b');
  t.match(lines[5], /^> +http:\/\/a +up +own +4 +2\.0 KiB +25 % +1\.0 MiB\/s .*2[ ,.]?048\*/);
  t.match(lines[6], /^ +http:\/\/b +down +messages-chat +4 +2\.0 KiB +25 % +– .* –$/);
  t.match(explanationText({ ...explanation, chosen: null }), /no CRN can be tried/);
  t.notMatch(lines.join('\n'), 'WEIGHT', 'weights are shown where they differ from 1');
  const weighted = explanationText({ ...explanation, crns: [{ ...crn, weight: 2.5 }, down] });
  t.match(weighted, / WEIGHT +BACKLOG/);
  t.match(weighted, /^> +http:\/\/a .* 2\.5 +1/m);
  t.match(weighted, 'divided by WEIGHT');
  t.notMatch(lines.join('\n'), 'SIBLINGS', 'what siblings have there is shown where there is any');
  const shared = explanationText({ ...explanation, crns: [{ ...crn, siblings: 777 }, down] });
  t.match(shared, / IN FLIGHT +SIBLINGS +MISS/);
  t.match(shared, /^> +http:\/\/a .* 777 /m);
  t.match(shared, /^SIBLINGS: what other gateways have/m);
  t.match(
    explanationText({ ...explanation, untranslatable: 'field x' }).split('\n')[2],
    'it cannot be translated: field x',
  );
});
