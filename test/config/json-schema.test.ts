import { readFileSync } from 'node:fs';
import t from 'tap';
import { Ajv } from 'ajv';
import * as fc from 'fast-check';
import { parse } from 'yaml';
import { settingsJsonSchema } from '../../src/config/json-schema.ts';
import { loadConfigText, resolveSettings } from '../../src/config/load.ts';
import { SETTINGS } from '../../src/config/settings.ts';
import { EXAMPLE_ENV, EXAMPLE_YAML } from './example.ts';
import { TYPED_FILES } from './files.ts';

const root = new URL('../../../', import.meta.url);
const schema = JSON.parse(settingsJsonSchema()) as JsonSchema;
const accepts = new Ajv({ allowUnionTypes: true, strictTypes: false }).compile(schema);

interface JsonSchema {
  readonly properties?: Readonly<Record<string, JsonSchema>>;
  readonly description?: string;
  readonly default?: unknown;
}

t.test('headrace.schema.json is that of the settings', async (t) => {
  t.equal(readFileSync(new URL('headrace.schema.json', root), 'utf8'), settingsJsonSchema(), 'npm run docs writes it');
  const { files } = JSON.parse(readFileSync(new URL('package.json', root), 'utf8')) as { files: string[] };
  t.ok(files.includes('headrace.schema.json'), 'it is part of the package');
});

t.test('every setting has its description and its default', async (t) => {
  for (const { path, setting } of SETTINGS) {
    const found = path.split('.').reduce<JsonSchema | undefined>((at, name) => at?.properties?.[name], schema);
    t.equal(found?.description, setting.sentence, path);
    t.same(found?.default, setting.fallback, path);
  }
});

t.test('the example configuration names the schema in its first line, and both accept it', async (t) => {
  const file = new URL('ops/headrace.example.yaml', root);
  const text = readFileSync(file, 'utf8');
  const [, path] = /^# yaml-language-server: \$schema=(\S+)\n/.exec(text) ?? [];
  t.equal(new URL(path ?? '', file).href, new URL('headrace.schema.json', root).href);
  t.ok(accepts(parse(text)), JSON.stringify(accepts.errors));
  t.match(loadConfigText(text, 'headrace.example.yaml', { HEADRACE_API_KEY: 'k', BRAVE_API_KEY: 'b' }), {
    settings: { models: { 'atlas-27b': { capabilities: ['chat', 'tools'] } } },
  });
});

t.test('what the gateway accepts, the schema accepts', async (t) => {
  t.ok(accepts(parse(EXAMPLE_YAML)), JSON.stringify(accepts.errors));
  t.ok('settings' in loadConfigText(EXAMPLE_YAML, 'x.yaml', EXAMPLE_ENV));
  let resolved = 0;
  fc.assert(
    fc.property(TYPED_FILES, (file) => {
      if ('mistakes' in resolveSettings(file)) return true;
      resolved += 1;
      return accepts(file);
    }),
    { numRuns: 500 },
  );
  t.ok(resolved > 10, `${resolved} of 500 were right`);
});

t.test('what may be written with a unit, as text, from the environment or left empty is accepted', async (t) => {
  for (const good of [
    {},
    null,
    { models: null, keys: { static: null }, health: null, payments: null },
    { threads: 'auto' },
    { threads: '${THREADS}', sharePort: '${SHARE}', server: '${SERVER}', listen: '${HOST}:${PORT}' },
    { listen: 8080, admin: null, timeouts: { idle: '1.5m', connect: '500ms' }, limits: { bodyBytes: '64 KiB' } },
    { models: { m: { servers: ['http://a', { url: '${GPU}' }, { url: 'http://b', events: null }] } } },
    { models: { m: { servers: [{ url: 'http://a', events: 'tcp://a:5557' }] } } },
    {
      models: {
        m: { servers: [{ url: 'http://a', events: { endpoint: 'tcp://a:1', replay: 'tcp://a:2', topic: 'kv' } }] },
      },
    },
    { fetch: { price: 0.5 }, routing: { stickiness: '1.5', affinity: 'false' } },
  ]) {
    t.ok(accepts(good), JSON.stringify(good));
  }
});

t.test('a file may name its schema, as JSON does it for editors', async (t) => {
  const file = { $schema: './node_modules/headrace/headrace.schema.json', threads: 2 };
  t.ok(accepts(file), JSON.stringify(accepts.errors));
  t.match(loadConfigText(JSON.stringify(file), 'x.json'), { settings: { threads: 2 }, sources: { threads: 'file' } });
  for (const wrong of [{ $schema: 1 }, { health: { $schema: 'x' } }]) {
    t.notOk(accepts(wrong));
    t.match(loadConfigText(JSON.stringify(wrong), 'x.json'), { mistakes: [{ message: 'is unknown' }] });
  }
});

t.test('what is surely wrong is refused', async (t) => {
  for (const bad of [
    [],
    { lisen: 1 },
    { listen: 'nowhere' },
    { threads: 'some' },
    { threads: -1 },
    { server: 'apache' },
    { timeouts: { idle: 'soon' } },
    { timeouts: { idle: 0 } },
    { limits: { headerBytes: 10 } },
    { limits: { bodyBytes: '1 pile' } },
    { routing: { retryBudget: 2 } },
    { models: { m: { servers: ['gpu1:1'] } } },
    { models: { m: { servers: [7] } } },
    { models: { m: { servers: [{ events: 'tcp://a:5557' }] } } },
    { models: { m: { servers: [{ url: 'http://a', weights: 1 }] } } },
    { models: { m: { servers: [{ url: 'http://a', events: 'http://a:5557' }] } } },
    { models: { m: { servers: [{ url: 'http://a', events: { replay: 'tcp://a:5558' } }] } } },
    { models: { m: { servers: [{ url: 'http://a', dialects: 'chat' }] } } },
    { models: { m: { servers: [{ url: 'http://a', weight: 'heavy' }] } } },
    { models: { m: { dialects: ['sonnet'] } } },
    { models: { m: { dialects: [] } } },
    { models: { m: { aliases: 'gpt-5' } } },
    { models: { m: { pricing: { prompt: '1' } } } },
    { keys: { static: [{ key: 'k' }] } },
    { keys: { static: [{ key: 'a b', account: 'a' }] } },
  ]) {
    t.notOk(accepts(bad), JSON.stringify(bad));
    t.ok('mistakes' in resolveSettings(bad), JSON.stringify(bad));
  }
});
