// Measurement window: CPU time of the watched processes and use of both cores between its two ends.

import { coreUs, cpuTimesUs } from './process.mjs';
import { nowUs } from './traffic.mjs';

/** Opens a window over the processes `watch` (`{ name: pid }`); the returned function closes it and returns the figures. */
export function openWindow(watch) {
  const before = sample(watch);
  return () => {
    const after = sample(watch);
    const seconds = (after.atUs - before.atUs) / 1e6;
    const share = (now, then) => (now - then) / 1e6 / seconds;
    const used = (time) =>
      Object.fromEntries(Object.keys(watch).map((name) => [name, time(after.cpu[name]) - time(before.cpu[name])]));
    return {
      seconds,
      /** Per process with its children and threads: user and system time, and both apart. */
      cpuUs: used(({ user, system }) => user + system),
      userUs: used(({ user }) => user),
      systemUs: used(({ system }) => system),
      /** Share of the window that each core was busy, or taken away by the hypervisor, whoever used it. */
      cores: after.cores.map(({ busy, stolen }, core) => ({
        busy: share(busy, before.cores[core].busy),
        stolen: share(stolen, before.cores[core].stolen),
      })),
    };
  };
}

function sample(watch) {
  const cpu = Object.fromEntries(Object.entries(watch).map(([name, pid]) => [name, cpuTimesUs(pid)]));
  return { atUs: nowUs(), cpu, cores: [coreUs(0), coreUs(1)] };
}
