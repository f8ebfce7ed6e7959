import { readFileSync } from 'node:fs';
import t, { type Test } from 'tap';
import { createHost, type Host, type HostSettings } from '../../src/host/index.ts';
import { runCli, startCli } from '../support/cli.ts';

async function startHost(t: Test, settings: Partial<HostSettings> = {}): Promise<Host> {
  const host = createHost({ models: ['m'], timeToFirstTokenMs: 1, interTokenMs: 1, ...settings });
  t.teardown(() => host.kill());
  await host.listen();
  return host;
}

t.test('runs a load and leaves a table, JSON, CSV and a page', async (t) => {
  const host = await startHost(t, { engine: { profile: 'even', speed: 50 }, keys: ['hr_one'] });
  const folder = t.testdir({});
  const cli = await runCli(
    t,
    [
      ...['bench', host.url, '--model', 'm', '--users', '2', '--requests', '12', '--turns', '2', '--prefixes', '2'],
      ...['--output-tokens', '4-8', '--ignore-eos', 'true', '--truth', 'true', '--slo', 'ttft:20s,itl:20s'],
      ...['--json', `${folder}/r.json`, '--csv', `${folder}/r.csv`, '--html', `${folder}/r.html`],
      ...['--fail-on', 'errors>0%,goodput<100%'],
    ],
    { env: { HEADRACE_API_KEY: 'hr_one' } },
  );
  t.strictSame(cli.exit, { code: 0, signal: null }, cli.stderr + cli.stdout);
  t.match(cli.stdout, /closed loop, 2 users; synthetic.*\n\n {2}requests {3}12 ok, 0 failed/);
  t.match(cli.stdout, 'added to first text');
  const report = JSON.parse(readFileSync(`${folder}/r.json`, 'utf8'));
  t.match(report, { counts: { ok: 12 }, truth: { requests: 12, clock: { sped: 50 } }, shares: { goodput: 1 } });
  const lines = readFileSync(`${folder}/r.csv`, 'utf8').trimEnd().split('\r\n');
  t.equal(lines.length, 13);
  t.match(readFileSync(`${folder}/r.html`, 'utf8'), '<!doctype html>');
  for (const text of [cli.stdout, cli.stderr, JSON.stringify(report), ...lines]) t.notMatch(text, 'hr_one');
});

t.test('reports go to standard output; a true condition and a system that answers nothing exit with 1', async (t) => {
  const host = await startHost(t);
  const few = ['--model', 'm', '--requests', '4'];
  const slow = await runCli(t, ['bench', host.url, ...few, '--fail-on', 'ttft.p50>0ms', '--json', '-']);
  t.equal(slow.exit.code, 1);
  t.match(JSON.parse(slow.stdout).failed, [/^ttft\.p50>0ms: it is /]);
  const lines = await runCli(t, ['bench', host.url, ...few, '--csv', '-']);
  t.match(lines.stdout, /^\w+,.*\r\n(?:.+,.*\r\n){4}$/);
  const page = await runCli(t, ['bench', host.url, ...few, '--html', '-']);
  t.match(page.stdout, /^<!doctype html>/);
  await host.kill();
  const none = await runCli(t, ['bench', host.url, ...few, '--progress', 'false']);
  t.equal(none.exit.code, 1);
  t.match(
    none.stdout,
    /No request succeeded: there are no times of answers\.\n\n {2}failed with\n {4}4 × ECONNREFUSED/,
  );
  t.equal(none.stderr, '');
});

t.test('a CSV file that is incomplete exits with 1', async (t) => {
  const host = await startHost(t);
  const cli = await runCli(t, ['bench', host.url, '--model', 'm', '--requests', '4', '--csv', '/dev/full']);
  t.match(cli.stderr, 'headrace: /dev/full is incomplete: ENOSPC');
  t.match(cli.stdout, '4 ok', 'the run goes on');
  t.equal(cli.exit.code, 1);
});

t.test('an interrupt ends the run and reports what there is', async (t) => {
  const host = await startHost(t);
  const cli = startCli(t, ['bench', host.url, '--model', 'm', '--users', '1', '--duration', '1h']);
  // The third request comes when two were answered.
  for (let count = 0; count < 3; count++) await host.nextRequest();
  cli.signal('SIGINT');
  t.strictSame(await cli.ends(), { code: 0, signal: null });
  t.match(cli.stdout, /closed loop, 1 user;.*\n\n {2}requests {3}\d+ ok, 0 failed/);
});

t.test('writes a trace and runs it; refuses a broken one by its line', async (t) => {
  const host = await startHost(t);
  const folder = t.testdir({
    'broken.jsonl': '{"timestamp":0,"input_length":5,"output_length":5}\nnothing\n',
    'talk.json': '[]',
  });
  const file = `${folder}/trace.jsonl`;
  const made = await runCli(t, ['bench', '--make', file, '--requests', '8', '--rate', '200', '--output-tokens', '3']);
  t.match(made.stderr, /: 8 requests of a trace\n$/);
  const flags = ['--model', 'm', '--arrivals', 'trace', '--dialect', 'llama', '--workload'];
  const run = await runCli(t, ['bench', host.url, ...flags, file, '--speed', '4']);
  t.equal(run.exit.code, 0, run.stderr);
  t.match(run.stdout, /times of the trace ×4; trace\.jsonl, 8 requests;.*\n\n {2}requests {3}8 ok/);
  const broken = await runCli(t, ['bench', host.url, ...flags, `${folder}/broken.jsonl`]);
  t.equal(broken.exit.code, 1);
  t.match(broken.stderr, /^headrace: broken\.jsonl, line 2: no JSON/);
  t.match((await runCli(t, ['bench', host.url, ...flags, `${folder}/none`])).stderr, /cannot be read \(ENOENT\)/);
});

t.test('refuses wrong options', async (t) => {
  const url = 'http://127.0.0.1:9';
  const model = ['--model', 'm'];
  const refused: [string[], RegExp][] = [
    [[...model], /missing required argument 'url'/],
    [[url], /required option '--model <name>' not specified/],
    [['ftp://x', ...model], /must begin with http/],
    [['http://a:secret@x', ...model], /may hold no password/],
    [['http://x/v1?api-version=3', ...model], /may have no query/],
    [[url, ...model, '--dialect', 'smoke'], /Allowed choices are chat, /],
    [[url, ...model, '--rate', '5', '--users', '2'], /'--users <n>' cannot be used with option '--rate <n>'/],
    [[url, ...model, '--rate', '0'], /--rate <n>' argument '0' is invalid\. It must be a number above 0/],
    [[url, ...model, '--arrivals', 'trace'], /needs --workload FILE/],
    ...['--input-tokens', '--turns', '--prefixes', '--prefix-tokens'].map((flag): [string[], RegExp] => [
      [url, ...model, '--workload', 'f', flag, '4'],
      new RegExp(`'${flag} <.*>' cannot be used with option '--workload <file>'`),
    ]),
    [[url, ...model, '--arrivals', 'poisson'], /needs --rate N/],
    [[url, ...model, '--speed', '2'], /--speed needs --arrivals trace/],
    [
      [url, ...model, '--turns', '3-1'],
      /'3-1' is invalid\. It must be a whole number of 1 or more, or two as in 64-512/,
    ],
    [[url, ...model, '--duration', 'soon'], /'soon' is invalid\. It must be a duration/],
    [[url, ...model, '--stream', 'maybe'], /'maybe' is invalid\. It must be true or false/],
    [[url, ...model, '--body', '[1]'], /--body takes a JSON object/],
    [[url, ...model, '--headers', '{"a":1}'], /--headers takes texts/],
    [[url, ...model, '--headers', '{"host":"a"}'], /the header "host" cannot be sent/],
    [[url, ...model, '--headers', '{"x":"€"}'], /the header "x" cannot be sent/],
    [[url, ...model, '--key', 'hr_\nsecret'], /^headrace: the header "authorization" cannot be sent: [^\n]*\nRun/],
    [[url, ...model, '--slo', 'x:1s'], /"x:1s" is no limit/],
    [[url, ...model, '--slo', 'e2e:1s,itl:1s', '--stream', 'false'], /--slo itl needs --stream true/],
    [[url, ...model, '--fail-on', 'x'], /"x" is no condition/],
    [[url, ...model, '--tiemout', '1s'], /unknown option '--tiemout' \(Did you mean --timeout\?\)/],
    [[url, ...model, '--csv', '-', '--json', '-'], /of --json, --csv and --html one can be -/],
    [[url, ...model, '--csv', '/none/r.csv'], /cannot be written \(ENOENT\)/],
    [[url, ...model, '--json', '/none/r.json'], /cannot be written \(ENOENT\)/],
  ];
  for (const [args, message] of refused) {
    const { exit, stdout, stderr } = await runCli(t, ['bench', ...args]);
    t.strictSame([exit.code, stdout], [1, ''], args.join(' '));
    t.match(stderr, message);
  }
  const cli = await runCli(t, ['bench', 'http://a:secret@x', ...model]);
  t.match(cli.stderr, /^headrace: the URL may hold no password; give --key\n/);
  t.equal(cli.exit.code, 1);
  t.equal(cli.stdout, '');
  t.match((await runCli(t, ['bench', url, 'more', ...model])).stderr, /too many arguments.* more/);
  const secret = await runCli(t, ['bench', url, ...model, '--headers', '{"authorization":s3cret']);
  t.match(secret.stderr, /^headrace: --headers takes a JSON object\n/);
});
