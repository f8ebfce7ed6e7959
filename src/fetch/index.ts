// Public surface of page fetching.
export type { PageExtra, PageFormat, PageImage, PageLink, PageMetadata } from '../extract/index.ts';
export { createGuard } from './guard.ts';
export { GuardedClient } from './guarded-client.ts';
export type { PageExplanation } from './page-trace.ts';
export type { CleanResult, CleanTask } from './cleaning-pool.ts';
export type { PageAnswer, PageRequest } from './page-answer.ts';
export { PageClient, PageService, type PagesCommand } from './pages.ts';
export { WEBRTC_FLAG } from './renderer/browser.ts';
