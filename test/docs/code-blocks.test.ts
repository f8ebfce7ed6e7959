// Runs the code blocks of the README and of docs/: `sh` and `ts` blocks are run, `yaml` blocks are validated, `json` blocks are
// parsed and compared with the output of the `sh` block before them. A block that cannot be run here says so in an HTML
// comment above it: `<!-- not run: REASON -->`. Documented addresses are mapped to servers that this test starts.

import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { generateKeyPairSync } from 'node:crypto';
import { chmodSync, mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { promisify } from 'node:util';
import t, { type Test } from 'tap';
import { parse } from 'yaml';
import { loadConfigText } from '../../src/config/load.ts';
import { withEnginesChecked } from '../../src/gateway/engine-settings.ts';
import { planFleet } from '../../src/host/fleet.ts';
import { parseScript } from '../../src/host/script.ts';
import { createGateway } from '../../src/index.ts';
import { configureEngines } from '../../src/search/index.ts';
import { createHost } from '../../src/testkit.ts';
import { COMPILE_CACHE } from '../support/compile-cache.ts';
import { site } from '../support/site.ts';
import { within } from '../support/system.ts';
import { type CodeBlock, codeBlocks, PAGES, ROOT } from './markdown.ts';

const run = promisify(execFile);

const ADMIN_TOKEN = 'sesame';

/** Goes before the name of a TypeScript example, ahead of its output. */
const MARK = '=== ';

/** Environment variables that the documentation names. */
const ENV: Readonly<Record<string, string>> = {
  PATH: process.env['PATH'] ?? '',
  HEADRACE_API_KEY: 'hr_demo',
  SECOND_KEY: 'second',
  HEADRACE_ADMIN_TOKEN: ADMIN_TOKEN,
  BRAVE_API_KEY: 'brave',
  COLLECTOR_TOKEN: 'collector',
  FACILITATOR_KEY: 'facilitator',
  TRUST_TOKEN: 'trust',
  WORKER_SECRET: 'secret',
  ...COMPILE_CACHE,
  SIGNING_KEY: String(generateKeyPairSync('ed25519').privateKey.export({ type: 'pkcs8', format: 'pem' })),
};

/** Pages that are followed from their beginning: they set the variables of their configuration themselves. */
const FIRST_PAGES: ReadonlySet<string> = new Set(['README.md', 'docs/getting-started.md']);

/** Flags for machines that are busy with other tests. */
const PATIENCE = '--fetch.timeout 1m --fetch.cleanTimeout 1m';

/** Documented address to the address of the server that answers here. */
type Addresses = ReadonlyMap<string, string>;

const ARTICLE = `<!doctype html><html lang="en"><title>Weirs | The Millrace</title><nav><a href="/">Home</a></nav>
  <main><h1>Weirs</h1><p>A weir is a low wall across a <a href="/river">river</a>. It raises the water, so that a
  part of it turns into the headrace and on to the wheel.</p></main></html>`;

const ITEMS = [{ name: 'Weirs', link: 'https://millrace.example/weirs', about: 'A low wall across a river.' }];

/** Starts a gateway, a model host and a web site, and maps the documented addresses to them. */
async function startServers(t: Test): Promise<{ addresses: Addresses; asked: readonly string[] }> {
  const pages = await site(t, {
    '/': (_, response) => response.writeHead(200, { 'content-type': 'text/html' }).end(ARTICLE),
    '/article': (_, response) => response.writeHead(200, { 'content-type': 'text/html' }).end(ARTICLE),
    '/find': (_, response) => response.writeHead(200).end(JSON.stringify({ items: ITEMS })),
  });
  const hosts = [0, 1].map(() => createHost({ models: ['atlas-27b'], timeToFirstTokenMs: 0, interTokenMs: 0 }));
  t.teardown(() => Promise.all(hosts.map((host) => host.kill())));
  const servers = await Promise.all(hosts.map((host) => host.listen()));
  const documents = { path: `${ROOT}demo/documents`, baseUrl: 'https://millrace.example/' };
  const gateway = createGateway({
    listen: '127.0.0.1:0',
    admin: '127.0.0.1:0',
    adminToken: ADMIN_TOKEN,
    store: 'sqlite::memory:',
    models: { 'atlas-27b': { servers, pricing: { prompt: '0.25', completion: '1.50' } } },
    keys: { static: [{ key: 'hr_demo', account: 'demo' }] },
    search: { engines: { engine_a: { kind: 'local', ...documents }, engine_b: { kind: 'local', ...documents } } },
    fetch: { allow: ['127.0.0.1'], ports: [pages.port], cleaners: 1, timeout: '1m', cleanTimeout: '1m' },
    log: { level: 'silent' },
  });
  t.teardown(() => gateway.close());
  const { url, adminUrl } = await gateway.listen();
  await gateway.ready();
  const host = (address: string | null | undefined): string => new URL(address ?? '').host;
  return {
    addresses: new Map([
      ['127.0.0.1:8080', host(url)],
      ['127.0.0.1:9090', host(adminUrl)],
      ['127.0.0.1:9001', host(servers[0])],
      ['127.0.0.1:9300', host(pages.origin)],
      ['https://example.com', pages.origin],
    ]),
    asked: pages.asked,
  };
}

function mapAddresses(text: string, addresses: Addresses): string {
  return text.replace(/127\.0\.0\.1:\d+|https:\/\/example\.com/g, (address) => addresses.get(address) ?? address);
}

const isRun = ({ comment }: CodeBlock): boolean => comment?.startsWith('not run:') !== true;
const placeOf = ({ page, line }: CodeBlock): string => `${page}:${line}`;

/** A folder with the command `headrace`, settings for curl, and room for the files of a page. */
function workFolder(t: Test, addresses: Addresses): string {
  const folder = t.testdir({ '.curlrc': 'silent\nshow-error\nfail-with-body\nmax-time = 60\n', bin: {} });
  const command = `${folder}/bin/headrace`;
  const start = `exec "${process.execPath}" "${ROOT}bin/headrace.js" "$@"`;
  // The public pages of the documentation are on loopback here.
  const { port } = new URL(addresses.get('https://example.com') ?? '');
  const fetching = `if [ "$1" = fetch ]; then set -- "$@" --fetch.allow 127.0.0.1 --fetch.ports ${port} ${PATIENCE}; fi`;
  writeFileSync(command, `#!/bin/sh\n${fetching}\n${start}\n`);
  chmodSync(command, 0o755);
  return folder;
}

/** Name of the file that a YAML block stands for, from the comment above it or its first line. */
function fileOf({ comment, text }: CodeBlock): string | undefined {
  return /^file: ([\w.-]+)/.exec(comment ?? '')?.[1] ?? /^# ([\w-]+\.yaml)$/m.exec(text.split('\n', 1)[0] ?? '')?.[1];
}

/** The mistakes of a YAML block: a configuration unless its comment names something else. */
function mistakesOf({ comment, text }: CodeBlock): readonly unknown[] {
  if (comment?.endsWith('a fleet plan') === true) {
    planFleet(parse(text), '127.0.0.1');
    return [];
  }
  if (comment?.endsWith('a script') === true) {
    parseScript(parse(text));
    return [];
  }
  const kind = /a search worker of kind (\w+)$/.exec(comment ?? '')?.[1];
  if (kind !== undefined) return configureEngines({ engine: { kind, ...(parse(text) as object) } }, () => 0).mistakes;
  const resolution = withEnginesChecked(loadConfigText(text, 'block.yaml', ENV));
  return 'mistakes' in resolution ? resolution.mistakes : [];
}

/** Whether `actual` has every member of `documented`, with values of the same types. */
function differences(documented: unknown, actual: unknown, at = '$'): string[] {
  if (Array.isArray(documented)) {
    if (!Array.isArray(actual)) return [`${at} is no array`];
    if (documented.length === 0) return [];
    return actual.length === 0 ? [`${at} is empty`] : differences(documented[0], actual[0], `${at}[0]`);
  }
  if (typeof documented === 'object' && documented !== null) {
    if (typeof actual !== 'object' || actual === null) return [`${at} is no object`];
    return Object.entries(documented).flatMap(([name, value]) =>
      name in actual
        ? differences(value, (actual as Record<string, unknown>)[name], `${at}.${name}`)
        : [`no ${at}.${name}`],
    );
  }
  return typeof documented === typeof actual ? [] : [`${at} is a ${typeof actual}`];
}

/** A command that serves until it is told to end. */
const SERVER = /^headrace (serve|host|search-worker)\b/;

/** Starts a documented server on a free port and waits for its ready line; maps its documented address. */
async function startServer(t: Test, line: string, cwd: string): Promise<{ child: ChildProcess; addresses: Addresses }> {
  const documented = /--listen (\S+)/.exec(line)?.[1] ?? `127.0.0.1:${/--port (\d+)/.exec(line)?.[1] ?? '8080'}`;
  const command = line.replace(/(--listen \S+:)\d+/, '$10').replace(/(--port )\d+/, '$10');
  const child = spawn('sh', ['-c', `exec ${command}`], {
    cwd,
    env: {
      ...ENV,
      PATH: `${cwd}/bin:${ENV['PATH']}`,
      HEADRACE_LISTEN: '127.0.0.1:0',
      HEADRACE_ADMIN: '127.0.0.1:0',
      HEADRACE_STORE: 'sqlite::memory:',
      HEADRACE_THREADS: '1',
    },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  t.teardown(() => child.kill('SIGKILL'));
  const ready = new Promise<string>((resolve, reject) => {
    let output = '';
    const note = (piece: Buffer): void => {
      output += piece.toString();
      const url = /listening on (http:\S+)/.exec(output)?.[1];
      if (url !== undefined) resolve(url);
    };
    child.stdout.on('data', note);
    child.stderr.on('data', note);
    child.once('close', () => reject(new Error(`${line} ended:\n${output}`)));
  });
  const url = await within(line, ready);
  return { child, addresses: new Map([[documented, new URL(url).host]]) };
}

/** Runs the lines of a shell block; returns the standard output of those that end. */
async function runShell(t: Test, block: CodeBlock, cwd: string, addresses: Addresses): Promise<string> {
  const lines = block.text.replaceAll('\\\n', '').split('\n');
  const mapped = new Map(addresses);
  const servers: ChildProcess[] = [];
  for (const line of lines.filter((text) => SERVER.test(text))) {
    const server = await startServer(t, line, cwd);
    servers.push(server.child);
    for (const [documented, actual] of server.addresses) mapped.set(documented, actual);
  }
  const script = lines.filter((line) => !SERVER.test(line)).join('\n');
  const env = {
    ...ENV,
    PATH: `${cwd}/bin:${ENV['PATH']}`,
    HOME: cwd,
    CURL_HOME: cwd,
    ...(FIRST_PAGES.has(block.page) && { HEADRACE_API_KEY: undefined }),
  };
  const { stdout } = await run('sh', ['-eu', '-c', mapAddresses(script, mapped)], { cwd, env, timeout: 60_000 });
  for (const child of servers) {
    const ended = new Promise((resolve) => child.once('close', (code) => resolve(code)));
    child.kill('SIGTERM');
    t.equal(await within('the end of a server', ended), 0, 'SIGTERM ends the server with exit code 0');
  }
  return stdout;
}

t.test('code blocks', async (t) => {
  const { addresses, asked } = await startServers(t);
  t.jobs = 4;

  for (const page of PAGES) {
    t.test(page, async (t) => {
      const cwd = workFolder(t, addresses);
      let output = '';
      for (const block of codeBlocks(page)) {
        const place = placeOf(block);
        const shown = output;
        output = '';
        if (block.comment?.startsWith('not run:') === true) {
          t.match(block.comment, /^not run: \w+/, `${place} gives a reason`);
          continue;
        }
        switch (block.language) {
          case 'sh':
            output = await runShell(t, block, cwd, addresses);
            t.pass(`${place} runs`);
            break;
          case 'yaml': {
            const file = fileOf(block);
            if (file !== undefined) writeFileSync(`${cwd}/${file}`, block.text);
            t.strictSame(mistakesOf(block), [], `${place} has no mistakes`);
            break;
          }
          case 'json': {
            const documented: unknown = JSON.parse(block.text);
            if (shown !== '') t.strictSame(differences(documented, JSON.parse(shown)), [], `${place} is the output`);
            break;
          }
          case 'ts':
          case 'text':
            break;
          default:
            t.fail(`${place}: code blocks are sh, yaml, json, ts or text`);
        }
      }
    });
  }

  t.test('TypeScript examples', { timeout: 60_000 }, async (t) => {
    // Inside the package, so that its name resolves to it as it would in node_modules.
    const folder = `${ROOT}dist/docs-examples`;
    rmSync(folder, { recursive: true, force: true });
    mkdirSync(folder, { recursive: true });
    t.teardown(() => rmSync(folder, { recursive: true }));
    const blocks = PAGES.flatMap(codeBlocks).filter((block) => block.language === 'ts' && isRun(block));
    const fileOfExample = (block: CodeBlock): string => `${placeOf(block).replace(/\W/g, '-')}.ts`;
    for (const block of blocks) writeFileSync(`${folder}/${fileOfExample(block)}`, mapAddresses(block.text, addresses));
    writeFileSync(
      `${folder}/tsconfig.json`,
      JSON.stringify({
        extends: '../../tsconfig.json',
        // Types of the package come from its declarations, as for users.
        compilerOptions: {
          noEmit: true,
          rootDir: '.',
          outDir: './out',
          declaration: false,
          isolatedDeclarations: false,
        },
        include: ['*.ts', '../../test/support/*.d.ts'],
      }),
    );
    const checked = run(`${ROOT}node_modules/.bin/tsc`, ['-p', folder]).catch((error: { stdout: string }) => error);
    // One process for all: most of the time of each would be loading the package.
    const importAll = blocks.map(
      (block) => `console.log(${JSON.stringify(MARK + placeOf(block))});
      await import('./${fileOfExample(block)}');`,
    );
    writeFileSync(`${folder}/all.mjs`, importAll.join('\n'));
    const { stdout } = await run(process.execPath, [`${folder}/all.mjs`], { env: ENV, timeout: 60_000 });
    const outputs = new Map(
      stdout.split(MARK).map((text) => {
        const end = text.indexOf('\n');
        return [text.slice(0, end), text.slice(end + 1)] as const;
      }),
    );
    t.equal((await checked).stdout, '', 'types are right');

    const outputOf = (page: string, word: string): string =>
      outputs.get(placeOf(blocks.find((block) => block.page === page && block.text.includes(word)) as CodeBlock)) ?? '';
    t.match(outputOf('docs/embedding.md', 'gateway.listen()'), /^http:\/\/127\.0\.0\.1:\d+ 200 [^]*chat\.completion/);
    t.match(outputOf('README.md', 'createGateway'), 'chat.completion');
    t.match(outputOf('docs/agents.md', 'generateText'), /\w/);
    t.match(JSON.parse(outputOf('docs/search-engines.md', 'HttpEngine')), [
      { title: 'Weirs', url: 'https://millrace.example/weirs', found_in: ['catalogue'] },
    ]);
    t.ok(asked.includes('/find?q=weir&limit=10'), 'the engine was asked once, with the query');
    t.match(JSON.parse(outputOf('docs/fetch.md', 'headrace/clean')), {
      title: 'Weirs',
      content: 'A weir is a low wall across a [river](https://millrace.example/river).',
      wordCount: Number,
    });
    t.equal(outputOf('docs/embedding.md', "parseFault('status=500')").trim(), '503', 'a failing host is seen');
  });
});
