// Entry of a thread that loads the module of one search engine and checks it, its options and the engine it makes. Posts the result
// and marks it as posted, since the thread that waits for it is blocked.

import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { pathToFileURL } from 'node:url';
import { workerData } from 'node:worker_threads';
import { readOptions } from '../src/search/engines/module-options.ts';
import {
  type CheckedModule,
  exportsOf,
  type ModuleCheck,
  type ModuleCheckData,
  readDeclared,
} from '../src/search/engines/module.ts';
import { EngineError } from '../src/search/engine.ts';

class Mistake extends Error {}

const { done, options, path, port } = workerData as ModuleCheckData;

// Also when the module ends its thread: nobody must wait for it.
process.on('exit', mark);
port.postMessage(await check());
mark();

function mark(): void {
  Atomics.store(done, 0, 1);
  Atomics.notify(done, 0);
}

async function check(): Promise<ModuleCheck> {
  try {
    const revision = createHash('sha256').update(readFileSync(path)).digest('hex').slice(0, 16);
    return { checked: { path, revision, ...(await describe()) } };
  } catch (error) {
    return { mistake: `path ${path} ${sentenceOf(error)}` };
  }
}

async function describe(): Promise<Omit<CheckedModule, 'path' | 'revision'>> {
  const module = exportsIn((await load()) as Readonly<Record<string, unknown>>);
  const read = readOptions(module.options, options ?? {});
  let engine: Readonly<Record<string, unknown>>;
  try {
    engine = module.createEngine(read, { EngineError }) as unknown as Readonly<Record<string, unknown>>;
  } catch (error) {
    throw new Mistake(`refuses its options: ${firstLine(error)}`);
  }
  const { documentation, kind } = engine ?? {};
  const isHttp = typeof engine?.['request'] === 'function' && typeof engine['parse'] === 'function';
  if (!isHttp && typeof engine?.['search'] !== 'function')
    throw new Mistake('makes no engine: createEngine must return an object with request and parse, or with search');
  if (typeof kind !== 'string' || kind === '') throw new Mistake('makes an engine whose kind is no name');
  const declared = readDeclared(engine);
  if (typeof declared === 'string') throw new Mistake(`makes an engine whose ${declared}`);
  return {
    options: read,
    kind,
    documentation: typeof documentation === 'string' ? documentation : '',
    ...declared,
    isHttp,
  };
}

async function load(): Promise<unknown> {
  try {
    return await import(pathToFileURL(path).href);
  } catch (error) {
    throw new Mistake(`cannot be loaded: ${firstLine(error)}${lineOf(error)}`);
  }
}

function exportsIn(module: Readonly<Record<string, unknown>>): ReturnType<typeof exportsOf> {
  try {
    return exportsOf(module);
  } catch (error) {
    throw new Mistake(firstLine(error));
  }
}

function sentenceOf(error: unknown): string {
  const { code } = error as NodeJS.ErrnoException;
  if (code === 'ENOENT') return 'does not exist';
  if (code === 'EISDIR') return 'is a folder';
  return error instanceof Mistake ? error.message : firstLine(error);
}

function firstLine(error: unknown): string {
  const text = error instanceof Error ? error.message : String(error);
  return (text.split('\n', 1)[0] ?? '').trim() || 'for no reason given';
}

/** Where a syntax error is: nothing in the error says so, but the compiler prints it. */
function lineOf(error: unknown): string {
  if (!(error instanceof SyntaxError)) return '';
  const { stderr } = spawnSync(process.execPath, ['--check', path], { timeout: 2000, encoding: 'utf8' });
  const line = /^\S.*:(\d+)$/m.exec(stderr)?.[1];
  return line === undefined ? '' : ` (line ${line})`;
}
