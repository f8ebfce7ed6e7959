// `headrace bench URL`: sends load and reports what came of it. The table goes to standard output, progress to standard
// error, reports into files. The first Ctrl-C ends the run and reports what there is, the second ends at once.

import { createWriteStream, type WriteStream } from 'node:fs';
import { appendFile, writeFile } from 'node:fs/promises';
import { basename } from 'node:path';
import type { Command } from 'commander';
import { createSeededRandom, systemClock } from '../actor/index.ts';
import {
  CSV_HEAD,
  csvLine,
  htmlOf,
  LiveView,
  LoadClient,
  LoadError,
  type LoadReport,
  loadReport,
  LoadRun,
  Recorder,
  syntheticConversations,
  syntheticTrace,
  syntheticWorkload,
  tableOf,
  type Workload,
  workloadOf,
} from '../load/index.ts';
import { addBenchOptions, type BenchOptions, type BenchPlan, OUTPUT, planBench, syntheticOf } from './bench-options.ts';
import { readText } from './input-file.ts';
import { type CliIo, redraws, UsageError } from './io.ts';

/** How often a terminal is renewed, and how often a plain line is written elsewhere. */
const RENEWAL_MS = 500;
const LINE_MS = 5000;

/** Exit code after a second Ctrl-C: that of a process ended from the keyboard. */
const INTERRUPTED = 130;

const SIGNALS = ['SIGINT', 'SIGTERM'] as const;

/** What `--make` writes unless options say otherwise. */
const MADE_ENTRIES = 1000;
const MADE_PER_SECOND = 10;

export function configureBench(command: Command, io: CliIo): void {
  addBenchOptions(command);
  command.action(async (url: string | undefined, options: BenchOptions) => {
    try {
      if (options.make === undefined) await bench(options, url, io);
      else await makeWorkload(options, options.make, io);
    } catch (error) {
      throw error instanceof LoadError ? new UsageError(error.message) : error;
    }
  });
}

async function bench(options: BenchOptions, address: string | undefined, io: CliIo): Promise<void> {
  const plan = planBench(options, address);
  const workload = await workloadFor(options, plan);
  // Known before the run, not after an hour of it.
  for (const file of reportFiles(options)) await writing(file, () => appendFile(file, ''));
  const report = await measure(options, plan, workload, io);
  if (report === null) {
    io.exitCode = INTERRUPTED;
    return;
  }
  await writeReports(options, report, io);
  if (report.failed.length > 0 || report.counts.ok === 0) io.exitCode = 1;
}

/** Writes a workload instead of running one. */
async function makeWorkload(options: BenchOptions, file: string, io: CliIo): Promise<void> {
  const { rate = MADE_PER_SECOND, requests = MADE_ENTRIES, seed } = options;
  const settings = { ...syntheticOf(options), seed };
  const isTrace = file.endsWith('.jsonl');
  const text = isTrace ? syntheticTrace(settings, requests, rate) : syntheticConversations(settings, requests);
  await writing(file, () => writeFile(file, text));
  io.stderr.write(`${file}: ${requests} ${isTrace ? 'requests of a trace' : 'conversations'}\n`);
}

async function workloadFor(options: BenchOptions, { run, synthetic }: BenchPlan): Promise<Workload> {
  const { outputTokens, seed, workload: file } = options;
  if (file === undefined) return syntheticWorkload({ ...synthetic, seed });
  const workload = workloadOf(await readText(file), basename(file), outputTokens?.most);
  if (run.arrivals.kind === 'trace' && !workload.isTimed) {
    throw new UsageError(`${file} has no time stamps for --arrivals trace`);
  }
  return workload;
}

/** Runs the load; null when a second signal ended it at once. */
async function measure(
  options: BenchOptions,
  plan: BenchPlan,
  workload: Workload,
  io: CliIo,
): Promise<LoadReport | null> {
  const { run: settings, limits, url } = plan;
  // HEADRACE_KEY is the deprecated name, kept for one release.
  const { headers, key = io.env['HEADRACE_API_KEY'] ?? io.env['HEADRACE_KEY'] } = options;
  const { seed, timeout: timeoutMs, truth } = options;
  const { arrivals, dialect, model, stream, warmUpMs } = settings;
  const startedAt = new Date(systemClock.now()).toISOString();
  const recorder = new Recorder(limits);
  const csv = options.csv === undefined ? undefined : await openCsv(options.csv, io);
  const sender = new LoadClient({ url, dialect, stream, key, headers, timeoutMs, truth }, systemClock);
  const run = new LoadRun(settings, {
    clock: systemClock,
    random: createSeededRandom(seed),
    sender,
    workload,
    onSample(sample, answer) {
      recorder.add(sample, answer);
      csv?.write(csvLine(sample));
    },
  });
  const progress = options.progress ? showProgress(run, warmUpMs, recorder, io) : null;
  const interrupted = Promise.withResolvers<'interrupted'>();
  let signals = 0;
  const onSignal = (): void => {
    if (++signals > 1) interrupted.resolve('interrupted');
    else run.stop();
  };
  for (const signal of SIGNALS) io.events.on(signal, onSignal);
  const end = await Promise.race([run.run(), interrupted.promise]);
  for (const signal of SIGNALS) io.events.off(signal, onSignal);
  progress?.end();
  if (end === 'interrupted') return null;
  if (csv !== undefined) await new Promise<void>((resolve) => csv.end(resolve));
  return loadReport(
    {
      url: `${url.origin}${url.pathname === '/' ? '' : url.pathname}`,
      ...{ model, dialect: options.dialect, stream, arrivals, seed, warmUpMs, limits, startedAt },
      workload: workload.description,
    },
    run,
    recorder,
    plan.conditions,
  );
}

/** Writes progress to standard error until `end`. */
function showProgress(run: LoadRun, warmUpMs: number, recorder: Recorder, io: CliIo): { end(): void } {
  const { stderr } = io;
  const isTerminal = redraws(stderr, io);
  const write = (text: string): void => void stderr.write(text);
  const view = new LiveView({ isTerminal, warmUpMs, columns: stderr.columns || 80, write }, run, recorder);
  const timer = setInterval(() => view.show(systemClock.now()), isTerminal ? RENEWAL_MS : LINE_MS);
  return {
    end() {
      clearInterval(timer);
      view.clear();
    },
  };
}

async function openCsv(file: string, io: CliIo): Promise<Pick<WriteStream, 'write' | 'end'>> {
  if (file === OUTPUT) {
    const { stdout } = io;
    stdout.write(CSV_HEAD);
    return { write: (text) => stdout.write(text), end: (done) => done() };
  }
  const stream = createWriteStream(file);
  await writing(file, () => new Promise((resolve, reject) => stream.once('open', resolve).once('error', reject)));
  // A disk that fills up later must not end the run.
  stream.on('error', (error) => {
    io.stderr.write(`headrace: ${file} is incomplete: ${error.message}\n`);
    io.exitCode = 1;
  });
  stream.write(CSV_HEAD);
  return stream;
}

function reportFiles({ html, json }: BenchOptions): string[] {
  return [html, json].filter((file) => file !== undefined && file !== OUTPUT) as string[];
}

async function writeReports({ csv, html, json }: BenchOptions, report: LoadReport, io: CliIo): Promise<void> {
  if (![csv, html, json].includes(OUTPUT)) io.stdout.write(tableOf(report));
  const write = async (file: string | undefined, text: () => string): Promise<void> => {
    if (file === OUTPUT) io.stdout.write(text());
    else if (file !== undefined) await writing(file, () => writeFile(file, text()));
  };
  await write(json, () => `${JSON.stringify(report, null, 2)}\n`);
  await write(html, () => htmlOf(report));
}

async function writing(file: string, write: () => Promise<unknown>): Promise<void> {
  try {
    await write();
  } catch (error) {
    throw new UsageError(`${file} cannot be written (${(error as NodeJS.ErrnoException).code ?? 'unknown reason'})`);
  }
}
