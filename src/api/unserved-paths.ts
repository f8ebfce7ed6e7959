// Paths of the OpenAI and Anthropic interfaces that a gateway before several servers cannot serve, each with the reason. What such a
// request makes would be known to one server alone, and the next request could reach another one. And paths of products of whose
// interfaces the gateway has a part.

import { type Product, productOf } from '../compat/index.ts';

/** One entry of the table. */
export interface UnservedPath {
  /** The path and all paths below it. */
  readonly path: string;
  /** One sentence: why, and what to do instead. */
  readonly reason: string;
}

/** The longest path that fits counts. */
export const UNSERVED_PATHS: readonly UnservedPath[] = [
  {
    path: '/v1/files',
    reason: 'files belong to one server, and the gateway keeps none; put the content into the request',
  },
  { path: '/v1/uploads', reason: 'uploads become files of one server, and the gateway keeps none' },
  {
    path: '/v1/batches',
    reason: 'batches are read from files, and the gateway keeps none; send the requests one by one',
  },
  { path: '/v1/messages/batches', reason: 'batches belong to one server; send the requests one by one' },
  { path: '/v1/fine_tuning', reason: 'fine-tuning is a job of one server; call that server itself' },
  { path: '/v1/fine-tunes', reason: 'fine-tuning is a job of one server; call that server itself' },
  { path: '/v1/evals', reason: 'evaluation is a job of one server; call that server itself' },
  { path: '/v1/videos', reason: 'a video is a job of one server; call that server itself' },
  {
    path: '/v1/assistants',
    reason: 'assistants are state of one server; use /v1/responses or /v1/chat/completions',
  },
  { path: '/v1/threads', reason: 'threads are state of one server; use /v1/responses or /v1/chat/completions' },
  {
    path: '/v1/conversations',
    reason: 'the gateway keeps no conversations; continue a response with previous_response_id',
  },
  {
    path: '/v1/vector_stores',
    reason: 'vector stores are state of one server; call /v1/embeddings and keep the vectors yourself',
  },
  { path: '/v1/containers', reason: 'containers are state of one server' },
  {
    path: '/v1/realtime',
    reason: 'the gateway carries WebSockets of /v1/responses only, and no WebRTC',
  },
  {
    path: '/v1/chat/completions',
    reason: 'chat completions are not stored, so that none can be listed, changed or deleted; responses are',
  },
];

/** What there is of the interfaces of other products: nothing else below their paths is served. */
const PRODUCT_REASONS: Readonly<Record<Product, string>> = {
  tavily: 'of Tavily there are POST /tavily/search and /tavily/extract',
  searxng: 'of SearXNG there is /searxng/search with format=json',
  jina: 'of the Reader there are GET and POST of /jina/URL',
  firecrawl: 'of Firecrawl there are POST /firecrawl/v2/scrape, /v2/search, /v1/scrape and /v1/search below /firecrawl',
};

const BY_PATH: ReadonlyMap<string, string> = new Map(UNSERVED_PATHS.map(({ path, reason }) => [path, reason]));

/** Why `path` is not served; undefined for all other paths. Slashes at the end do not matter. */
export function unservedReason(path: string): string | undefined {
  const product = productOf(path);
  if (product !== undefined) return PRODUCT_REASONS[product];
  if (!path.startsWith('/v1/')) return undefined;
  for (let end = path.length; end > '/v1'.length; end = path.lastIndexOf('/', end - 1)) {
    const reason = BY_PATH.get(path.slice(0, end));
    if (reason !== undefined) return reason;
  }
  return undefined;
}
