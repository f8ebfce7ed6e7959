import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { createGateway } from '../../src/index.ts';
import { runCli, startCli } from '../support/cli.ts';
import { site } from '../support/site.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

const PAGE = `<!doctype html><title>On weirs</title><main><h1>On weirs</h1>${'<p>A weir holds the river back in a dry month.</p>'.repeat(6)}</main>`;

const START = {
  ...{ id: 0, method: 'initialize' },
  params: { protocolVersion: '2025-06-18', capabilities: {}, clientInfo: { name: 'test', version: '1' } },
};

interface Message {
  readonly id?: unknown;
  readonly result?: Record<string, unknown>;
  readonly error?: { readonly code: number; readonly message: string };
}

function linesOf(...messages: readonly object[]): string {
  return messages.map((message) => `${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`).join('');
}

/** Messages by their ids; nothing else may be on standard output. */
function answersIn(stdout: string): Map<unknown, Message> {
  const messages = stdout.split('\n').filter((line) => line !== '');
  return new Map(messages.map((line) => JSON.parse(line) as Message).map((message) => [message.id, message]));
}

function fetchOf(id: number, url: string): object {
  return { id, method: 'tools/call', params: { name: 'fetch', arguments: { url } } };
}

t.test('tools are served over standard input and output, until the input ends', async (t) => {
  const { origin, port } = await site(t, {
    '/': (_, response) => response.writeHead(200, { 'content-type': 'text/html' }).end(PAGE),
  });
  const config = join(temporaryFolder(t), 'headrace.yaml');
  // Keys are required, a ledger is configured and a model is away: none of it matters to the tools.
  writeFileSync(
    config,
    `models: { a: { servers: ['http://127.0.0.1:9'] } }\nfetch: { allow: [127.0.0.1], ports: [${port}] }\n`,
  );
  const cli = startCli(t, ['mcp', '--config', config]);
  cli.stdin.end(
    linesOf(START, { method: 'notifications/initialized' }, fetchOf(1, `${origin}/`), fetchOf(2, 'http://10.0.0.1/')) +
      `no json\n\n${linesOf({ id: 3, method: 'nothing' }, { id: 'four', method: 'ping' }, { id: 9, result: {} })}`,
  );
  t.same(await cli.ends(), { code: 0, signal: null });
  const answers = answersIn(cli.stdout);
  t.same([...answers.keys()].map(String).sort(), ['0', '1', '2', '3', 'four', 'null']);
  t.match(answers.get(0)?.result, { protocolVersion: '2025-06-18', serverInfo: { name: 'headrace' } });
  t.match(answers.get(1)?.result, { structuredContent: { title: 'On weirs' } });
  t.match(answers.get(2)?.result, { isError: true, content: [{ text: /^Error HR_FETCH_BLOCKED/ }] });
  t.equal(answers.get(3)?.error?.code, -32601);
  t.equal(answers.get(null)?.error?.code, -32700);
});

t.test('mistakes of engines are told before it starts, whatever else the file has', async (t) => {
  const config = join(temporaryFolder(t), 'headrace.yaml');
  const start = async (settings: object): Promise<{ code: number | null; stderr: string }> => {
    writeFileSync(config, JSON.stringify(settings));
    const cli = startCli(t, ['mcp', '--config', config]);
    cli.stdin.end();
    return { code: (await cli.ends()).code, stderr: cli.stderr };
  };
  const wrong = await start({
    search: { engines: { a: { kind: 'nothing' }, b: { kind: 'module', path: 'none.js' } } },
  });
  t.match(wrong, {
    code: 1,
    stderr: /cannot start with .*:\n {2}search\.engines\.b: .*\n {2}search\.engines\.a: .* unknown kind/,
  });
  // The key of a gateway may be in a file that only its user reads.
  t.match(await start({ trust: { signingKey: 'file:/nowhere/key' } }), { code: 0, stderr: '' });
});

t.test('what is no message is refused, each once', async (t) => {
  const config = join(temporaryFolder(t), 'headrace.yaml');
  writeFileSync(config, 'search: {}\n');
  const cli = startCli(t, ['mcp', '--config', config]);
  cli.stdin.end(`null\n[]\n[null]\n5\n"${'x'.repeat(3 << 20)}"\n${linesOf({ id: 1, method: 'ping' })}`);
  t.same(await cli.ends(), { code: 0, signal: null });
  const messages = cli.stdout.split('\n').filter((line) => line !== '');
  const errors = messages.map((line) => JSON.parse(line) as Message).map(({ id, error }) => `${id} ${error?.code}`);
  t.same(errors.sort(), ['1 undefined', ...Array<string>(4).fill('null -32600'), 'null -32700'].sort());
  t.notMatch(cli.stderr, /headrace mcp:/);
});

t.test('a cancellation and SIGTERM end the work', async (t) => {
  let waiting = 0;
  const arrived: (() => void)[] = [];
  const left: (() => void)[] = [];
  const { origin, port } = await site(t, {
    '/hang': (_, response) => {
      waiting++;
      arrived.shift()?.();
      response.on('close', () => {
        waiting--;
        left.shift()?.();
      });
    },
  });
  const config = join(temporaryFolder(t), 'headrace.yaml');
  writeFileSync(config, `fetch: { allow: [127.0.0.1], ports: [${port}] }\n`);
  const cli = startCli(t, ['mcp', '--config', config]);
  const next = (list: (() => void)[]): Promise<void> => new Promise((resolve) => list.push(resolve));
  const first = next(arrived);
  cli.stdin.write(linesOf(fetchOf(1, `${origin}/hang?1`)));
  await first;
  const gone = next(left);
  cli.stdin.write(linesOf({ method: 'notifications/cancelled', params: { requestId: 1 } }));
  await gone;
  const second = next(arrived);
  cli.stdin.write(linesOf(fetchOf(2, `${origin}/hang?2`)));
  await second;
  const over = next(left);
  cli.signal('SIGTERM');
  t.same(await cli.ends(), { code: 0, signal: null });
  await over;
  t.equal(waiting, 0);
  t.equal(cli.stdout, '', 'nothing is said of either');
});

t.test('a running gateway is reached with its key', async (t) => {
  const gateway = createGateway({
    ...{ listen: '127.0.0.1:0', log: { level: 'silent' } },
    keys: { static: [{ key: 'hr_stdio', account: 'tests' }] },
  });
  t.teardown(() => gateway.close());
  const { url } = await gateway.listen();
  const file = join(t.testdir({ key: 'hr_stdio\n' }), 'key');
  for (const [base, args, env] of [
    [url, ['--key-file', file], {}],
    [`${url}/mcp/`, [], { HEADRACE_API_KEY: 'hr_stdio' }],
  ] as const) {
    const cli = startCli(t, ['mcp', '--url', base, ...args], { env });
    cli.stdin.end(linesOf(START, { id: 1, method: 'tools/list' }));
    t.equal((await cli.ends()).code, 0);
    t.match(answersIn(cli.stdout).get(1)?.result, { tools: [{ name: 'fetch' }] });
  }
  const refused = startCli(t, ['mcp', '--url', url]);
  refused.stdin.end(linesOf({ id: 1, method: 'tools/list' }));
  await refused.ends();
  t.match(
    answersIn(refused.stdout).get(1)?.error?.message,
    /the gateway answers 401 HR_AUTH_MISSING: Not authenticated/,
  );
});

t.test('a key that no header can carry is refused without being shown', async (t) => {
  const file = join(t.testdir({ key: 'hr_one\nhr_two\n' }), 'key');
  const { exit, stderr, stdout } = await runCli(t, ['mcp', '--url', 'http://127.0.0.1:9', '--key-file', file]);
  t.equal(exit.code, 1);
  t.match(stderr, /the key in .* has blanks, line ends/);
  t.notMatch(`${stdout}${stderr}`, 'hr_one');
});

t.test('what cannot work is said in a sentence, on standard error', async (t) => {
  for (const [args, sentence] of [
    [[], /one of --config and --url is needed/],
    [['--url', 'ftp://example.com'], /--url must be an http or https URL/],
    [['--url', 'http://a', '--config', 'b'], /one of --config and --url is needed/],
    [['--url', 'http://a', '--key-file', '/nowhere/key'], /\/nowhere\/key cannot be read/],
    [['--config', 'b', '--key-file', 'c'], /--key-file belongs to --url/],
  ] as const) {
    const { exit, stderr, stdout } = await runCli(t, ['mcp', ...args]);
    t.equal(exit.code, 1);
    t.match(stderr, sentence);
    t.equal(stdout, '');
  }
});
