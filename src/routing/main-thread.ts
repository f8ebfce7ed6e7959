// Names of routing for main threads: health of CRNs and their key-value events. Ingress threads load none of it.
export { readCrnReport } from './crn-report.ts';
export { crnRegistry, outcomeQueue } from './crn-registry.ts';
export { SEQUENCE_BYTES, writeSequence } from './kv-event-batch.ts';
export { KvEvents } from './kv-events.ts';
export { probe } from './probe.ts';
