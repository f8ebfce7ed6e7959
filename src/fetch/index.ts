// The door of the fetch room.
export { createDownloader, type Downloader } from './download.ts';
export { PageDesk, type PendingPage } from './desk.ts';
export type {
  CleanOptions,
  CleanPage,
  PageAnswer,
  PageExtra,
  PageFormat,
  PageLink,
  PageMetadata,
  PageRequest,
} from './page.ts';
export { pages, type PagesCommand, type Tools } from './pages.ts';
export { type CleaningPool, type CleaningStats, createCleaningPool } from './pool.ts';
