// What tests of models in this process share: a file to load, and running one completion to its end.

import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Test } from 'tap';
import { type CompletionOptions, DEFAULT_OPTIONS } from '../../../src/host/completion-options.ts';
import { type GgufEngine, type GgufSettings, loadGguf } from '../../../src/host/gguf/gguf-engine.ts';
import type { CompletionEnd, Prompt, Run, Task, TokenReport } from '../../../src/host/model-engine.ts';
import { type FakeLlamaCpp, createFakeLlamaCpp } from '../../support/fake-llama-cpp.ts';
import { ggufBytes, tinyModel } from '../../support/gguf.ts';
import { temporaryFolder } from '../../support/temporary-folder.ts';
/** Writes the tiny model; the file goes with the test. */
export async function writeTiny(t: Test): Promise<string> {
  const path = join(temporaryFolder(t), 'tiny.gguf');
  await writeFile(path, ggufBytes(tinyModel()));
  return path;
}

/** Loads the tiny model with the stand-in for the package. */
export async function loadFake(
  t: Test,
  settings: Partial<GgufSettings> = {},
): Promise<{ engine: GgufEngine; fake: FakeLlamaCpp }> {
  const fake = createFakeLlamaCpp();
  const engine = await loadGguf({ path: await writeTiny(t), module: fake.module, ...settings });
  return { engine, fake };
}

export interface Completed {
  readonly text: string;
  readonly texts: string[];
  readonly reports: TokenReport[];
  readonly starts: [number, number, number][];
  readonly end: CompletionEnd;
}

export interface Begun {
  readonly run: Run;
  readonly spoke: Promise<void>;
  readonly ended: Promise<Completed>;
}

/** Begins a completion with these options and defaults for the rest. */
export function begin(
  engine: GgufEngine,
  options: Partial<CompletionOptions> = {},
  prompt: Prompt | string = 'the water',
  whenFull: Task['whenFull'] = 'shift',
  rest: () => Promise<void> | undefined = () => undefined,
  system = '',
): Begun {
  const ended = Promise.withResolvers<Completed>();
  const spoke = Promise.withResolvers<void>();
  const texts: string[] = [];
  const reports: TokenReport[] = [];
  const starts: [number, number, number][] = [];
  const task: Task = {
    model: engine.models[0]!,
    system,
    prompt: typeof prompt === 'string' ? { kind: 'parts', parts: [prompt] } : prompt,
    options: { ...DEFAULT_OPTIONS, ...options },
    whenFull,
    timingsId: null,
  };
  const run = engine.complete(task, {
    start: (...counts) => void starts.push(counts),
    text(text, more) {
      texts.push(text);
      reports.push(...more);
      spoke.resolve();
    },
    rest,
    end: (end) => ended.resolve({ text: texts.join(''), texts, reports, starts, end }),
  });
  return { run, spoke: spoke.promise, ended: ended.promise };
}

/** Runs a completion to its end. */
export function complete(...given: Parameters<typeof begin>): Promise<Completed> {
  return begin(...given).ended;
}
