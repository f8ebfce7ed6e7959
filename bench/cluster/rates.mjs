// What sharing costs at fixed rates: gateways with `cluster` and as many without it run side by side and take turns with the same prompts, so
// that a change of the machine affects both. Sharing is measured as CPU time of main threads, where the link to the engine lives. That of all other
// threads is told beside it: it differs by more between two gateways that do the same than sharing adds to it. Linux only.

import { readdirSync, readFileSync } from 'node:fs';
import { startGateway } from '../lib/gateway.mjs';
import { stopChild } from '../lib/process.mjs';
import { roundsText, show } from '../lib/report.mjs';
import { interleave, turnsOf } from '../lib/rounds.mjs';
import { spread } from '../lib/statistics.mjs';
import { planOf, reachesAll, scenariosOf, sendThrough, startFleet } from '../load/locality.mjs';
import { engineTraffic, settingsOf, startEngine, trafficSince } from './engine.mjs';

/** Gateways know of each other by then. */
const SETTLE_MS = 1500;

/** Seconds at the highest rate before anything counts: until code is compiled a request costs two to three times as much, with and without sharing. */
const WARM_UP_S = 40;

const GROUPS = { unshared: false, shared: true };

export function stepsOfRates({ rates, rounds, workloads }) {
  return rates.length * workloads.length * turnsOf(rounds) * Object.keys(GROUPS).length;
}

/** A table for each workload, with a row for each rate. */
export async function measureRates(flags, rig) {
  for (const workload of flags.workloads) {
    const [scenario] = scenariosOf({ trace: [], workloads: [workload] });
    const rows = [];
    for (const ratePerS of flags.rates) rows.push(await measureRate(scenario, { ...flags, ratePerS }, rig));
    rig.result({
      title: `Cost of sharing at fixed rates, ${workload}, ${flags.copies} gateways, ${roundsText({ rounds: flags.rounds, seconds: flags.rateSeconds })}: median (min-max)`,
      columns: [
        ...['requests/s', 'CPU us/request without', 'main threads add', 'share', 'of a core, each gateway'],
        ...['other threads differ by, us', 'main wakes/s, without', 'with'],
        ...[
          'commands/s',
          'into the engine, bytes/request',
          'engine CPU us/request',
          'first token p50 ms, without',
          'with',
          'errors',
        ],
      ],
      rows: rows.map(({ ratePerS, figures, added, errors }) => [
        String(ratePerS),
        show(figures.unshared.us, 0),
        show(added.mainUs, 1),
        show(added.share, 3),
        show(added.ofCore, 4),
        show(added.otherUs, 0),
        show(figures.unshared.wakesPerS, 1),
        show(figures.shared.wakesPerS, 1),
        show(figures.shared.commandsPerS, 1),
        show(figures.shared.inBytes, 0),
        show(figures.shared.engineUs, 1),
        show(figures.unshared.p50, 1),
        show(figures.shared.p50, 1),
        String(errors),
      ]),
      remarks: [
        'What main threads add are differences within rounds, of all gateways together; the share is that of the CPU time of a request without sharing. Bytes and commands are all that reach the engine, heartbeats too.',
      ],
      plots: [],
      figures: { scenario: 'cluster rates', workload, rows },
      data: {},
    });
  }
}

async function measureRate(scenario, flags, rig) {
  const { copies, ratePerS, rateSeconds, rounds } = flags;
  const topPerS = Math.max(...flags.rates);
  const planFor = (seed, perS, seconds) =>
    planOf(scenario, { ...flags, ratePerS: perS, requests: Math.round(perS * seconds), seed });
  const children = [];
  try {
    const engine = await startEngine();
    children.push(engine.child);
    // Servers that keep up with the warm-up.
    const plan = planFor(1, topPerS, rateSeconds);
    const groups = [];
    for (const [name, isShared] of Object.entries(GROUPS)) {
      const fleet = await startFleet(plan, flags);
      children.push(fleet.child);
      const gateways = [];
      for (let copy = 0; copy < copies; copy++) {
        const gateway = await startGateway(settingsOf(fleet.ports, isShared ? engine : null));
        children.push(gateway.child);
        await reachesAll(gateway, fleet);
        gateways.push(gateway);
      }
      groups.push({ name, pid: gateways[0].child.pid, fleet, gateways, seed: 0 });
    }
    await new Promise((resolve) => setTimeout(resolve, SETTLE_MS));
    const run = async (group, isWarmUp) => {
      const { fleet, gateways, name } = group;
      const seed = ++group.seed;
      const [perS, duration] = isWarmUp ? [topPerS, WARM_UP_S] : [ratePerS, rateSeconds];
      const before = { ...(await engineTraffic(engine)), ...timesOf(gateways), engineNs: nsOf(engine.child.pid) };
      const startMs = performance.now();
      const report = await sendThrough(
        planFor(seed, perS, duration),
        { ...flags, ratePerS: perS, seed },
        { name, fleet, gateways, load: { sessions: false, oracle: false } },
      );
      const seconds = (performance.now() - startMs) / 1000;
      const after = { ...(await engineTraffic(engine)), ...timesOf(gateways), engineNs: nsOf(engine.child.pid) };
      return { ...report, used: trafficSince(before, after), wallSeconds: seconds };
    };
    const title = `${scenario.name} at ${ratePerS}/s`;
    const runs = await interleave(groups, rounds, run, (text) => rig.step(`${title}, ${text}`));
    return { ratePerS, ...figuresOf(runs, copies) };
  } finally {
    for (const child of children.reverse()) await stopChild(child);
  }
}

function figuresOf(runs, copies) {
  const perRequest = Object.fromEntries(
    Object.entries(runs).map(([name, list]) => [
      name,
      list.map(({ firstTokenMs, sent, used, wallSeconds }) => ({
        us: (used.mainNs + used.otherNs) / 1000 / sent,
        mainUs: used.mainNs / 1000 / sent,
        otherUs: used.otherNs / 1000 / sent,
        ofCore: used.mainNs / 1e9 / wallSeconds / copies,
        wakesPerS: used.wakes / wallSeconds / copies,
        engineUs: used.engineNs / 1000 / sent,
        inBytes: used.inBytes / sent,
        commandsPerS: used.commands / wallSeconds,
        p50: firstTokenMs.p50,
      })),
    ]),
  );
  const within = (of) => spread(perRequest.shared.map((one, round) => of(one, perRequest.unshared[round])));
  return {
    figures: Object.fromEntries(
      Object.entries(perRequest).map(([name, list]) => [
        name,
        Object.fromEntries(Object.keys(list[0]).map((field) => [field, spread(list.map((one) => one[field]))])),
      ]),
    ),
    added: {
      mainUs: within((on, off) => on.mainUs - off.mainUs),
      otherUs: within((on, off) => on.otherUs - off.otherUs),
      share: within((on, off) => (on.mainUs - off.mainUs) / off.us),
      ofCore: within((on, off) => on.ofCore - off.ofCore),
    },
    errors: Object.values(runs)
      .flat()
      .reduce((sum, { errors }) => sum + errors, 0),
  };
}

const timesOf = (gateways) => {
  const mainNs = gateways.reduce((sum, { child }) => sum + nsOf(child.pid, child.pid), 0);
  return {
    mainNs,
    otherNs: gateways.reduce((sum, { child }) => sum + nsOf(child.pid), 0) - mainNs,
    wakes: gateways.reduce((sum, { child }) => sum + wakesOf(child.pid), 0),
  };
};

/** How often the main thread of a process has gone to sleep. */
function wakesOf(pid) {
  return Number(
    /^voluntary_ctxt_switches:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/task/${pid}/status`, 'latin1'))[1],
  );
}

/** Time on a CPU of one thread, or of all threads of a process, in nanoseconds: finer than the ticks of /proc/PID/stat. */
export function nsOf(pid, thread) {
  const threads = thread === undefined ? readdirSync(`/proc/${pid}/task`) : [thread];
  return threads.reduce((sum, id) => sum + onCpuNs(`/proc/${pid}/task/${id}/schedstat`), 0);
}

function onCpuNs(path) {
  try {
    return Number(readFileSync(path, 'latin1').split(' ')[0]);
  } catch (error) {
    // The thread has ended meanwhile.
    if (error.code === 'ENOENT' || error.code === 'ESRCH') return 0;
    throw error;
  }
}
