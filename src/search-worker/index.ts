// The door of the search worker.
export { createSearchWorker, type SearchWorker, type SearchWorkerSettings } from './search-worker.ts';
