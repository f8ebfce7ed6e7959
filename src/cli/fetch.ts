// `headrace fetch URL`: prints one page as clean text, read with the gateway's own guard and extraction.

import type { Command } from 'commander';
import { resolveSettings } from '../config/load.ts';
import { HeadraceError, messageOf } from '../errors.ts';
import type { PageExtra, PageFormat } from '../fetch/index.ts';
import { serveGateway } from '../gateway/gateway.ts';
import { type CliIo, UsageError } from './io.ts';
import { sentenceOf, wholeNumber, yesOrNo } from './options.ts';
import { readRest } from './setting-options.ts';

interface FetchOptions {
  readonly format?: string;
  readonly include?: string;
  readonly maxChars?: number;
  readonly start?: number;
  readonly links: boolean;
  readonly images: boolean;
  readonly json: boolean;
}

const DESCRIPTION = `Fetches one page and prints its title and its main content as clean text. The page is read as the gateway reads
it, with the same guard: addresses of private networks are refused unless they are allowed.
Exit code 0: printed, 1: the page could not be read; the reason is on standard error.`;

const MORE = `
Settings of the section \`fetch\` may follow, for example
  --fetch.allow HOST     a host or CIDR block that may be fetched although it is private
  --fetch.timeout 15s    longest time of the fetch

For example
  headrace fetch https://example.com/ --format markdown
  headrace fetch https://example.com/ --max-chars 20000 --json true`;

/** Without a ledger: one in the working folder is that of a gateway. */
const SETTINGS = { threads: 0, admin: null, store: null, log: { level: 'warn' } };

export function configureFetch(command: Command, io: CliIo): void {
  command
    .description(DESCRIPTION)
    .usage('URL [options] [--fetch.SETTING VALUE ...]')
    .option('--format <format>', 'text, markdown or html (default: text)')
    .option('--include <list>', 'further fields, of links and metadata; the answer is then printed as JSON')
    .option('--max-chars <number>', 'longest content; JSON then says where it goes on (next_start)', wholeNumber(1))
    .option('--start <number>', 'where the content begins (default: 0)', wholeNumber(0))
    .option('--links <boolean>', 'prints the links of the content too, as JSON', yesOrNo, false)
    .option('--images <boolean>', 'prints the images of the content too, as JSON', yesOrNo, false)
    .option('--json <boolean>', 'prints the answer as JSON', yesOrNo, false)
    .allowUnknownOption()
    .allowExcessArguments()
    .addHelpText('after', MORE)
    .action(async (options: FetchOptions) => fetchPage(options, command, io));
}

async function fetchPage(
  { format, images, include, json, links, maxChars, start }: FetchOptions,
  command: Command,
  io: CliIo,
): Promise<void> {
  const { words, settings } = readRest(command, 1);
  const [url] = words;
  if (url === undefined) throw new UsageError("missing required argument 'url'");
  const resolution = resolveSettings(SETTINGS, {}, settings);
  if ('mistakes' in resolution) throw new UsageError(sentenceOf(resolution.mistakes));
  const gateway = serveGateway(resolution.settings);
  const stop = new AbortController();
  const onInterrupt = (): void => stop.abort(new Error('interrupted'));
  // Once: a second SIGINT ends the process.
  io.events.once('SIGINT', onInterrupt);
  try {
    const answer = await gateway.fetchPage(url, {
      signal: stop.signal,
      ...(format === undefined ? {} : { format: format as PageFormat }),
      ...(maxChars === undefined ? {} : { max_chars: maxChars }),
      ...(start === undefined ? {} : { start }),
      ...(links && { links }),
      ...(images && { images }),
      ...(include === undefined ? {} : { include: include.split(',') as Exclude<PageExtra, 'images'>[] }),
    });
    const asJson = json || links || images || include !== undefined;
    io.stdout.write(asJson ? `${JSON.stringify(answer, null, 2)}\n` : `${answer.title}\n\n${answer.content}\n`);
  } catch (error) {
    io.stderr.write(`headrace: ${reasonOf(error)}\n`);
    io.exitCode = 1;
  } finally {
    io.events.off('SIGINT', onInterrupt);
    await gateway.close();
  }
}

function reasonOf(error: unknown): string {
  if (error instanceof HeadraceError && error.validation !== undefined)
    return error.validation.map(({ loc, msg }) => `${loc.join('.')}: ${msg}`).join('; ');
  if (error instanceof HeadraceError && error.code === 'HR_FETCH_BLOCKED')
    return `${error.message}; --fetch.allow HOST permits it`;
  return messageOf(error);
}
