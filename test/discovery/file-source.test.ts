// The source that watches a discovery map in a file.
import t, { type Test } from 'tap';
import { execFileSync } from 'node:child_process';
import { mkdirSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { fileSource } from '../../src/discovery/file-source.ts';
import { SourceRun } from '../support/discovery-source.ts';

const QUICK = { debounceMs: 5, pollMs: 20 };

function start(t: Test, path: string, apiKey?: string): SourceRun {
  const settings = { path, ...(apiKey !== undefined && { apiKey }) };
  return new SourceRun(t, (system, deps) => void system.spawn(fileSource(settings, deps, QUICK)));
}

const mapOf = (...servers: readonly string[]): string => JSON.stringify({ m: { servers } });

t.test('YAML and JSON have the form of discovery maps', async (t) => {
  const yaml =
    'm:\n  aliases: [gpt-5]\n  dialects: [chat]\n  servers:\n    - http://one\n    - { url: http://two, weight: 2 }\n';
  const folder = t.testdir({ 'servers.yaml': yaml, 'servers.json': mapOf('http://one') });
  const run = start(t, `${folder}/servers.yaml`, 'key');
  t.same(await run.next(), ['m http://one', 'm http://two']);
  t.same(run.models.get('m'), {
    aliases: ['gpt-5'],
    servers: [
      { url: 'http://one', dialects: ['chat'], apiKey: 'key' },
      { url: 'http://two', dialects: ['chat'], weight: 2, apiKey: 'key' },
    ],
  });
  t.same(await start(t, `${folder}/servers.json`).next(), ['m http://one']);
});

t.test('a change is noticed however the file is replaced', async (t) => {
  const folder = t.testdir({ 'servers.yaml': mapOf('http://one') });
  const path = `${folder}/servers.yaml`;
  const run = start(t, path);
  await run.reach(['m http://one']);
  writeFileSync(path, mapOf('http://two'));
  await run.reach(['m http://two']);
  writeFileSync(`${path}.tmp`, mapOf('http://three'));
  renameSync(`${path}.tmp`, path);
  await run.reach(['m http://three']);
  rmSync(path);
  await run.reach(/ENOENT/);
  t.same(run.urls, ['m http://three'], 'a file that is gone keeps the last answer');
  writeFileSync(path, mapOf('http://four'));
  await run.reach(['m http://four']);
});

t.test('a mounted ConfigMap is replaced by another link', async (t) => {
  const folder = t.testdir({ one: { 'servers.yaml': mapOf('http://one') } });
  symlinkSync('one', `${folder}/..data`);
  symlinkSync('..data/servers.yaml', `${folder}/servers.yaml`);
  const run = start(t, `${folder}/servers.yaml`);
  await run.reach(['m http://one']);
  mkdirSync(`${folder}/two`);
  writeFileSync(`${folder}/two/servers.yaml`, mapOf('http://two'));
  symlinkSync('two', `${folder}/..data_tmp`);
  renameSync(`${folder}/..data_tmp`, `${folder}/..data`);
  await run.reach(['m http://two']);
});

t.test('a broken file keeps the last answer, and its text is not repeated', async (t) => {
  const folder = t.testdir({ 'servers.yaml': mapOf('http://one'), 'servers.json': mapOf('http://one') });
  const run = start(t, `${folder}/servers.yaml`);
  await run.reach(['m http://one']);
  const broken = [
    ['m: [sesame', /\/servers\.yaml:1:11 .*a bracket before it is not closed$/],
    ['m: {}\nm: {}', /\/servers\.yaml:2:1 repeats a name/],
    ['- sesame', /^is not a discovery map/],
    ['m: { servers: sesame }', /^has no list of servers for model m$/],
    [' \n', /^is empty; write \{\} for no servers$/],
    [`# ${'x'.repeat(1024 * 1024)}`, /^is larger than 1MiB$/],
  ] as const;
  for (const [text, problem] of broken) {
    writeFileSync(`${folder}/servers.yaml`, text);
    await run.reach(problem);
    t.same(run.urls, ['m http://one']);
  }
  writeFileSync(`${folder}/servers.yaml`, '{}');
  await run.reach([]);
  const json = start(t, `${folder}/servers.json`);
  await json.reach(['m http://one']);
  writeFileSync(`${folder}/servers.json`, 'm: {}');
  await json.reach(/\/servers\.json:1:1 is not valid JSON here$/);
});

t.test('a link to a device or a pipe is a failure: neither has an end', async (t) => {
  const folder = t.testdir({ 'servers.yaml': mapOf('http://one') });
  const path = `${folder}/servers.yaml`;
  const run = start(t, path);
  await run.reach(['m http://one']);
  execFileSync('mkfifo', [`${folder}/pipe`]);
  for (const target of ['/dev/zero', `${folder}/pipe`]) {
    symlinkSync(target, `${path}.tmp`);
    renameSync(`${path}.tmp`, path);
    await run.reach(/^is no regular file$/);
    writeFileSync(`${path}.tmp`, mapOf('http://one'));
    renameSync(`${path}.tmp`, path);
    await run.reach(['m http://one']);
  }
});

t.test('a file that is missing at the start is a failure until it is there', async (t) => {
  const folder = t.testdir({});
  const run = start(t, `${folder}/servers.yaml`);
  await run.reach(/ENOENT/);
  writeFileSync(`${folder}/servers.yaml`, mapOf('http://one'));
  await run.reach(['m http://one']);
});
