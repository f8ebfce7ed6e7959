// `headrace fetch URL`: one page as clean text on standard output, read as the gateway would read it.

import { resolveSettings } from '../config/load.ts';
import { HeadraceError } from '../errors.ts';
import type { PageExtra, PageFormat } from '../fetch/index.ts';
import { serveGateway } from '../gateway/gateway.ts';
import { takeFlags, UsageError } from './args.ts';

const FLAGS = ['format', 'include', 'json'] as const;

/** Fetches and prints; exit code 1 with a sentence when there is no text to print. */
export async function fetchPage(
  flags: Readonly<Record<string, string>>,
  words: readonly string[],
): Promise<number | undefined> {
  const { own, rest } = takeFlags(flags, FLAGS);
  const [url] = words;
  if (url === undefined) throw new UsageError('the URL is missing');
  const resolution = resolveSettings({ threads: 0, admin: null, log: { level: 'warn' } }, {}, rest);
  if ('mistakes' in resolution)
    throw new UsageError(resolution.mistakes.map(({ path, message }) => `${path}: ${message}`).join('; '));
  const gateway = serveGateway(resolution.settings);
  const stop = new AbortController();
  process.once('SIGINT', () => stop.abort(new Error('interrupted')));
  try {
    const answer = await gateway.fetchPage(url, {
      signal: stop.signal,
      ...(own.format === undefined ? {} : { format: own.format as PageFormat }),
      ...(own.include === undefined ? {} : { include: own.include.split(',') as PageExtra[] }),
    });
    const asJson = own.json === 'true' || own.include !== undefined;
    process.stdout.write(asJson ? `${JSON.stringify(answer, null, 2)}\n` : `${answer.title}\n\n${answer.content}\n`);
    return 0;
  } catch (error) {
    process.stderr.write(`headrace: ${sentenceOf(error)}\n`);
    return 1;
  } finally {
    await gateway.close();
  }
}

function sentenceOf(error: unknown): string {
  if (error instanceof HeadraceError && error.validation !== undefined)
    return error.validation.map(({ loc, msg }) => `${loc.join('.')}: ${msg}`).join('; ');
  return error instanceof Error ? error.message : String(error);
}
