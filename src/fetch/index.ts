// Public surface of page fetching.
export type { PageExtra, PageFormat, PageLink, PageMetadata } from '../extract/index.ts';
export type { CleanResult } from './cleaning-pool.ts';
export { PageClient } from './page-client.ts';
export { PageService } from './page-service.ts';
export type { PageAnswer, PageRequest } from './page.ts';
export type { PagesCommand } from './pages.ts';
