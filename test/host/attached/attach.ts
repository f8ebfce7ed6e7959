// What tests of attached engines share: attaching to a scripted engine, and running one completion to its end.

import type { Test } from 'tap';
import {
  type AttachedEngine,
  type AttachedSettings,
  attachEngine,
} from '../../../src/host/attached/attached-engine.ts';
import { type CompletionOptions, DEFAULT_OPTIONS, InvalidOptions } from '../../../src/host/completion-options.ts';
import type { CompletionEnd, Prompt, Run, Sink, TokenReport } from '../../../src/host/model-engine.ts';
import type { FakeEngine } from '../../support/fake-engine.ts';
/** Attaches to a scripted engine; both end with the test. What the detection asked is forgotten. */
export async function attach(
  t: Test,
  starting: Promise<FakeEngine>,
  settings: Partial<AttachedSettings> = {},
): Promise<{ engine: AttachedEngine; fake: FakeEngine }> {
  const fake = await starting;
  t.teardown(() => fake.close());
  const engine = await attachEngine({ url: fake.url, ...settings });
  t.teardown(() => engine.close());
  fake.forget();
  return { engine, fake };
}

/** What a sink heard. */
export interface ProtocolEvent {
  readonly starts: [number, number, number][];
  readonly texts: string[];
  readonly reports: TokenReport[];
  readonly end: CompletionEnd;
}

export interface Running {
  readonly run: Run;
  /** Resolves with the first text. */
  readonly spoke: Promise<string>;
  readonly ended: Promise<ProtocolEvent>;
}

export const HI: Prompt = { kind: 'parts', parts: ['Hi'] };

/** Begins a completion with these options and defaults for the rest. */
export function begin(
  engine: AttachedEngine,
  options: Partial<CompletionOptions> = {},
  prompt: Prompt = HI,
  rest: () => Promise<void> | undefined = () => undefined,
  system = '',
): Running {
  const spoke = Promise.withResolvers<string>();
  const ended = Promise.withResolvers<ProtocolEvent>();
  const read = { starts: [] as [number, number, number][], texts: [] as string[], reports: [] as TokenReport[] };
  const sink: Sink = {
    start: (...counts) => void read.starts.push(counts),
    text(text, reports) {
      read.texts.push(text);
      read.reports.push(...reports);
      spoke.resolve(text);
    },
    end: (end) => ended.resolve({ ...read, end }),
    rest,
  };
  const task = {
    model: engine.models[0]!,
    prompt,
    system,
    options: { ...DEFAULT_OPTIONS, ...options },
    whenFull: 'shift',
    timingsId: null,
  } as const;
  return { run: engine.complete(task, sink), spoke: spoke.promise, ended: ended.promise };
}

/** Runs a completion to its end. */
export function complete(
  engine: AttachedEngine,
  options: Partial<CompletionOptions> = {},
  prompt: Prompt = HI,
  system = '',
): Promise<ProtocolEvent> {
  return begin(engine, options, prompt, undefined, system).ended;
}

/** The places that a refusal names, such as `body.tfs_z`; empty when nothing is refused. */
export function refusedPlaces(run: () => unknown): string[] {
  try {
    run();
    return [];
  } catch (error) {
    if (!(error instanceof InvalidOptions)) throw error;
    return error.entries.map(({ loc }) => loc.join('.'));
  }
}
