// Public API of the load client: arrivals, workloads, runs and reports. Re-exports only.
export { type LoadResponse, type ClientSettings, LoadClient, type Sender } from './load-client.ts';
export { CSV_HEAD, csvLine } from './sample.ts';
export type { HistogramSummary } from './histogram.ts';
export { htmlOf } from './html-report.ts';
export { type Condition, type Limits, readConditions, readLimits } from './load-limits.ts';
export { LiveView } from './live-view.ts';
export type { Arrivals } from './arrivals.ts';
export { Recorder } from './recorder.ts';
export { type LoadReport, loadReport, type RunDescription } from './load-report.ts';
export { LOAD_DIALECTS } from './load-request.ts';
export { LoadRun, type RunSettings } from './load-run.ts';
export { type Script, type Workload, LoadError } from './workload.ts';
export { type Length, type SyntheticSettings, syntheticWorkload } from './synthetic.ts';
export { syntheticConversations, syntheticTrace } from './synthetic.ts';
export { tableOf } from './text-report.ts';
export { workloadOf } from './workload-file.ts';
