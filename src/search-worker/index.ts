// Public names of the search worker: one search engine behind HTTP. Re-exports only.
export { createSearchWorker, type SearchWorker, type SearchWorkerSettings } from './search-worker.ts';
