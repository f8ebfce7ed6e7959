// `headrace check`: reads a configuration as `serve` does and explains it, or prints every mistake. With `--probe` it also asks
// everything that the configuration names whether it is there.

import type { Command } from 'commander';
import { systemClock } from '../actor/index.ts';
import { type Column, printTable, textColumn, visible } from '../admin/index.ts';
import { explain } from '../config/describe.ts';
import { loadConfigFile } from '../config/load.ts';
import { counted } from '../config/units.ts';
import { withEnginesChecked } from '../gateway/engine-settings.ts';
import { askServices, type Finding, namesOf } from './configured-services.ts';
import type { CliIo } from './io.ts';
import { mistakeLines } from './options.ts';
import { readRest } from './setting-options.ts';

const DESCRIPTION = `Reads the configuration as \`serve\` does and explains what would run: addresses, models and their servers, store and
search engines, what differs from the defaults, and warnings. Every mistake is reported at once, by path.

With --probe it asks every server for its health, its models and its dialects, every search engine, the discovery
URL, the store and the payment facilitator, and says what it found and what to change. That costs nothing: servers get
no prompt, and engines of which every search costs are reached, not searched.
Exit code 0: fine, 1: mistakes, or something is wrong.`;

interface CheckOptions {
  readonly config: string;
  readonly probe?: boolean;
  readonly json?: boolean;
}

export function configureCheck(command: Command, io: CliIo): void {
  command
    .description(DESCRIPTION)
    .usage('--config FILE [--probe] [--json] [--SETTING VALUE ...]')
    .requiredOption('-c, --config <file>', 'configuration, YAML or JSON')
    .option('--probe', 'asks servers, search engines, discovery, store and facilitator')
    .option('--json', 'prints mistakes and findings as JSON')
    .allowUnknownOption()
    .allowExcessArguments()
    .action(async (options: CheckOptions) => check(options, readRest(command, 0).settings, io));
}

async function check(
  { config, json = false, probe = false }: CheckOptions,
  overrides: Readonly<Record<string, string>>,
  io: CliIo,
): Promise<void> {
  const resolution = withEnginesChecked(await loadConfigFile(config, io.env, overrides));
  const mistakes = 'mistakes' in resolution ? resolution.mistakes : [];
  const findings =
    'settings' in resolution && probe ? await withProgress(io, (note) => askServices(resolution.settings, note)) : [];
  const isWrong = mistakes.length > 0 || findings.some(({ result }) => result === 'wrong');
  if (isWrong) io.exitCode = 1;
  if (json) io.stdout.write(`${JSON.stringify({ file: config, ok: !isWrong, mistakes, findings }, null, 2)}\n`);
  else if ('mistakes' in resolution)
    io.stdout.write(`${config}: ${counted(mistakes.length, 'mistake')}\n${mistakeLines(mistakes)}`);
  else io.stdout.write(`${explain(resolution.settings, config)}\n${probe ? findingsText(findings) : ''}`);
}

const PROGRESS_MS = 1000;

/** Says on standard error how far the work is, once a second. */
async function withProgress<T>(io: CliIo, work: (note: (done: number, all: number) => void) => Promise<T>): Promise<T> {
  let state = '';
  let timer: object | null = null;
  const say = (): void => {
    if (state !== '') io.stderr.write(`asked ${state}\n`);
    timer = systemClock.setTimeout(say, PROGRESS_MS);
  };
  timer = systemClock.setTimeout(say, PROGRESS_MS);
  try {
    return await work((done, all) => {
      state = `${done} of ${all}`;
    });
  } finally {
    systemClock.clearTimeout(timer);
  }
}

const COLUMNS: readonly Column<Finding>[] = [
  textColumn('WHAT', ({ what }) => what),
  textColumn('NAME', ({ name }) => name),
  textColumn('RESULT', ({ result }) => result),
  textColumn('TIME', ({ latencyMs }) => (latencyMs === null ? '–' : `${Math.round(latencyMs)} ms`)),
  textColumn('FOUND', ({ found }) => found),
];

function findingsText(given: readonly Finding[]): string {
  if (given.length === 0) return 'Nothing to ask.\n';
  const findings = withModels(given);
  const wrong = findings.filter(({ result }) => result === 'wrong').length;
  const suggestions = findings.flatMap(({ name, suggestions: each }) =>
    each.map((text) => `  ${visible(`${name}: ${text}`)}\n`),
  );
  const verdict =
    wrong === 0
      ? 'Everything answers as expected.'
      : `${wrong} of ${findings.length} ${wrong === 1 ? 'is' : 'are'} wrong.`;
  const advice = suggestions.length === 0 ? '' : `\nSuggestions\n${suggestions.join('')}`;
  return `${printTable(COLUMNS, findings)}${advice}\n${verdict}\n`;
}

/** A server that is asked with several keys has a line for each, which says for which models. */
function withModels(findings: readonly Finding[]): Finding[] {
  const byName = Map.groupBy(findings, ({ name }) => name);
  return findings.map((finding) => {
    const { models, name } = finding;
    const isAlone = models === undefined || byName.get(name)?.length === 1;
    return isAlone ? finding : { ...finding, name: `${name} for ${namesOf(models)}` };
  });
}
