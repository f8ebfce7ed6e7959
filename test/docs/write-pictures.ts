// `npm run docs:pictures`: writes docs/demo.svg and the pictures of the dashboard, docs/dashboard*.png, from a real run of the
// demo. Takes a quarter of an hour, for charts that show something. Needs curl and Chromium, and the ports 8080 and 9090 free.

import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { type BrowserContextOptions, chromium, type Page } from 'playwright-core';
import { ROOT } from './markdown.ts';
import { SAMPLE_PAGE } from './sample-page.ts';
import { smallPng } from './small-png.ts';
import { type Output, recordingSvg } from './terminal-recording.ts';

const ASK = "-H 'authorization: Bearer hr_demo' -H 'content-type: application/json'";
const COMMANDS = [
  `curl -sN localhost:8080/v1/chat/completions \\
    -H 'authorization: Bearer hr_demo' -H 'content-type: application/json' \\
    -d '{"model": "atlas-27b", "stream": true, "max_tokens": 12,
         "messages": [{"role": "user", "content": "Where does the water go?"}]}' | grep -o '"content":"[^"]*"'`,
  `curl -s localhost:8080/search \\
    -H 'authorization: Bearer hr_demo' -H 'content-type: application/json' \\
    -d '{"query": "fish ladder", "engines": ["engine_a", "engine_b"], "max_results": 1}'`,
  'npx headrace top --once',
];

const TERMINAL = { columns: 112, rows: 30 };
/** Pauses are cut to this length, so that nobody waits for a build. */
const LONGEST_PAUSE_MS = 3000;
/** How long there is a load before the pictures are taken: most of the shortest range of the charts. */
const LOAD_MS = 800_000;
/** Turns the buttons of the dashboard on. */
const TOKEN = 'sesame';

// Nothing of the caller's npm shows: what is recorded is what a new user sees.
const inherited = Object.entries(process.env).filter(([name]) => !/^npm_/i.test(name));
const env = {
  ...Object.fromEntries(inherited),
  npm_config_userconfig: '/dev/null',
  npm_config_update_notifier: 'false',
};

class Recording {
  readonly outputs: Output[] = [];
  #atMs = 0;
  #lastMs = performance.now();

  note(text: string, kind: Output['kind']): void {
    const nowMs = performance.now();
    this.#atMs += Math.min(nowMs - this.#lastMs, LONGEST_PAUSE_MS);
    this.#lastMs = nowMs;
    this.outputs.push({ atMs: Math.round(this.#atMs), text, kind });
  }
}

function start(command: string, onOutput: (text: string) => void): ChildProcess {
  const child = spawn('bash', ['-c', command], { cwd: ROOT, env, stdio: ['ignore', 'pipe', 'pipe'] });
  child.stdout.on('data', (piece: Buffer) => onOutput(piece.toString()));
  child.stderr.on('data', (piece: Buffer) => onOutput(piece.toString()));
  return child;
}

const ended = (child: ChildProcess): Promise<void> => new Promise((resolve) => child.once('close', () => resolve()));

async function adminAction(action: string, body: object): Promise<void> {
  const headers = { authorization: `Bearer ${TOKEN}` };
  await fetch(`http://127.0.0.1:9090/crns/${action}`, { method: 'POST', headers, body: JSON.stringify(body) });
}

const site = createServer((_request, response) => {
  response.writeHead(200, { 'content-type': 'text/html; charset=utf-8' }).end(SAMPLE_PAGE);
}).listen(0, '127.0.0.1');
await once(site, 'listening');
const { port } = site.address() as AddressInfo;
/** For the pictures of the dashboard alone. */
const FLAGS = `--adminToken ${TOKEN} --fetch.allow 127.0.0.1 --fetch.ports ${port}`;

const recording = new Recording();
recording.note('$ npm start\n', 'command');
let demo: ChildProcess | undefined;
await new Promise<void>((resolve, reject) => {
  let output = '';
  demo = start(`exec npm start -- ${FLAGS}`, (text) => {
    const shown = text.replaceAll(` ${FLAGS}`, '');
    recording.note(shown, 'output');
    output += shown;
    if (output.includes('Ctrl-C ends it.')) resolve();
  });
  demo.once('close', () => reject(new Error(`the demo ended:\n${output}`)));
});
for (const command of COMMANDS) {
  await new Promise((resolve) => setTimeout(resolve, LONGEST_PAUSE_MS));
  recording.note(`\n$ ${command}\n`, 'command');
  await ended(start(command, (text) => recording.note(text, 'output')));
}
writeFileSync(`${ROOT}docs/demo.svg`, recordingSvg(recording.outputs, TERMINAL));

const bench = (model: string, rate: number, turns: number, afterS: number, forMs: number): string =>
  `sleep ${afterS}; HEADRACE_API_KEY=hr_demo node bin/headrace.js bench http://127.0.0.1:8080 --model ${model} --rate ${rate} --turns ${turns} --duration ${forMs}ms`;
const load = [
  bench('atlas-27b', 2, 4, 0, LOAD_MS),
  bench('finch-3b', 1, 1, 0, LOAD_MS),
  // More load in the middle and towards the end, so that the charts have a shape.
  bench('atlas-27b', 2, 4, 200, LOAD_MS / 4),
  bench('finch-3b', 3, 2, 420, LOAD_MS / 3),
  `for i in $(seq 40); do sleep 15; curl -s localhost:8080/search ${ASK} -d '{"query": "turbine '$i'", "engines": ["engine_a", "engine_b", "engine_c", "engine_d"]}'; done`,
  `sleep 600; curl -s localhost:8080/v1/chat/completions ${ASK} -d '{"model": "heron-9b", "messages": []}'`,
].map((command) => ended(start(command, () => {})));
const sleep = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));
await sleep(LOAD_MS - 100_000);
const status = (await (await fetch('http://127.0.0.1:9090/status')).json()) as { crns: { url: string }[] };
await adminAction('drain', { url: status.crns[3]?.url });
await sleep(15_000);

/** Asks twice in the playground. */
async function chat(page: Page): Promise<void> {
  await page.getByLabel('API key').fill('hr_demo');
  for (const [asked, question] of ['Where does the water go?', 'And where does it come from?'].entries()) {
    await page.getByPlaceholder(/^Message/).fill(question);
    await page.getByRole('button', { name: 'Send' }).click();
    await page.getByText('Ended by').nth(asked).waitFor();
  }
}

/** Searches as an operator. */
async function search(page: Page): Promise<void> {
  await page.getByRole('button', { name: 'Operator' }).waitFor();
  await page.getByRole('button', { name: 'Search', exact: true }).click();
  await page.locator('.merged summary').first().click();
}

/** Fetches as an operator. */
async function fetchPage(page: Page): Promise<void> {
  await page.getByRole('button', { name: 'Operator' }).waitFor();
  await page.getByRole('button', { name: 'Fetch', exact: true }).click();
  const block = page.locator('.blocks li.kept button').nth(2);
  await block.click();
  await page.locator('.page-map').evaluate('(map) => map.scrollIntoView()');
}

const browser = await chromium.launch({ executablePath: '/usr/bin/chromium', chromiumSandbox: false });
/** Pictures of views by the name of the file, and what is done before one is taken. */
const pictures: readonly (readonly [
  name: string,
  hash: string,
  options: BrowserContextOptions,
  prepare?: (page: Page) => Promise<void>,
])[] = [
  ['dashboard', '', { viewport: { width: 1280, height: 800 }, colorScheme: 'light' }],
  ['dashboard-dark', '', { viewport: { width: 1280, height: 620 }, colorScheme: 'dark' }],
  ['dashboard-crns', '#/crns', { viewport: { width: 1280, height: 460 }, colorScheme: 'light' }],
  ['dashboard-requests', '#/requests', { viewport: { width: 1280, height: 800 }, colorScheme: 'light' }],
  ['dashboard-playground', '#/playground', { viewport: { width: 1280, height: 700 }, colorScheme: 'light' }, chat],
  [
    'dashboard-search',
    '#/playground/search?q=fish+ladder&count=6',
    { viewport: { width: 1280, height: 760 }, colorScheme: 'light' },
    search,
  ],
  [
    'dashboard-fetch',
    `#/playground/fetch?url=${encodeURIComponent(`http://127.0.0.1:${port}/weir`)}`,
    { viewport: { width: 1280, height: 960 }, colorScheme: 'light' },
    fetchPage,
  ],
  ['dashboard-phone', '', { viewport: { width: 360, height: 740 }, colorScheme: 'dark' }],
];
await Promise.all(
  pictures.map(async ([name, hash, options, prepare]) => {
    const page = await browser.newPage(options);
    await page.addInitScript(`sessionStorage.setItem('headrace-admin-token', '${TOKEN}')`);
    await page.goto(`http://127.0.0.1:9090/${hash}`);
    await prepare?.(page);
    // Small lines beside figures begin when the page opens.
    await sleep(25_000);
    writeFileSync(`${ROOT}docs/${name}.png`, smallPng(await page.screenshot()));
  }),
);
await browser.close();
await Promise.all(load);
demo?.kill('SIGINT');
site.close();
