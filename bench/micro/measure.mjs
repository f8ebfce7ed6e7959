// Measures one case file of `cases` on one build, in a process of its own so that builds do not share compiled code:
// `node measure.mjs DIST FILE BATCH_MS BATCHES`. Prints one line of JSON, `{ figures: { CASE: NANOSECONDS | null }, why }`: null
// is a case that failed on this build, `why` the first error, of a case or of a file that this build cannot run at all.
//
// A file exports `cases(load)`. `load(...paths)` imports the first of these modules that the build has: a module that was moved is
// listed with its older paths. `cases` returns functions by name, each one call of what is measured, or `{ run, calls }` for a
// promise of several calls at once.

import { existsSync } from 'node:fs';
import { resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { medianNs, medianNsLater } from './median.mjs';

const [dist, file, batchMs, batches] = process.argv.slice(2);
const base = pathToFileURL(`${resolve(dist)}/`);
const load = (...paths) =>
  import((paths.map((path) => new URL(path, base)).find(existsSync) ?? new URL(paths[0], base)).href);
const { cases } = await import(`./cases/${file}.mjs`);

const figures = {};
let why = '';

async function figureOf(name, one) {
  const limits = [Number(batchMs), Number(batches)];
  try {
    return typeof one === 'function' ? medianNs(one, ...limits) : await medianNsLater(one.run, one.calls, ...limits);
  } catch (error) {
    why ||= `${name}: ${error.message}`;
    return null;
  }
}

const found = await cases(load).catch((error) => {
  why = error.message;
  return {};
});
for (const [name, one] of Object.entries(found)) figures[name] = await figureOf(name, one);
process.stdout.write(`${JSON.stringify({ figures, why })}\n`, () => process.exit(0));
