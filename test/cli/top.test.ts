// `headrace top`: the overview of a gateway as text and on a terminal.

import t from 'tap';
import { screenLines } from '../../src/cli/top.ts';
import type { CrnOverview, Overview } from '../../src/admin/overview.ts';
import { ratesBetween } from '../../src/admin/rates.ts';
import { chat, MODEL, startHosts } from '../support/system.ts';
import { runCli, startCli, startServe } from '../support/cli.ts';
import { site } from '../support/site.ts';
import { NO_FIGURES } from '../support/metric-values.ts';

const OVERVIEW: Overview = {
  dateMs: 10_000,
  uptimeMs: 300_000,
  version: '1.2.3',
  stage: 'ready',
  discovery: [],
  orders: true,
  reloadable: true,
  publicUrl: 'http://127.0.0.1:8080',
  recent: { ...NO_FIGURES, requestsPerS: 2, latencyMs: { p50: 150, p95: 180, p99: 199 } },
  streams: 2,
  threads: [{ thread: 1, inFlight: 3, delayMs: [0, 1.5, 20], busyMs: 0, heapBytes: 50 * 2 ** 20 }],
  crns: [
    {
      url: 'http://x',
      inFlight: 3,
      attempts: 4,
      failures: 1,
      failovers: 1,
      ejectedUntilMs: 70_000,
      kvEvents: null,
      lastProbe: null,
      lastFailure: null,
      predictedHit: 0.934,
      reportedHit: null,
      backlogBytes: 20_480,
      lacks: [],
      models: [
        { model: 'a', standing: 'down', firstByteMs: 42, capacityBytes: 2 ** 24, bytesPerS: null, dialects: null },
      ],
    },
  ],
  models: [
    {
      model: 'a\u001b[2J',
      requests: 4,
      errors: 1,
      failovers: 1,
      waiting: 37,
      tokens: { input: 1000, cached: 250, output: 90 },
      costUsd: 0.5,
      promptBytes: 4000,
      predictedBytes: 3000,
      recent: { ...NO_FIGURES, requestsPerS: 2 },
    },
    {
      ...{ model: '', requests: 7, errors: 0, failovers: 0, waiting: 0, recent: NO_FIGURES },
      ...{ tokens: { input: 0, cached: 0, output: 0 }, costUsd: 0, promptBytes: 0, predictedBytes: 0 },
    },
  ],
  engines: [
    { engine: 'e', standing: 'suspended', suspendedUntilMs: 40_000, reason: 'rate limited', answered: 1, failed: 2 },
  ],
  fetch: { threads: 1, running: 1, queued: 5, replaced: 0, pages: 9 },
  tools: [],
  responses: { stored: 0, notStored: 0, waitingBytes: 0, background: 0 },
  cluster: null,
  ledger: { spentTodayUsd: '0.25', waiting: 0 },
  errors: [{ requestId: 'r\n1', dateMs: 9000, endpoint: '/search', model: '', code: 'HR_X', status: 503, crn: '' }],
};

t.test('the dialects that CRNs were found to lack are shown where there are any', async (t) => {
  t.notMatch(screenLines(OVERVIEW, null).join('\n'), 'LACKS');
  const [crn] = OVERVIEW.crns;
  const lacks = ['messages', 'responses'] as const;
  const shown = screenLines({ ...OVERVIEW, crns: [{ ...(crn as CrnOverview), lacks }] }, null).join('\n');
  t.match(shown, /STANDING +LACKS +IN FLIGHT/);
  t.match(shown, / messages,responses +3 /);
});

t.test('the gateways of a cluster are shown where there is one', async (t) => {
  t.notMatch(screenLines(OVERVIEW, null).join('\n'), 'GATEWAY');
  const own = {
    ...{ instance: '1', self: true, name: 'a', version: '1.2.3', address: '10.0.0.1:8080', stage: 'ready' as const },
    ...{ uptimeMs: 300_000, inFlight: 3, requestsPerS: 2, ageMs: 0 },
  };
  const other = { ...own, instance: '2', self: false, name: 'b\u001b[2J', address: null, ageMs: 700 };
  const shown = screenLines({ ...OVERVIEW, cluster: { connected: false, gateways: [own, other] } }, null).join('\n');
  t.match(shown, /^GATEWAY +ADDRESS +STAGE +VERSION +IN FLIGHT +REQUESTS +UP +LAST HEARD$/m);
  t.match(shown, /^a +10\.0\.0\.1:8080 +ready +1\.2\.3 +3 +2\/s +5 min +–$/m);
  t.match(shown, /^b.* – +ready .* 700 ms$/m);
  t.match(shown, /^cluster: Redis or Valkey does not answer, this gateway goes on alone$/m);
  t.notMatch(shown, '\u001b');
});

t.test('why CRNs do not answer is shown where any does not', async (t) => {
  t.notMatch(screenLines(OVERVIEW, null).join('\n'), /FAILOVERS +LAST/);
  const [crn] = OVERVIEW.crns;
  const lastProbe = { dateMs: 9000, ok: false, reason: 'connection refused', latencyMs: 1 };
  const lastFailure = { dateMs: 4000, reason: '500 at /v1/chat/completions', model: 'a', requestId: 'r1' };
  const failing = { ...(crn as CrnOverview), lastProbe, lastFailure };
  const well = { ...failing, url: 'http://y', lastProbe: { ...lastProbe, ok: true, reason: null }, lastFailure: null };
  const shown = screenLines({ ...OVERVIEW, crns: [failing, well] }, null).join('\n');
  t.match(shown, /FAILOVERS +LAST PROBE +LAST FAILURE$/m);
  t.match(shown, / connection refused +500 at \/v1\/chat\/completions, 6 s ago$/m);
  t.match(shown, /^http:\/\/y .* ok +–$/m);
});

t.test('a screen has everything of the overview, with the rates of CRNs and threads once there are two', async (t) => {
  const first = screenLines(OVERVIEW, null);
  t.match(first[0], /^headrace 1\.2\.3, ready, up 5 min$/);
  t.match(first[1], /^requests 2\/s {2}errors 0\/s {2}in flight 3 {2}streams 2 {2}spent today 0\.25 USD$/);
  const later: Overview = { ...OVERVIEW, dateMs: 12_000 };
  const lines = screenLines(later, ratesBetween(OVERVIEW, later));
  const text = lines.join('\n');
  t.match(lines[1], /^requests 2\/s/);
  t.match(lines[2], /^latency 150 ms median/);
  t.match(lines[3], /^tokens \S+ in.* \S+ out {2}cost \S+ USD\/h$/);
  t.match(text, / 25 % +75 % +0\.5 +4 +1 +1 +37$/m);
  for (const part of [
    /^http:\/\/x +down, ejected for 58 s +3 +42 ms +93 % +– +20 KiB +– +16 MiB +0\/s +1 +1$/m,
    /^a\?\[2J +2\/s .* 4 +1 +1 +37$/m,
    /^e +suspended for 28 s +1 +2 +rate limited$/m,
    /^1 +3 +0 % +1\.5 ms +20 ms +50 MiB$/m,
    /^fetch pool: 1 thread, 1 reading, 5 waiting, 9 pages so far$/m,
    /^00:00:09 +503 +HR_X +\/search +– +r\?1$/m,
  ]) {
    t.match(text, part);
  }
});

t.test('names from outside cannot move the cursor', async (t) => {
  for (const line of screenLines(OVERVIEW, null)) t.notMatch(line, /[\p{Cc}]/u);
});

t.test('once: measures for a second, prints one plain screen and ends', async (t) => {
  const { url, adminUrl } = await startServe(t, await startHosts(t), { threads: 1 });
  await (await chat(url)).text();
  const cli = await runCli(t, ['top', '--admin', adminUrl, '--once=true']);
  t.strictSame(cli.exit, { code: 0, signal: null });
  t.equal(cli.stderr, '');
  t.match(cli.stdout, /^headrace \d\S+, ready, up \d+ (?:s|min)\nrequests \d\S*\/s/);
  t.match(cli.stdout, new RegExp(`^${MODEL} +\\d\\S*/s .* 1 +0 +0 +0$`, 'm'));
  t.notOk(cli.stdout.includes('\u001b'));
});

t.test('without an end it goes on into a pipe until a signal', async (t) => {
  const { adminUrl } = await startServe(t, await startHosts(t), { threads: 0 });
  const cli = startCli(t, ['top', '--admin', `${adminUrl}/`]);
  await cli.shows(/(headrace [^]*){3}/);
  cli.signal('SIGINT');
  t.strictSame(await cli.ends(), { code: 0, signal: null });
});

t.test('a terminal shows it on its alternate screen, cut to its size, until q', async (t) => {
  const { adminUrl } = await startServe(t, await startHosts(t), { threads: 0 });
  const cli = startCli(t, ['top', '--admin', adminUrl], { terminal: { columns: 20, rows: 4 } });
  // Everything up to where the first screen has cleared what is below it.
  await cli.shows(/\[J/);
  const [, screen = ''] = cli.stdout.split('\u001b[?1049h\u001b[?25l\u001b[H');
  const lines = (screen.split('\u001b[J')[0] ?? '').split('\u001b[K\r\n');
  t.equal(lines.length, 4, 'three lines of the screen, each ended');
  t.match(lines[0], /^headrace \d/);
  for (const line of lines) t.ok(line.length <= 20, line);
  cli.stdin.write('xq');
  t.strictSame(await cli.ends(), { code: 0, signal: null });
  t.ok(cli.stdout.endsWith('\u001b[?25h\u001b[?1049l'), 'and gives the terminal back');
  t.equal(cli.stdin.listenerCount('data'), 0);
});

t.test('q does not wait for a gateway that does not answer', async (t) => {
  const asked = Promise.withResolvers<void>();
  const { origin } = await site(t, { '/overview': () => asked.resolve() });
  const cli = startCli(t, ['top', '--admin', origin], { terminal: { columns: 80, rows: 24 } });
  await asked.promise;
  cli.stdin.write('q');
  t.same([await cli.ends(), cli.stderr], [{ code: 0, signal: null }, '']);
  t.ok(cli.stdout.endsWith('\u001b[?25h\u001b[?1049l'), 'and gives the terminal back');
});

t.test('a terminal that does not know its size is taken for one of 80 by 24', async (t) => {
  const { adminUrl } = await startServe(t, await startHosts(t), { threads: 0 });
  const cli = startCli(t, ['top', '--admin', adminUrl], { terminal: { columns: 0, rows: 0 } });
  await cli.shows(/headrace \d[^]*\[J/);
  cli.stdin.write('q');
  t.strictSame(await cli.ends(), { code: 0, signal: null });
});

t.test('a terminal without control sequences gets plain text', async (t) => {
  const { adminUrl } = await startServe(t, await startHosts(t), { threads: 0 });
  const terminal = { columns: 80, rows: 24 };
  const cli = startCli(t, ['top', '--admin', adminUrl], { terminal, env: { TERM: 'dumb' } });
  await cli.shows(/(headrace [^]*){2}/);
  cli.signal('SIGINT');
  t.strictSame(await cli.ends(), { code: 0, signal: null });
  t.notMatch(cli.stdout, '\u001b');
});

t.test('a gateway that does not answer, or is none, is a sentence and exit 1', async (t) => {
  const { url } = await startServe(t, await startHosts(t), { threads: 0 });
  const none = await runCli(t, ['top', '--admin', 'http://127.0.0.1:1', '--once']);
  t.match(none.stderr, /^headrace: http:\/\/127\.0\.0\.1:1\/overview does not answer \(.+\)\n$/);
  const other = await runCli(t, ['top', '--admin', url, '--once']);
  t.match(other.stderr, /^headrace: \S+\/overview answers 404: is it the admin listener of a gateway\?\n$/);
  const { origin } = await site(t, { '/overview': (_, response) => response.end('{}') });
  const json = await runCli(t, ['top', '--admin', origin, '--once']);
  t.match(json.stderr, /\/overview answers no overview: is it the admin listener of a gateway\?\n$/);
  const page = await site(t, { '/overview': (_, response) => response.end('<html>') });
  const html = await runCli(t, ['top', '--admin', page.origin, '--once']);
  t.match(html.stderr, /\/overview answers 200 without JSON: is it the admin listener of a gateway\?\n$/);
  const flag = await runCli(t, ['top', '--all', 'x']);
  t.match(flag.stderr, /^headrace: unknown option '--all'\n/);
  t.same([none.exit?.code, other.exit?.code, flag.exit?.code], [1, 1, 1]);
});
