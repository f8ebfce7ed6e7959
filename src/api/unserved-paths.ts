// Paths of the OpenAI and Anthropic interfaces that a gateway before several servers cannot serve, each with the reason. What such a
// request makes would be known to one server alone, and the next request could reach another one. Paths of products of whose
// interfaces the gateway has a part. And paths that administer model servers, which the gateway's credential may permit, but no client.

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

/**
 * Paths of model servers that change the server for all who use it, read what is not for clients, or run programs. With all paths below them, and
 * below `/v1` too: a base URL may end with it.
 */
export const CONTROL_PATHS: readonly { readonly servers: string; readonly paths: readonly string[] }[] = [
  {
    servers: 'llama-server, LM Studio',
    paths: [
      ...['/api/v1/models', '/cors-proxy', '/lora-adapters', '/models/load', '/models/unload', '/props', '/slots'],
      // Runs commands on the machine of the server.
      '/tools',
    ],
  },
  {
    servers: 'Ollama',
    paths: [
      ...['/api/blobs', '/api/copy', '/api/create', '/api/delete', '/api/experimental', '/api/me', '/api/pull'],
      ...['/api/push', '/api/signout'],
    ],
  },
  {
    servers: 'vLLM, SGLang',
    paths: ['/load_lora_adapter', '/start_profile', '/stop_profile', '/unload_lora_adapter'],
  },
  {
    servers: 'vLLM',
    paths: [
      ...['/abort_requests', '/collective_rpc', '/fault_tolerance', '/finish_weight_update'],
      ...['/init_weight_transfer_engine', '/pause', '/reset_encoder_cache', '/reset_mm_cache', '/reset_prefix_cache'],
      ...['/resume', '/scale_elastic_ep', '/sleep', '/start_weight_update', '/update_weights', '/wake_up'],
    ],
  },
  {
    servers: 'SGLang',
    paths: [
      ...['/abort_request', '/add_external_corpus', '/attach_hicache_storage_backend', '/begin_weight_update'],
      ...['/clear_hicache_storage_backend', '/close_session', '/configure_logging', '/continue_generation'],
      ...['/destroy_weights_update_group', '/detach_hicache_storage_backend', '/dump_expert_distribution_record'],
      ...['/dumper', '/end_weight_update', '/flush_cache', '/freeze_gc', '/get_weights_by_name', '/hicache'],
      ...['/init_weights_send_group_for_remote_instance', '/init_weights_update_group'],
      ...['/load_lora_adapter_from_tensors', '/open_session', '/pause_generation', '/pd_role_switch'],
      ...['/release_memory_occupation', '/remove_external_corpus', '/resume_memory_occupation'],
      ...['/send_weights_to_remote_instance', '/set_internal_state', '/set_trace_level', '/slow_down'],
      ...['/start_expert_distribution_record', '/stop_expert_distribution_record', '/update_weight_version'],
      ...['/update_weights_from_disk', '/update_weights_from_distributed', '/update_weights_from_ipc'],
      ...['/update_weights_from_tensor', '/weights_checker'],
    ],
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

const CONTROLS: ReadonlySet<string> = new Set(CONTROL_PATHS.flatMap(({ paths }) => paths));

const LONGEST = Math.max(...[...BY_PATH.keys(), ...CONTROLS].map(({ length }) => length));

/** Where the longest beginning of a path ends that may be in a table: to look up each of thousands takes tens of milliseconds. */
function endOfBeginning(path: string): number {
  return path.length <= LONGEST ? path.length : path.lastIndexOf('/', LONGEST);
}

/** Why a POST to `path` does not pass to a server; undefined for all other paths. The path is read as a server may read it. */
export function controlReason(path: string): string | undefined {
  const read = path
    .replaceAll(/%([\da-f]{2})/gi, (_, code: string) => String.fromCharCode(Number.parseInt(code, 16)))
    .replaceAll(/;[^/]*/g, '')
    .replace(/^\/v1(?=\/)/, '');
  for (let end = endOfBeginning(read); end > 0; end = read.lastIndexOf('/', end - 1)) {
    if (CONTROLS.has(read.slice(0, end))) return 'it administers model servers; call the server itself';
  }
  return undefined;
}

/** Why `path` is not served; undefined for all other paths. Slashes at the end do not matter. */
export function unservedReason(path: string): string | undefined {
  const product = productOf(path);
  if (product !== undefined) return PRODUCT_REASONS[product];
  if (!path.startsWith('/v1/')) return undefined;
  for (let end = endOfBeginning(path); end > '/v1'.length; end = path.lastIndexOf('/', end - 1)) {
    const reason = BY_PATH.get(path.slice(0, end));
    if (reason !== undefined) return reason;
  }
  return undefined;
}
