import { existsSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { json } from '../support/fake-engine.ts';
import { LLAMA_MODEL, startFakeLlamaServer } from '../support/fake-llama-server.ts';
import { startFakeVllm, VLLM_MODEL } from '../support/fake-vllm.ts';
import { runCli, startCli } from '../support/cli.ts';
import { startHosts } from '../support/system.ts';

const OK = { code: 0, signal: null };
const TERMINAL = { terminal: { columns: 100, rows: 24 } };

/** Runs a command that must succeed; its output. */
async function run(t: Test, ...args: readonly string[]): Promise<string> {
  const { exit, stderr, stdout } = await runCli(t, args);
  t.strictSame(exit, OK, stderr);
  t.equal(stderr, '');
  return stdout;
}

async function refusal(t: Test, ...args: readonly string[]): Promise<string> {
  const { exit, stderr, stdout } = await runCli(t, args);
  t.equal(exit.code, 1);
  t.equal(stdout, '');
  return stderr;
}

t.test('--yes writes a file that check accepts, for its owner alone', async (t) => {
  const file = join(t.testdir({}), 'headrace.yaml');
  const stdout = await run(t, 'init', '--yes', '--config', file);
  t.match(stdout, `Wrote ${file}, without models`);
  const [key] = /\bhr_[\w-]{43}\b/.exec(stdout) ?? [''];
  t.match(readFileSync(file, 'utf8'), `key: ${key}, `);
  t.equal(statSync(file).mode & 0o777, 0o600);
  t.match(
    await run(t, 'check', '--config', file),
    /public {3}http:\/\/127\.0\.0\.1:8080.*\n[^]*keys {5}required, 1 static key/,
  );
});

t.test('the example of a model works once it is no comment', async (t) => {
  const file = join(t.testdir({}), 'headrace.yaml');
  await run(t, 'init', '--yes', '--config', file);
  writeFileSync(file, readFileSync(file, 'utf8').replaceAll(/^#(?= +(?:atlas-27b|servers|context_length):)/gm, ''));
  t.match(await run(t, 'check', '--config', file), '1 model on 2 servers');
});

t.test('servers are asked for their models and contexts; the printed line can be pasted', async (t) => {
  const [first, second] = await startHosts(t, [{ models: ['atlas', "o'neil"] }, { models: ['atlas'] }]);
  const vllm = await startFakeVllm();
  t.teardown(() => vllm.close());
  const servers = [`${first?.url}/v1/`, second?.url, vllm.url, first?.url].join(', ');
  const file = join(t.testdir({}), 'headrace.yaml');
  const stdout = await run(
    t,
    'init',
    '--server',
    servers,
    '--listen',
    '0.0.0.0:8123',
    '--key',
    'false',
    '--config',
    file,
  );
  t.match(stdout, `${vllm.url} is vLLM`);
  t.match(
    stdout,
    `curl http://127.0.0.1:8123/v1/chat/completions -H 'content-type: application/json' -d '{"model":"atlas"`,
  );
  const text = readFileSync(file, 'utf8');
  t.match(text, `  atlas:\n    servers: [${first?.url}, ${second?.url}]\n    context_length: `);
  t.match(text, `  ${VLLM_MODEL}:\n    servers: [${vllm.url}]\n`);
  t.match(await run(t, 'check', '--config', file), /3 models on 3 servers/);
});

t.test('a server that does not answer is named with the reason, and stays in the file', async (t) => {
  const file = join(t.testdir({}), 'headrace.yaml');
  const stdout = await run(t, 'init', '--yes', '--server', 'http://127.0.0.1:1', '--config', file);
  t.match(
    stdout,
    /^http:\/\/127\.0\.0\.1:1 did not say its models: .*cannot be reached\. It is in the file as "my-model"\.$/m,
  );
  t.match(await run(t, 'check', '--config', file), 'my-model  http://127.0.0.1:1');
});

t.test('a server that lists its models without a key is recognised, one that needs a key is told so', async (t) => {
  const [first, second] = await Promise.all([startFakeLlamaServer(), startFakeLlamaServer()]);
  t.teardown(() => Promise.all([first.close(), second.close()]));
  const refused = json({ error: { code: 401, message: 'Invalid API Key', type: 'authentication_error' } }, 401);
  // As llama-server with --api-key: health and models are public.
  for (const path of first.answers.keys()) {
    if (path !== '/health' && path !== '/v1/models') first.answers.set(path, refused);
  }
  second.key = 'secret';
  const file = join(t.testdir({}), 'headrace.yaml');
  const stdout = await run(t, 'init', '--yes', '--server', `${second.url},${first.url}`, '--config', file);
  t.match(stdout, `-d '{"model":"${LLAMA_MODEL}"`, 'the printed line asks for the model that is known');
  t.match(stdout, `${first.url} is llama-server with ${LLAMA_MODEL}.\n`);
  t.match(
    stdout,
    `${second.url} did not say its models: it needs a key (401), which is \`apiKey\` of a model. It is in the file as "my-model".\n`,
  );
});

t.test('models that a file cannot name are left out, and said; so are sizes that are none', async (t) => {
  const [first, second] = await Promise.all([startFakeVllm(), startFakeVllm()]);
  t.teardown(() => Promise.all([first.close(), second.close()]));
  const answer = (max_model_len: number, ...ids: readonly string[]): ReturnType<typeof json> =>
    json({ object: 'list', data: ids.map((id) => ({ id, object: 'model', owned_by: 'vllm', max_model_len })) });
  first.answers.set('/v1/models', answer(4096, 'Atlas/7B', 'a\nb', '', '__proto__', '${HOME}', 'Atlas/7B'));
  second.answers.set('/v1/models', answer(0, 'atlas/7b', 'other'));
  const file = join(t.testdir({}), 'headrace.yaml');
  const stdout = await run(t, 'init', '--yes', '--server', `${first.url},${second.url}`, '--config', file);
  for (const id of ['a\nb', '', '__proto__', '${HOME}']) {
    t.match(stdout, `${JSON.stringify(id)} of ${first.url} is not in the file: a file cannot name it.\n`);
  }
  t.match(
    stdout,
    `"atlas/7b" of ${second.url} is not in the file: it has Atlas/7B; upper and lower case are the same.\n`,
  );
  const text = readFileSync(file, 'utf8');
  t.match(text, `  Atlas/7B:\n    servers: [${first.url}]\n    context_length: 4096`);
  t.match(text, `  other:\n    servers: [${second.url}]\n    # context_length: `, 'no size that is 0');
  t.equal(text.match(/servers: \[/g)?.length, 2);
});

t.test('asks three questions at a terminal', async (t) => {
  const [host] = await startHosts(t, [{ models: ['atlas'] }]);
  const file = join(t.testdir({}), 'headrace.yaml');
  const cli = startCli(t, ['init', '--config', file], TERMINAL);
  await cli.shows(/Model servers.*: $/);
  cli.stdin.write(`${host?.url}\n`);
  await cli.shows(/Address for clients.*: $/);
  cli.stdin.write('127.0.0.1:0\n');
  await cli.shows(/need a key.*: $/);
  cli.stdin.write('no\n');
  t.strictSame(await cli.ends(), OK, cli.stderr);
  const text = readFileSync(file, 'utf8');
  t.match(text, `servers: [${host?.url}]`);
  t.match(text, 'listen: 127.0.0.1:0\n');
  t.match(text, 'required: false');
});

t.test('Enter takes the defaults; what a flag names is not asked', async (t) => {
  const file = join(t.testdir({}), 'headrace.yaml');
  const cli = startCli(t, ['init', '--config', file, '--server', ''], TERMINAL);
  await cli.shows(/Address for clients.*: $/);
  cli.stdin.write('\n');
  await cli.shows(/need a key.*: $/);
  cli.stdin.write('\n');
  t.strictSame(await cli.ends(), OK, cli.stderr);
  t.notMatch(cli.stdout, 'Model servers');
  t.match(readFileSync(file, 'utf8'), 'required: true');
});

t.test('a wrong answer is refused before the next question, an existing file before the first', async (t) => {
  const folder = t.testdir({ 'there.yaml': '' });
  const file = join(folder, 'headrace.yaml');
  for (const [answers, refused] of [
    [['ftp://x\n'], 'ftp://x is not the URL of a server'],
    [['\n', 'nowhere\n'], 'listen: must be HOST:PORT, such as 127.0.0.1:8080'],
  ] as const) {
    const cli = startCli(t, ['init', '--config', file], TERMINAL);
    await cli.shows(/Model servers.*: $/);
    cli.stdin.write(answers[0]);
    if (answers[1] !== undefined) {
      await cli.shows(/Address for clients.*: $/);
      cli.stdin.write(answers[1]);
    }
    t.equal((await cli.ends()).code, 1);
    t.match(cli.stderr, refused);
    t.notMatch(cli.stdout, 'need a key');
  }
  t.notOk(existsSync(file));
  const cli = startCli(t, ['init', '--config', join(folder, 'there.yaml')], TERMINAL);
  t.equal((await cli.ends()).code, 1);
  t.equal(cli.stdout, '');
});

t.test('an end of input writes nothing', async (t) => {
  const file = join(t.testdir({}), 'headrace.yaml');
  const cli = startCli(t, ['init', '--config', file], TERMINAL);
  await cli.shows(/Model servers.*: $/);
  cli.stdin.end();
  t.equal((await cli.ends()).code, 1);
  t.match(cli.stderr, 'nothing is written');
  t.notOk(existsSync(file));
});

t.test('a file that exists is kept unless --force is given', async (t) => {
  const file = join(t.testdir({}), 'headrace.yaml');
  writeFileSync(file, 'models: {}\n', { mode: 0o644 });
  t.match(await refusal(t, 'init', '--yes', '--config', file), `${file} exists: --force replaces it`);
  t.equal(readFileSync(file, 'utf8'), 'models: {}\n');
  await run(t, 'init', '--yes', '--force', '--config', file);
  t.match(readFileSync(file, 'utf8'), 'listen: 127.0.0.1:8080');
  t.equal(statSync(file).mode & 0o777, 0o600);
});

t.test('wrong answers are refused before anything is written', async (t) => {
  const file = join(t.testdir({}), 'headrace.yaml');
  t.match(await refusal(t, 'init', '--config', file), 'is no terminal');
  t.match(await refusal(t, 'init', '--yes', '--listen', 'nowhere', '--config', file), /listen: /);
  t.match(
    await refusal(t, 'init', '--yes', '--server', 'http://a b:x', '--config', file),
    'is not the URL of a server',
  );
  t.match(
    await refusal(t, 'init', '--yes', '--server', 'ftp://h', '--config', file),
    'ftp://h is not the URL of a server',
  );
  t.match(
    await refusal(t, 'init', '--yes', '--server', 'http://u:secret@h', '--config', file),
    /(?!.*secret)must not hold a password/,
  );
  t.match(await refusal(t, 'init', '--yes', '--config', join(file, 'x')), 'cannot be written (ENOENT)');
  t.notOk(existsSync(file));
});
