export { createSearchWorker, type SearchWorker, type SearchWorkerSettings } from './search-worker.ts';
