// `headrace bench URL`: a load on somebody's system, and what it came to. The table goes to standard output, the course of
// the run to standard error, reports into files. The first Ctrl-C ends the run with what there is, the second at once.

import { createWriteStream, type WriteStream } from 'node:fs';
import { readFile, writeFile } from 'node:fs/promises';
import { basename } from 'node:path';
import { systemClock } from '../actor/index.ts';
import { createSeededRandom } from '../actor/index.ts';
import { environment } from '../config/env.ts';
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
import { UsageError } from './args.ts';
import { type BenchFlags, readBenchFlags, readMakeFlags } from './bench-flags.ts';

/** How often a terminal is renewed, and how often a plain line is written elsewhere. */
const RENEWAL_MS = 500;
const LINE_MS = 5000;

/** Exit code after a second Ctrl-C: that of a process ended from the keyboard. */
const INTERRUPTED = 130;

/** Longest answer that a recorded conversation may ask for when `--output-tokens` does not say. */
const RECORDED_OUTPUT_TOKENS = 2048;

/** Runs to the end. Exit code 1: a condition of `--fail-on` came true, or nothing was answered. */
export async function bench(
  flags: Readonly<Record<string, string>>,
  words: readonly string[],
): Promise<number | undefined> {
  try {
    if (await make(flags)) return 0;
    const read = readBenchFlags(flags, words[0], environment()['HEADRACE_KEY']);
    const workload = await workloadFor(read, flags['output-tokens'] !== undefined);
    const report = await measure(read, workload);
    await writeReports(read, report);
    return report.failed.length > 0 || report.counts.ok === 0 ? 1 : 0;
  } catch (error) {
    throw error instanceof LoadError ? new UsageError(error.message) : error;
  }
}

/** Writes a workload instead of running one; false when none is to be written. */
async function make(flags: Readonly<Record<string, string>>): Promise<boolean> {
  const made = readMakeFlags(flags);
  if (made === undefined) return false;
  const settings = { ...made.synthetic, seed: made.seed };
  const isTrace = made.file.endsWith('.jsonl');
  const text = isTrace
    ? syntheticTrace(settings, made.entries, made.perSecond)
    : syntheticConversations(settings, made.entries);
  await writing(made.file, () => writeFile(made.file, text));
  process.stderr.write(`${made.file}: ${made.entries} ${isTrace ? 'requests of a trace' : 'conversations'}\n`);
  return true;
}

async function workloadFor(
  { workload: file, synthetic, seed, run }: BenchFlags,
  isLimited: boolean,
): Promise<Workload> {
  if (file === undefined) return syntheticWorkload({ ...synthetic, seed });
  const text = await readFile(file, 'utf8').catch((error: NodeJS.ErrnoException) => {
    throw new UsageError(`${file} cannot be read (${error.code ?? 'unknown reason'})`);
  });
  const most = isLimited ? synthetic.outputTokens.most : RECORDED_OUTPUT_TOKENS;
  const workload = workloadOf(text, basename(file), most);
  if (run.arrivals.kind === 'trace' && !workload.isTimed) {
    throw new UsageError(`${file} has no time stamps for --arrivals trace`);
  }
  return workload;
}

async function measure(flags: BenchFlags, workload: Workload): Promise<LoadReport> {
  const { run: settings, seed, limits, url } = flags;
  const startedAt = new Date(systemClock.now()).toISOString();
  const recorder = new Recorder(limits);
  const csv = flags.csv === undefined ? undefined : await openCsv(flags.csv);
  const { dialect, stream } = settings;
  const { key, headers, timeoutMs, truth } = flags;
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
  const showing = show(flags, run, recorder);
  const onSignal = stopOnSignal(run);
  await run.run();
  showing.end();
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.off(signal, onSignal);
  if (csv !== undefined) await new Promise<void>((resolve) => csv.end(resolve));
  const { model, arrivals, warmUpMs } = settings;
  return loadReport(
    {
      url: `${url.origin}${url.pathname === '/' ? '' : url.pathname}`,
      ...{ model, dialect: flags.dialectName, stream, arrivals, seed, warmUpMs, limits, startedAt },
      workload: workload.description,
    },
    run,
    recorder,
    flags.conditions,
  );
}

function stopOnSignal(run: LoadRun): () => void {
  let signals = 0;
  const onSignal = (): void => {
    if (++signals > 1) process.exit(INTERRUPTED);
    run.stop();
  };
  process.on('SIGINT', onSignal);
  process.on('SIGTERM', onSignal);
  return onSignal;
}

/** Shows the course until `end`. */
function show({ progress, run: { warmUpMs } }: BenchFlags, run: LoadRun, recorder: Recorder): { end(): void } {
  if (!progress) return { end: () => undefined };
  const { stderr } = process;
  const isTerminal = stderr.isTTY;
  const write = (text: string): void => void stderr.write(text);
  const view = new LiveView({ isTerminal, warmUpMs, columns: stderr.columns ?? 80, write }, run, recorder);
  const timer = setInterval(() => view.show(systemClock.now()), isTerminal ? RENEWAL_MS : LINE_MS);
  return {
    end() {
      clearInterval(timer);
      view.clear();
    },
  };
}

async function openCsv(file: string): Promise<WriteStream> {
  const stream = createWriteStream(file);
  await writing(file, () => new Promise((resolve, reject) => stream.once('open', resolve).once('error', reject)));
  // A disk that fills up later must not take the run with it.
  stream.on('error', (error) => process.stderr.write(`headrace: ${file} is not whole: ${error.message}\n`));
  stream.write(CSV_HEAD);
  return stream;
}

async function writeReports({ json, html }: BenchFlags, report: LoadReport): Promise<void> {
  const text = `${JSON.stringify(report, null, 2)}\n`;
  process.stdout.write(json === '-' ? text : tableOf(report));
  if (json !== undefined && json !== '-') await writing(json, () => writeFile(json, text));
  if (html !== undefined) await writing(html, () => writeFile(html, htmlOf(report)));
}

async function writing(file: string, write: () => Promise<unknown>): Promise<void> {
  try {
    await write();
  } catch (error) {
    throw new UsageError(`${file} cannot be written (${(error as NodeJS.ErrnoException).code ?? 'unknown reason'})`);
  }
}
