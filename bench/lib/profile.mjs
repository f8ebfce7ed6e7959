// Prints where the gateway spent its CPU time, from the files that `node --cpu-prof` wrote: self time by module and by
// function, one list per thread.

import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

/** Prints where every thread of `dir` spent its own time, by part of the program and by function. */
export function printProfiles(dir, functions = 25) {
  for (const file of readdirSync(dir).filter((name) => name.endsWith('.cpuprofile'))) {
    const profile = JSON.parse(readFileSync(join(dir, file), 'utf8'));
    printTimes(`${file}: self time by part`, selfTimes(profile, partOf), 15);
    printTimes(`${file}: self time by function`, selfTimes(profile, functionOf), functions);
  }
}

function printTimes(title, times, count) {
  const busy = times.filter(({ name }) => name !== '(idle)');
  const total = busy.reduce((sum, { us }) => sum + us, 0);
  process.stdout.write(`\n${title}, ${(total / 1e6).toFixed(1)} s busy\n`);
  for (const { name, us } of busy.slice(0, count)) {
    process.stdout.write(`  ${((us / total) * 100).toFixed(1).padStart(5)} %  ${name}\n`);
  }
}

function selfTimes({ nodes, samples, timeDeltas }, nameOf) {
  const names = new Map(nodes.map(({ id, callFrame }) => [id, nameOf(callFrame)]));
  const totals = new Map();
  for (const [index, node] of samples.entries()) {
    const name = names.get(node);
    totals.set(name, (totals.get(name) ?? 0) + timeDeltas[index]);
  }
  return [...totals].map(([name, us]) => ({ name, us })).sort((a, b) => b.us - a.us);
}

/** `dist/src/net/client.js` and the like, wherever the repository lies. */
function shortUrl(url) {
  return url.replace(/^file:\/\/.*?\/(dist|node_modules|workers)\//, '$1/');
}

function functionOf({ functionName, url, lineNumber }) {
  const name = functionName || '(anonymous)';
  return url === '' ? name : `${name}  ${shortUrl(url)}:${lineNumber + 1}`;
}

/** Module of the gateway, package, Node.js itself or V8. V8 charges a native call to the function that made it. */
function partOf({ functionName, url }) {
  if (url === '') return functionName.startsWith('(') ? functionName : 'native functions';
  const [first, second, third] = shortUrl(url).split('/');
  if (first === 'dist') return third.endsWith('.js') ? 'src' : `src/${third}`;
  if (first === 'node_modules') return second.startsWith('@') ? `${second}/${third}` : second;
  return url.startsWith('node:') ? 'node:' : first;
}
