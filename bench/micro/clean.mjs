// Micro benchmark of page cleaning: CPU time per page and throughput beside Readability on linkedom, alternating over the same
// pages in one run. Run after a build: node bench/micro/clean.mjs FOLDER [--pages 300] [--passes 3]. The layout of FOLDER is
// described in bench/extract/pages.mjs.
import { parseArgs } from 'node:util';
import { readPages } from '../extract/pages.mjs';
import { PEERS } from '../extract/peers.mjs';

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { pages: { type: 'string', default: '300' }, passes: { type: 'string', default: '3' } },
});
const [folder] = positionals;
if (folder === undefined) throw new Error('FOLDER is missing: node bench/micro/clean.mjs FOLDER');

const every = readPages(folder);
const step = Math.max(1, Math.floor(every.length / Number(values.pages)));
const pages = every.filter((_, at) => at % step === 0);
const bytes = pages.reduce((sum, { html }) => sum + Buffer.byteLength(html), 0);
console.log(`${pages.length} pages, ${(bytes / 1e6).toFixed(1)} MB; best of ${values.passes} passes`);

const best = new Map();
for (let pass = 0; pass < Number(values.passes); pass++) {
  for (const name of ['headrace', 'readability']) {
    const cpuMs = await passOver(await PEERS[name]());
    best.set(name, Math.min(best.get(name) ?? Infinity, cpuMs));
  }
}
for (const [name, cpuMs] of best) {
  const perPage = cpuMs / pages.length;
  console.log(`${name} | ${perPage.toFixed(2)} ms CPU per page | ${(bytes / 1e3 / cpuMs).toFixed(1)} MB/s`);
}
console.log(`ratio | ${(best.get('readability') / best.get('headrace')).toFixed(1)}`);

async function passOver(extract) {
  const start = process.cpuUsage();
  for (const page of pages) {
    try {
      await extract(page);
    } catch {
      // A peer may fail on a page; its time counts all the same.
    }
  }
  const { user, system } = process.cpuUsage(start);
  return (user + system) / 1000;
}
