// `npm run test:cluster`: runs the scenarios, shows progress, prints a table and ends with 1 when one of them fails. As root it makes
// network namespaces, one for each part; elsewhere, or with --loopback, all is on loopback. Arguments are names of scenarios; --json
// FILE writes the results.

import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { Cluster, HAS_CLUSTER, startDatabase } from '../support/cluster.ts';
import { loopbackNetwork, namespaceNetwork, NAMESPACES_VARIABLE, runInNamespaces } from '../support/cluster-network.ts';
import { faultsOf, runScenario, type ScenarioResult, SCENARIOS } from './scenarios.ts';

const { positionals, values } = parseArgs({
  allowPositionals: true,
  options: { loopback: { type: 'boolean', default: false }, json: { type: 'string' }, list: { type: 'boolean' } },
});

function table(results: readonly ScenarioResult[]): string {
  const heads = ['Scenario', 'Requests', 'Failed', 'Lost in flight', 'Ledger', 'Over the limits', 'Recovery'];
  const rows = results.map((result) => {
    const { requests, tokens, running } = result.overshoot;
    return [
      result.title,
      `${result.sent}`,
      `${result.failed}`,
      `${result.lost}`,
      result.problems.length === 0 ? 'equal' : 'differs',
      `${requests} requests, ${tokens} tokens, ${running} running`,
      result.recoveryMs === null ? '' : `${(result.recoveryMs / 1000).toFixed(1)} s`,
    ];
  });
  return [heads, heads.map(() => '---'), ...rows].map((cells) => `| ${cells.join(' | ')} |\n`).join('');
}

async function run(): Promise<number> {
  const unknown = positionals.filter((name) => !SCENARIOS.some((scenario) => scenario.name === name));
  if (unknown.length > 0 || values.list === true) {
    for (const { name, title } of SCENARIOS) process.stdout.write(`${name}  ${title}\n`);
    return unknown.length > 0 ? 2 : 0;
  }
  const chosen = SCENARIOS.filter(({ name }) => positionals.length === 0 || positionals.includes(name));
  const network = namespaceNetwork() ?? loopbackNetwork();
  const postgres = await startDatabase(network);
  const results: ScenarioResult[] = [];
  let failed = 0;
  for (const [index, scenario] of chosen.entries()) {
    const folder = mkdtempSync(join(tmpdir(), 'headrace-cluster-'));
    process.stdout.write(`${index + 1}/${chosen.length} ${scenario.title} (${network.kind})\n`);
    let cluster: Cluster | undefined;
    let faults: string[];
    try {
      cluster = await Cluster.start({ network, folder, postgres, ...scenario.options });
      const result = await runScenario(scenario, cluster);
      results.push(result);
      faults = faultsOf(result);
      const { firstByteP50Ms, firstByteP99Ms, lost, sent, seconds } = result;
      process.stdout.write(
        `  ${sent} requests in ${seconds} s, ${result.failed} failed, ${lost} lost in flight, ${result.uncharged} not charged; ` +
          `first byte ${firstByteP50Ms} ms (p99 ${firstByteP99Ms} ms)\n`,
      );
    } catch (error) {
      faults = [(error as Error).stack ?? String(error)];
    } finally {
      await cluster?.close();
    }
    if (results.at(-1)?.name === scenario.name && results.at(-1)?.isAlone === true)
      process.stdout.write('  limits were counted by a gateway alone for a while\n');
    for (const fault of faults) process.stdout.write(`  ${fault}\n`);
    if (faults.length === 0) rmSync(folder, { recursive: true });
    else {
      failed++;
      process.stdout.write(`  logs: ${folder}\n`);
    }
  }
  await network.close();
  process.stdout.write(`\n${table(results)}\n${chosen.length - failed} passed, ${failed} failed\n`);
  if (values.json !== undefined) {
    const plain = (_name: string, value: unknown): unknown => (typeof value === 'bigint' ? `${value}` : value);
    writeFileSync(values.json, `${JSON.stringify({ cluster: HAS_CLUSTER, results }, plain, 2)}\n`);
  }
  return failed === 0 ? 0 : 1;
}

// Programs that were started end with the process, which a signal alone would not let happen.
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => process.exit(130));

const isOutside = process.env[NAMESPACES_VARIABLE] === undefined && !values.loopback && values.list !== true;
const code =
  isOutside && process.getuid?.() === 0 ? await runInNamespaces(import.meta.filename, process.argv.slice(2)) : null;
if (isOutside && code === null) process.stdout.write('Without network namespaces: all runs on loopback.\n');
process.exit(code ?? (await run()));
