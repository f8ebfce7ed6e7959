// Parses random HTTP/1.1 requests and responses with the parsers of the gateway and with llhttp, whole and cut, and compares the
// results: `node bench/fuzz/http1.mjs --help`. Needs a built tree. The first case that differs is printed and ends the run with
// status 1.

import { fileURLToPath } from 'node:url';
import { flagLines, parseFlags } from '../lib/flags.mjs';
import { useOwnNode } from '../lib/own-node.mjs';
import { Progress } from '../lib/progress.mjs';

useOwnNode(fileURLToPath(new URL('../..', import.meta.url)));
const { checkRequests } = await import('../../dist/test/support/http1-requests.js');
const { checkResponse } = await import('../../dist/test/support/http1-responses.js');

const FLAGS = {
  cases: { type: 'number', default: 1_000_000, help: 'inputs; one half requests, one half responses' },
  seed: { type: 'number', default: 1, help: 'of the first case; the next ones have the numbers behind it' },
};
const HELP = `node bench/fuzz/http1.mjs [flags]

Compares the HTTP/1.1 parsers with llhttp on random input.

${flagLines(FLAGS)}
`;
const STEP_CASES = 1000;

const { values, help } = parseFlags({ fuzz: FLAGS }, process.argv.slice(2));
if (help) {
  process.stdout.write(HELP);
  process.exit(0);
}
const { cases, seed } = values.fuzz;
const half = Math.ceil(cases / 2);
const progress = new Progress(Math.ceil(half / STEP_CASES));
for (let done = 0; done < half; done++) {
  if (done % STEP_CASES === 0) progress.step('fuzz', `seed ${seed + done}`);
  const found = checkRequests(seed + done) ?? checkResponse(seed + done);
  if (found !== null) {
    progress.clear();
    process.stdout.write(`${found}\n`);
    process.exit(1);
  }
}
progress.clear();
process.stdout.write(`${2 * half} cases from seed ${seed}: no difference\n`);
