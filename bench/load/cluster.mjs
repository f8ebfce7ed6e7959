// Benchmark of several gateways that share placements and backlogs through an engine: one, n that share and n that do not. With `--simulate` in
// virtual time for any number of gateways and CRNs; else real processes over simulated hosts, with redis-server. A part of ../run.mjs.

import { experiments, runExperiment, runsOf } from '../cluster/experiments.mjs';
import { limitsResult } from '../cluster/limits.mjs';
import { measureReal, PARTS, stepsOfReal } from '../cluster/real.mjs';
import { plotsOf, scaleTable, tableOf } from '../cluster/tables.mjs';
import { WORKLOADS } from '../locality/traces.mjs';

/** The most gateways and CRNs of a simulation: a gateway has an index of its own in memory. */
const MOST_GATEWAYS = 64;
const MOST_CRNS = 1024;

export const part = {
  name: 'cluster',
  sentence:
    'Several gateways that share placements and backlogs through Redis, beside one gateway and beside as many that share nothing: prompt tokens found in the caches, time to the first token, and what sharing costs.',
  peers: [],
  flags: {
    simulate: {
      type: 'boolean',
      default: false,
      help: 'in virtual time: up to 64 gateways and 1,000 CRNs, with lag, loss and faults',
    },
    workloads: {
      type: 'words',
      default: ['agents', 'chat', 'documents', 'tenants', 'hot'],
      quick: ['tenants'],
      help: `of ${Object.keys(WORKLOADS).join(', ')}`,
    },
    gateways: {
      type: 'numbers',
      default: [3, 8],
      quick: [3],
      help: 'simulated: gateways that share, or not; the most are those with lag, loss and faults',
    },
    scale: {
      type: 'words',
      default: ['3x8', '8x64', '16x128', '32x256', '64x256'],
      quick: ['3x8'],
      help: 'simulated: GATEWAYSxCRNS, with the first workload',
    },
    requests: {
      type: 'number',
      default: 1500,
      quick: 300,
      help: 'requests of a workload; simulated: for each eight CRNs',
    },
    scaleRequests: { type: 'number', default: 400, quick: 200, help: 'simulated: for each eight CRNs of --scale' },
    seeds: { type: 'number', default: 3, quick: 1, help: 'simulated: runs of each row, of which means are taken' },
    use: { type: 'number', default: 0.6, help: 'share of the time for which the oracle keeps the fleet busy' },
    measures: {
      type: 'words',
      default: Object.keys(PARTS),
      help: `real: of ${Object.keys(PARTS).join(', ')}; "cost,rates" are the CPU time and bytes of sharing alone`,
    },
    rates: { type: 'numbers', default: [20, 180, 500], quick: [50], help: 'real: requests a second of "rates"' },
    rateSeconds: { type: 'number', default: 6, quick: 2, help: 'real: seconds of each run of "rates"' },
    rounds: {
      type: 'number',
      default: 5,
      quick: 1,
      least: 1,
      help: 'real: rounds; what sharing costs is the difference within them',
    },
    ratePerS: { type: 'number', default: 180, quick: 100, help: 'real: requests a second' },
    seconds: {
      type: 'number',
      default: 2,
      quick: 0.5,
      help: 'real: measured seconds of each run of the cost of sharing',
    },
    copies: { type: 'number', default: 3, help: 'real: gateways' },
    news: { type: 'number', default: 40, quick: 5, help: 'real: requests whose news are timed' },
  },
  steps: (flags) => (flags.simulate ? stepsOfSimulation(flags) : stepsOfReal(flags)),
  measure: (flags, rig) => (flags.simulate ? measureSimulation(flags, rig) : measureReal(flags, rig)),
};

function planOf(flags) {
  const unknown = flags.workloads.find((name) => !Object.hasOwn(WORKLOADS, name));
  if (unknown !== undefined)
    throw new Error(`there is no workload "${unknown}"; there are ${Object.keys(WORKLOADS).join(', ')}`);
  return experiments({ ...flags, scale: flags.scale.map(readScale), gateways: flags.gateways.map(checkedGateways) });
}

const seedsOf = ({ seeds }) => Array.from({ length: seeds }, (_, at) => at + 1);

function stepsOfSimulation(flags) {
  return planOf(flags).reduce((sum, experiment) => sum + runsOf(experiment, seedsOf(flags)), 0);
}

function checkedGateways(count) {
  if (Number.isInteger(count) && count >= 1 && count <= MOST_GATEWAYS) return count;
  throw new Error(`gateways: 1 to ${MOST_GATEWAYS}, not ${count}`);
}

/** `64x1000` as `[64, 1000]`. */
export function readScale(text) {
  const [, gateways, crns] = /^(\d+)x(\d+)$/.exec(text) ?? [];
  if (!(crns >= 8 && crns <= MOST_CRNS))
    throw new Error(`--scale takes GATEWAYSxCRNS with 8 to ${MOST_CRNS} CRNs, not "${text}"`);
  return [checkedGateways(Number(gateways)), Number(crns)];
}

function measureSimulation(flags, rig) {
  const done = [];
  const scales = [];
  for (const experiment of planOf(flags)) {
    const result = runExperiment(experiment, { seeds: seedsOf(flags), use: flags.use }, rig.step);
    if (experiment.name === 'scale') {
      scales.push(result);
      continue;
    }
    done.push(result);
    rig.result({ ...tableOf(result), plots: [], figures: { scenario: 'cluster simulated', ...result }, data: {} });
  }
  if (scales.length > 0) {
    rig.result({ ...scaleTable(scales), plots: [], figures: { scenario: 'cluster scale', scales }, data: {} });
    const { crns, rows } = scales.reduce((most, one) => (one.crns >= most.crns ? one : most));
    const { cpu, engine } = rows[1].figures;
    const of = { crns, blocks: engine.blocksPerRequest, applyUs: cpu.applyUsPerEntry, choiceUs: cpu.choiceUs };
    rig.result({ ...limitsResult(of), plots: plotsOf(done), figures: { scenario: 'cluster limits', ...of }, data: {} });
  }
}
