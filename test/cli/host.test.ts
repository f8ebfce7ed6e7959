import { createServer, type AddressInfo } from 'node:net';
import t from 'tap';
import { PROFILE_NAMES } from '../../src/host/index.ts';
import { runCli, startCli } from '../support/cli.ts';

t.test('serves models with the pace, name and length of its flags, and ends at a signal', async (t) => {
  const flags = ['--model', 'a,b', '--port', '0', '--name', 'one', '--ttft', '0', '--itl', '0', '--tokens', '3'];
  const cli = startCli(t, ['host', ...flags]);
  const [, url = ''] = await cli.shows(/^host of a,b listening on (\S+)\n/);
  for (const model of ['a', 'b']) {
    const answer = await fetch(`${url}/v1/completions`, {
      method: 'POST',
      body: JSON.stringify({ model, prompt: 'x' }),
    });
    t.equal(answer.status, 200);
    t.equal(answer.headers.get('x-host'), 'one');
    t.match(await answer.json(), { model, usage: { completion_tokens: 3 } });
  }
  t.equal((await fetch(`${url}/sim/faults`, { method: 'POST', body: '[]' })).status, 404);
  cli.signal('SIGTERM');
  t.strictSame(await cli.ends(), { code: 0, signal: null });
});

t.test('asks for the keys of a configuration, and takes faults when told to', async (t) => {
  const config = { keys: { static: [{ key: 'hr_one', account: 'a' }] } };
  const folder = t.testdir({ 'headrace.json': JSON.stringify(config) });
  const cli = startCli(t, [
    'host',
    '--model',
    'a',
    '--port',
    '0',
    '--config',
    `${folder}/headrace.json`,
    '--control',
    'true',
  ]);
  const [, url = ''] = await cli.shows(/listening on (\S+)\n/);
  const ask = (headers: Record<string, string>, path = '/v1/completions', body = '{"model":"a","prompt":"x"}') =>
    fetch(url + path, { method: 'POST', headers, body });
  t.equal((await ask({})).status, 401);
  t.equal((await ask({ authorization: 'Bearer hr_one' })).status, 200);
  t.equal((await ask({ 'x-api-key': 'hr_one' }, '/sim/faults', '[{"fault":"status=503"}]')).status, 200);
  t.equal((await ask({ 'x-api-key': 'hr_one' })).status, 503);
});

t.test('keeps system prompts apart by the accounts of a configuration, or lets nobody set them', async (t) => {
  const accounts = ['anna', 'ben'].map((account) => ({ key: `hr_${account}`, account }));
  const folder = t.testdir({ 'headrace.json': JSON.stringify({ keys: { static: accounts } }) });
  const config = ['--config', `${folder}/headrace.json`, '--speed', '1000'];
  const started = async (...flags: string[]): Promise<string> => {
    const cli = startCli(t, ['host', '--model', 'a', '--port', '0', ...config, ...flags]);
    return (await cli.shows(/listening on (\S+)\n/))[1]!;
  };
  const ask = async (url: string, account: string, more: object = {}): Promise<[number, unknown]> => {
    const headers = { 'x-api-key': `hr_${account}` };
    const body = JSON.stringify({ prompt: 'x', n_predict: 1, response_fields: ['tokens_evaluated'], ...more });
    const response = await fetch(`${url}/completion`, { method: 'POST', headers, body });
    return [response.status, await response.json()];
  };
  const own = await started();
  const [, before] = await ask(own, 'ben');
  const [, changed] = await ask(own, 'anna', { system_prompt: 'You are a fish.' });
  t.notSame(changed, before);
  t.same(await ask(own, 'ben'), [200, before]);
  const everybody = await started('--system-prompt', 'all');
  await ask(everybody, 'anna', { system_prompt: 'You are a fish.' });
  t.same(await ask(everybody, 'ben'), [200, changed]);
  t.equal((await ask(await started('--system-prompt', 'off'), 'anna', { system_prompt: 'x' }))[0], 422);
});

t.test('uses the step engine of the given profile unless a pace is given', async (t) => {
  const flags = ['--profile', 'small-box', '--slots', '2', '--context', '256', '--speed', '1000', '--seed', '3'];
  const cli = startCli(t, ['host', '--model', 'a', '--port', '0', ...flags]);
  const [, url = ''] = await cli.shows(/listening on (\S+)\n/);
  t.match(await (await fetch(`${url}/props`)).json(), {
    total_slots: 2,
    default_generation_settings: { n_ctx: 256 },
  });
  const body = '{"prompt":"x","n_predict":5,"ignore_eos":true}';
  const answer = await fetch(`${url}/completion`, { method: 'POST', body });
  t.match(await answer.json(), { model: 'a', tokens_predicted: 5, timings: { predicted_ms: Number } });
});

t.test('plays a script in the dialects of its flags', async (t) => {
  const folder = t.testdir({
    'script.yaml': "values: { name: 'am (\\w+)' }\nsteps: [{ text: 'Good day, {{name}}.' }]\n",
    'wrong.yaml': 'steps: [{ txt: a }]\n',
  });
  const flags = ['--model', 'a', '--port', '0', '--speed', '1000', '--script', `${folder}/script.yaml`];
  const cli = startCli(t, ['host', ...flags, '--dialects', 'chat, messages']);
  const [, url = ''] = await cli.shows(/listening on (\S+)\n/);
  const body = JSON.stringify({ model: 'a', max_tokens: 20, messages: [{ role: 'user', content: 'I am Ada' }] });
  const chat = await fetch(`${url}/v1/chat/completions`, { method: 'POST', body });
  t.match(await chat.json(), { choices: [{ message: { content: 'Good day, Ada.' } }] });
  const messages = await fetch(`${url}/v1/messages`, { method: 'POST', body });
  t.match(await messages.json(), { content: [{ text: 'Good day, Ada.' }] });
  t.equal((await fetch(`${url}/v1/responses`, { method: 'POST', body })).status, 404);
  const wrong = await runCli(t, ['host', '--model', 'a', '--script', `${folder}/wrong.yaml`]);
  t.equal(wrong.exit.code, 1);
  t.match(wrong.stderr, /wrong\.yaml is wrong: steps\.0\.txt: unknown member/);
});

t.test('says where it publishes its KV events', async (t) => {
  const flags = ['--profile', '8b-h100', '--kv-events', 'tcp://127.0.0.1:*', '--kv-events-replay', 'tcp://*:*'];
  const cli = startCli(t, ['host', '--model', 'a', '--port', '0', ...flags]);
  await cli.shows(/listening on \S+\nKV events at tcp:\/\/127\.0\.0\.1:\d+, replay at tcp:\/\/0\.0\.0\.0:\d+\n/);
  cli.signal('SIGTERM');
  t.strictSame(await cli.ends(), { code: 0, signal: null });
});

t.test('serves a fleet of one process', async (t) => {
  const folder = t.testdir({
    'plan.yaml':
      'defaults: { profile: even, speed: 100 }\nhosts: [{ models: [a], count: 2, name: x }, { models: [b] }]\n',
    'wrong.yaml': 'hosts: [{ models: [a], profil: even }]\n',
  });
  const cli = startCli(t, ['host', '--fleet', `${folder}/plan.yaml`, '--tokens', '3']);
  const found = await cli.shows(
    /^x-1 of a listening on (\S+)\nx-2 of a listening on (\S+)\nhost-2 of b listening on (\S+)\n/,
  );
  for (const [at, model] of ['a', 'a', 'b'].entries()) {
    const body = JSON.stringify({ model, prompt: 'x', ignore_eos: true });
    const answer = await fetch(`${found[at + 1]}/v1/completions`, { method: 'POST', body });
    t.match(await answer.json(), { model, usage: { completion_tokens: 3 } });
  }
  cli.signal('SIGTERM');
  t.strictSame(await cli.ends(), { code: 0, signal: null });
  for (const [file, message] of [
    ['wrong.yaml', /hosts\.0\.profil: unknown member/],
    ['none.yaml', /cannot be read \(ENOENT\)/],
  ] as const) {
    const wrong = await runCli(t, ['host', '--fleet', `${folder}/${file}`]);
    t.equal(wrong.exit.code, 1);
    t.match(wrong.stderr, message);
  }
});

t.test('lists its profiles', async (t) => {
  const { stdout, exit } = await runCli(t, ['host', '--profiles']);
  t.equal(exit.code, 0);
  const lines = stdout.trimEnd().split('\n');
  t.equal(lines.length, PROFILE_NAMES.length + 1);
  for (const [at, name] of PROFILE_NAMES.entries()) t.match(lines[at + 1], new RegExp(`^${name} +[\\d.]+ .*\\w$`));
});

t.test('refuses wrong options', async (t) => {
  const refused: [string[], RegExp][] = [
    [['--profile', 'huge'], /--profile <name>' argument 'huge' is invalid\. Allowed choices are 8b-rtx4090, /],
    [['--slots', '0'], /--slots <n>' argument '0' is invalid\. It must be a whole number of 1 or more/],
    [['--ttft', '1', '--cold-start', 'true'], /--cold-start cannot be combined with a fixed pace/],
    [['--speed', '0'], /--speed <n>' argument '0' is invalid\. It must be a number above 0/],
    [['--engine', 'http://x', '--engine-wait', 'soon'], /'soon' is invalid\. It must be a duration/],
    [['--kv-events', 'tcp://127.0.0.1:*'], /slots have no KV events; choose a profile with KV blocks, such as 8b-h100/],
    [['--kv-events', '127.0.0.1:1', '--profile', '8b-h100'], /127\.0\.0\.1:1 is not an endpoint such as tcp:/],
    [
      ['--kv-events', 'tcp://127.0.0.1:*', '--kv-events-replay', 'here', '--profile', '8b-h100'],
      /here is not an endpoint such as tcp:/,
    ],
    [['--kv-events-replay', 'tcp://127.0.0.1:*'], /--kv-events-replay and --kv-events-topic need --kv-events/],
    [['--kv-events', 'tcp://127.0.0.1:*', '--fleet', 'x.yaml'], /--kv-events cannot be combined with --fleet/],
    [['--system-prompt', 'some'], /argument 'some' is invalid. Allowed choices are account, all, off/],
    [['--dialects', 'chat,gemini'], /'gemini' is none of chat, completions, responses, messages, llama/],
    [['--script', 'x.yaml', '--fleet', 'y.yaml'], /--script cannot be combined with --fleet; write it in the plan/],
    [['--fleet', 'y.yaml'], /--model cannot be combined with --fleet; write it in the plan/],
    [['--ttft', '5', '--fleet', 'y.yaml'], /--ttft cannot be combined with --fleet\n/],
    [['--cold-start', 'true', '--engine', 'http://x'], /--cold-start cannot be combined with --engine URL/],
    [['--script', 'x.yaml', '--engine', 'http://x'], /--script cannot be combined with --engine URL/],
    [['--itl', '5', '--slots', '2'], /--slots cannot be combined with a fixed pace/],
  ];
  await Promise.all(
    refused.map(async ([flags, message]) => {
      const cli = await runCli(t, ['host', '--model', 'a', ...flags]);
      t.equal(cli.exit.code, 1);
      t.match(cli.stderr, message);
      t.match(cli.stderr, /^headrace: [^\n]+\nRun "headrace host --help" for usage\.\n$/, 'no stack');
    }),
  );
});

t.test('-c names the configuration', async (t) => {
  const cli = await runCli(t, ['host', '--model', 'm', '--port', '0', '-c', '/none.yaml']);
  t.equal(cli.exit.code, 1);
  t.match(cli.stderr, '/none.yaml is wrong');
});

t.test('says in one sentence that its port is taken', async (t) => {
  const holder = createServer();
  await new Promise<void>((resolve) => holder.listen(0, '127.0.0.1', resolve));
  t.teardown(() => holder.close());
  const taken = `127.0.0.1:${(holder.address() as AddressInfo).port}`;
  const port = taken.slice(taken.indexOf(':') + 1);
  const folder = t.testdir({ 'plan.yaml': `hosts:\n  - { name: one, models: [a], port: ${port} }\n` });
  for (const flags of [
    ['--model', 'a', '--listen', taken],
    ['--fleet', `${folder}/plan.yaml`],
    ['--model', 'a', '--port', '0', '--profile', '8b-h100', '--kv-events', `tcp://${taken}`],
  ]) {
    const { exit, stderr } = await runCli(t, ['host', ...flags]);
    t.equal(exit.code, 1);
    t.equal(stderr, `headrace cannot start: cannot listen on ${taken}: the port is taken\n`);
  }
});
