import t from 'tap';
import { runCli } from '../support/cli.ts';

const GOOD = `
models:
  atlas-27b: { servers: ["http://10.0.0.1:9001", "http://10.0.0.2:9001"] }
keys: { static: [{ key: "\${HEADRACE_API_KEY}", account: demo }] }
timeouts: { connect: 5s }
`;
const BAD = `
models:
  atlas-27b: { servers: ["10.0.0.1:9001"] }
timeouts: { connect: soon }
thread: 2
`;

t.test('a good file is explained, without its keys, and exits 0', async (t) => {
  const folder = t.testdir({ 'headrace.yaml': GOOD });
  const cli = await runCli(t, ['check', '--config', `${folder}/headrace.yaml`], {
    env: { HEADRACE_API_KEY: 'hr_secret' },
  });
  t.strictSame(cli.exit, { code: 0, signal: null });
  t.match(cli.stdout, /atlas-27b\s+http:\/\/10\.0\.0\.1:9001, http:\/\/10\.0\.0\.2:9001/);
  t.match(cli.stdout, /timeouts\.connect\s+5s \(default 3s\)/);
  t.notMatch(cli.stdout, /hr_secret/);
  t.equal(cli.stderr, '');
});

t.test('flags and environment count as they would for serve', async (t) => {
  const folder = t.testdir({ 'headrace.yaml': GOOD });
  const cli = await runCli(t, ['check', '-c', `${folder}/headrace.yaml`, '--health.interval', '7s'], {
    env: { HEADRACE_API_KEY: 'hr_secret', HEADRACE_THREADS: '3' },
  });
  t.match(cli.stdout, /threads\s+3, HTTP server auto/);
  t.match(cli.stdout, /every 7s/);
});

t.test('a bad file: every mistake by its path, exit 1', async (t) => {
  const folder = t.testdir({ 'headrace.yaml': BAD });
  const cli = await runCli(t, ['check', '--config', `${folder}/headrace.yaml`]);
  t.strictSame(cli.exit, { code: 1, signal: null });
  t.match(cli.stdout, /headrace\.yaml: 3 mistakes\n/);
  for (const path of ['models.atlas-27b.servers[0]', 'timeouts.connect', 'thread']) {
    t.ok(cli.stdout.includes(`  ${path}: `), path);
  }
});

t.test(
  'mistakes of engines are told beside those of settings, by files from the folder of the configuration',
  async (t) => {
    const engines = `search:
  engines:
    engine_a: { kind: module, path: own.mjs }
    engine_b: { kind: brave }
    engine_c: { kind: module, path: none.mjs }
`;
    const own =
      "export const createEngine = () => ({ kind: 'own', documentation: '', types: ['web'], search: () => [] });";
    const folder = t.testdir({
      'own.mjs': own,
      'headrace.yaml': BAD + engines,
      'conflict.yaml': `servicePrefix: v1\n${engines}`,
    });
    for (const [file, count] of [
      ['headrace.yaml', 5],
      ['conflict.yaml', 3],
    ] as const) {
      const cli = await runCli(t, ['check', '--config', `${folder}/${file}`]);
      t.match(cli.stdout, `${file}: ${count} mistakes\n`);
      t.match(cli.stdout, /^ {2}search\.engines\.engine_b: .*apiKey/m);
      t.match(cli.stdout, /^ {2}search\.engines\.engine_c: path \S+none\.mjs does not exist$/m);
    }
  },
);

t.test('a file that is not there or no YAML: exit 1', async (t) => {
  const folder = t.testdir({ 'headrace.yaml': 'models: [' });
  const missing = await runCli(t, ['check', '--config', `${folder}/none.yaml`]);
  t.equal(missing.exit.code, 1);
  t.match(missing.stdout, /none\.yaml: 1 mistake\n.*does not exist/);
  const broken = await runCli(t, ['check', '--config', `${folder}/headrace.yaml`]);
  t.equal(broken.exit.code, 1);
  t.match(broken.stdout, /headrace\.yaml:\d+:\d+: /);
});
