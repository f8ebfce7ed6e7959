// Public surface of page fetching.
export type { PageExtra, PageFormat, PageLink, PageMetadata } from '../extract/index.ts';
export { createGuard } from './guard.ts';
export { GuardedClient } from './guarded-client.ts';
export type { PageExplanation } from './page-trace.ts';
export type { CleanResult } from './cleaning-pool.ts';
export { type PageAnswer, PageClient, type PageRequest, PageService, type PagesCommand } from './pages.ts';
