// Public surface of page fetching for all threads. The service is in main-thread.ts.
export type { PageExtra, PageFormat, PageImage, PageLink, PageMetadata } from '../extract/index.ts';
export type { PageExplanation } from './page-trace.ts';
export type { CleanResult, CleanTask } from './cleaning-pool.ts';
export type { PageAnswer, PageRequest } from './page-answer.ts';
export { PageClient, type PagesCommand } from './page-client.ts';
