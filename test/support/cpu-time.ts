// CPU time of work in tests of what costs little: other programs on the machine take time of the clock, not of the process.

/** User time that this process takes for the work, in milliseconds. */
export function cpuMsOf(work: () => void): number {
  const start = process.cpuUsage();
  work();
  return process.cpuUsage(start).user / 1000;
}
