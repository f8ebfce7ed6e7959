// Other spellings of the interface's paths, as clients make them from a base URL without `/v1`, with `/v1` twice, or in the form of Azure,
// or with a slash at the end.
// Asked only for paths that are no endpoint. No path of the contract is among them: `POST /completions` stays the llama-style completion.

import { percentDecoded } from '../net/percent-decoding.ts';

/** One spelling: the beginning of a path or the whole of it, and what stands for it. */
interface PathAlias {
  /** For people: the spellings, and what they stand for. */
  readonly sent: string;
  readonly meant: string;
  readonly from: RegExp;
  /** Replacement in the sense of `String.replace`. */
  readonly to: string;
  /** Model servers have something else at this path, so it stands for the other one only where an SDK asks. */
  readonly forSdks?: true;
}

/** The first row that matches counts. The group `model` names the model. */
export const PATH_ALIASES: readonly PathAlias[] = [
  // A base URL with `/v1` in an SDK that adds `/v1` itself, as those of Anthropic do.
  { sent: '/v1/v1/…', meant: '/v1/…', from: /^(?:\/v1)+(?=\/v1\/)/, to: '' },
  // Servers of Python redirect such requests.
  {
    sent: '/v1/chat/completions/ and other endpoints of models with a slash at the end',
    meant: 'the same without it',
    from: /^(\/v1\/(?:(?:chat\/completions|responses)(?:\/input_tokens)?|completions|embeddings|messages(?:\/count_tokens)?|models))\/$/,
    to: '$1',
  },
  // Azure: the model is the deployment; all else is as below `/v1`. The query `api-version` has no meaning here.
  {
    sent: '/openai/deployments/MODEL/…',
    meant: '/v1/…, with this model',
    from: /^\/openai\/deployments\/(?<model>[^/]+)(?=\/[a-z])/,
    to: '/v1',
  },
  { sent: '/openai/v1/…', meant: '/v1/…', from: /^\/openai\/v1(?=\/[a-z])/, to: '/v1' },
  {
    sent: '/openai/responses, /openai/models',
    meant: '/v1/responses, /v1/models, and what is below them',
    from: /^\/openai(?=\/(?:responses|models)(?:\/|$))/,
    to: '/v1',
  },
  // A base URL without `/v1`.
  {
    sent: '/chat/completions, /messages, and their counts of tokens',
    meant: 'the same below /v1',
    from: /^(?=\/(?:chat\/completions(?:\/input_tokens)?|messages(?:\/count_tokens)?)$)/,
    to: '/v1',
  },
  {
    sent: '/responses, /models, and what is below them',
    meant: 'the same below /v1',
    from: /^(?=\/(?:responses|models)(?:\/|$))/,
    to: '/v1',
  },
  // Many servers of the protocol have the slash.
  { sent: '/mcp/', meant: '/mcp', from: /^\/mcp\/$/, to: '/mcp' },
  // SearXNG answers at its root too, and LangChain asks there.
  { sent: '/searxng', meant: '/searxng/search', from: /^\/searxng\/?$/, to: '/searxng/search' },
  { sent: '/jina', meant: '/jina/', from: /^\/jina$/, to: '/jina/' },
  // llama-server and text-embeddings-inference have APIs of their own at some of these.
  {
    sent: '/embeddings, /moderations, /audio/…, /images/…',
    meant: 'the same below /v1',
    from: /^(?=\/(?:embeddings|moderations|(?:audio|images)\/[a-z]+)$)/,
    to: '/v1',
    forSdks: true,
  },
];

/** What a path stands for. */
export interface AliasedPath {
  readonly path: string;
  /** The model that it names; '' for none. */
  readonly model: string;
}

/** Undefined for a path that stands for itself. `isSdk` is asked at most once. */
export function aliasedPath(path: string, isSdk: () => boolean): AliasedPath | undefined {
  if (path.startsWith('/v1/') && !path.startsWith('/v1/v1/') && !path.endsWith('/')) return undefined;
  for (const { forSdks = false, from, to } of PATH_ALIASES) {
    const match = from.exec(path);
    if (match === null) continue;
    if (forSdks && !isSdk()) return undefined;
    return { path: path.replace(from, to), model: percentDecoded(match.groups?.['model'] ?? '') };
  }
  return undefined;
}
