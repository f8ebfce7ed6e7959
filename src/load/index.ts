// The door of the load client: plans, workloads, the run, and what it comes to. Re-exports only.
export { type Answer, type ClientSettings, LoadClient, type Sender } from './client.ts';
export { CSV_HEAD, csvLine } from './csv.ts';
export type { Distribution } from './histogram.ts';
export { htmlOf } from './html.ts';
export { type Condition, type Limits, readConditions, readLimits } from './limits.ts';
export { LiveView } from './live.ts';
export type { Arrivals } from './plan.ts';
export { Recorder } from './recorder.ts';
export { type LoadReport, loadReport, type RunDescription } from './report.ts';
export { LOAD_DIALECTS } from './request.ts';
export { LoadRun, type RunSettings } from './runner.ts';
export { type Script, type Workload, LoadError } from './script.ts';
export { type Length, syntheticWorkload } from './synthetic.ts';
export { syntheticConversations, syntheticTrace } from './synthetic-file.ts';
export { tableOf } from './text-table.ts';
export { workloadOf } from './workload-file.ts';
