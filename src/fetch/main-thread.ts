// Names of page fetching for main threads: the service that downloads and cleans. Ingress threads load none of it.
export { createGuard } from './guard.ts';
export { GuardedClient } from './guarded-client.ts';
export { PageService } from './pages.ts';
export { WEBRTC_FLAGS } from './renderer/browser.ts';
