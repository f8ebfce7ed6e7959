// Command-line flags of the benchmarks: types, defaults, quick values and errors.
import { execFileSync, spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import t from 'tap';
import { benchModule } from './modules.ts';

type Value = boolean | number | string | readonly number[] | readonly string[];

interface Row {
  readonly type: string;
  readonly default: Value;
  readonly quick?: Value;
  readonly multiple?: boolean;
  readonly least?: number;
  readonly help: string;
}

type FlagTable = Readonly<Record<string, Row>>;

interface Flags {
  readonly parseFlags: (
    tables: Readonly<Record<string, FlagTable>>,
    argv: readonly string[],
    quick?: boolean,
  ) => { values: Record<string, Record<string, Value>>; positionals: string[]; help: boolean };
  readonly flagLines: (table: FlagTable) => string;
  readonly readBaseUrl: (text: string) => { name: string; host: string; port: number; path: string };
}

const { flagLines, parseFlags, readBaseUrl } = await benchModule<Flags>('lib/flags.mjs');

const TABLES: Readonly<Record<string, FlagTable>> = {
  proxy: {
    rounds: { type: 'number', default: 5, quick: 1, least: 1, help: 'rounds' },
    connections: { type: 'numbers', default: [64], help: 'connections' },
    warmUp: { type: 'number', default: 0.7, help: 'seconds' },
    peers: { type: 'words', default: ['nginx'], help: 'peers' },
    profile: { type: 'boolean', default: false, help: 'profile' },
    baseUrl: { type: 'word', multiple: true, default: [], help: 'more peers' },
  },
  search: { connections: { type: 'number', default: 128, help: 'connections' } },
};

t.test('a part takes its own default for a flag that is not given', async (t) => {
  const { values, positionals, help } = parseFlags(TABLES, ['proxy']);
  t.match(values, { proxy: { rounds: 5, connections: [64], profile: false }, search: { connections: 128 } });
  t.strictSame(positionals, ['proxy']);
  t.equal(help, false);
});

t.test('one flag applies to every part, with the type of each part', async (t) => {
  const { values } = parseFlags(TABLES, ['--connections', '16,32']);
  t.strictSame(values['proxy']?.['connections'], [16, 32]);
  t.equal(values['search']?.['connections'], 16);
});

t.test('flags are spelled with hyphens', async (t) => {
  t.equal(parseFlags(TABLES, ['--warm-up', '2']).values['proxy']?.['warmUp'], 2);
  t.throws(() => parseFlags(TABLES, ['--warmUp', '2']), /--warmUp/);
  t.match(flagLines(TABLES['proxy'] ?? {}), /--warm-up +seconds \(0\.7\)/);
});

t.test('a quick run changes what has a quick value and was not given', async (t) => {
  t.match(parseFlags(TABLES, [], true).values, { proxy: { rounds: 1, warmUp: 0.7 } });
  t.match(parseFlags(TABLES, ['--rounds', '3'], true).values, { proxy: { rounds: 3 } });
});

t.test('an invalid number and an unknown flag are named in the error', async (t) => {
  t.throws(() => parseFlags(TABLES, ['--warm-up', 'many']), /--warm-up takes a number, not "many"/);
  t.throws(() => parseFlags(TABLES, ['--rounds', '0']), /--rounds takes a number of 1 or more, not "0"/);
  t.throws(() => parseFlags(TABLES, ['--connections', '-1']));
  t.throws(() => parseFlags(TABLES, ['--round', '3']), /--round/);
});

t.test('--base-url may be given several times', async (t) => {
  const { values } = parseFlags(TABLES, ['--base-url', 'a=http://h/v1', '--base-url', 'b=http://h/v1']);
  t.strictSame(values['proxy']?.['baseUrl'], ['a=http://h/v1', 'b=http://h/v1']);
});

t.test('a base URL has a name, a port and the path where the API begins', async (t) => {
  const expected = { name: 'litellm', host: '127.0.0.1', port: 4000, path: '/v1' };
  t.strictSame(readBaseUrl('litellm=http://127.0.0.1:4000/v1'), expected);
  t.strictSame(readBaseUrl('litellm=http://127.0.0.1:4000/v1/'), expected);
  t.match(readBaseUrl('b=http://localhost'), { port: 80, path: '' });
});

t.test('a base URL without a name or a plain http address is refused', async (t) => {
  for (const text of ['http://127.0.0.1:4000', '=http://h/v1', 'a b=http://h', 'a=h:1', 'a=https://h/v1']) {
    t.throws(() => readBaseUrl(text), /--base-url/, text);
  }
});

t.test('the help has the defaults and meanings of a part that differ from those of others', async (t) => {
  const command = fileURLToPath(new URL('../../../bench/run.mjs', import.meta.url));
  const help = execFileSync(process.execPath, [command, '--help'], { encoding: 'utf8' });
  const of = (part: string): string => new RegExp(`^${part}\n((?: .+\n)*)`, 'm').exec(help)?.[1] ?? '';
  t.match(of('memory'), /--rounds +rounds; every peer is started anew in each \(3\)/);
  t.match(of('overhead'), /--connections +connections at full load; .+ \(256\)/);
  t.match(of('upload'), /--rate-per-s +small requests per second \(1000\)/);
  t.match(of('search'), /--connections .+ \(128\)/);
  t.notMatch(of('upload'), '--rounds');
});

t.test('no part takes a peer that runs already and leaves it out', async (t) => {
  const command = fileURLToPath(new URL('../../../bench/run.mjs', import.meta.url));
  // Each peer is started anew for each figure of memory.
  const args = [command, 'memory', '--base-url', 'other=http://127.0.0.1:1/v1'];
  const { status, stderr } = spawnSync(process.execPath, args, { encoding: 'utf8', timeout: 20_000 });
  t.equal(status, 2);
  t.match(stderr, /Unknown option '--base-url'/);
});

t.test('a peer that runs already has a name of its own', async (t) => {
  const command = fileURLToPath(new URL('../../../bench/run.mjs', import.meta.url));
  const args = [command, 'proxy', '--base-url', 'nginx=http://127.0.0.1:1/v1'];
  const { status, stderr } = spawnSync(process.execPath, args, { encoding: 'utf8', timeout: 20_000 });
  t.equal(status, 2);
  t.match(stderr, /--base-url nginx: another peer has this name/);
});

t.test('no part runs without a round, whose figures would be 0', async (t) => {
  for (const part of ['proxy', 'fetch', 'memory', 'micro', 'locality', 'cluster']) {
    const { flags } = (await benchModule<{ part: { flags: FlagTable } }>(`load/${part}.mjs`)).part;
    t.throws(() => parseFlags({ [part]: flags }, ['--rounds', '0']), /--rounds takes a number of 1 or more/, part);
  }
});

t.test('a word that is given twice counts once, as two peers of one name would count as one', async (t) => {
  t.strictSame(parseFlags(TABLES, ['--peers', 'nginx,direct,nginx']).values['proxy']?.['peers'], ['nginx', 'direct']);
});
