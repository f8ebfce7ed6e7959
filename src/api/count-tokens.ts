// How many tokens a prompt has: `POST /v1/messages/count_tokens`, `/v1/responses/input_tokens` and `/v1/chat/completions/input_tokens`. A CRN
// of the model counts; where none can, or none does in time, the number is an estimate and the answer says so. Free of charge, but it
// counts as a request of its key.

import { type Dialect, DIALECTS, named, type NamedBody, promptSize, translationOf } from '../dialect/index.ts';
import { HeadraceError } from '../errors.ts';
import { respondJson } from '../ingress/respond.ts';
import { type Member, type Model, RANK } from '../routing/index.ts';
import { credentialLines, linesFor, requestLines, type TokenCountRequest } from '../upstream/index.ts';
import { hostedRequestOf, mayHost } from '../web-search/index.ts';
import type { ApiDeps, Endpoint } from './deps.ts';
import { hostsSearch } from './hosted-search.ts';
import { findModel } from './inference.ts';
import { paid, type PaidEndpoint, type PaidRequest, PendingListener, unmeteredRange } from './pipeline.ts';
import { refuse } from './refuse.ts';
import { withEarlier } from './response-state.ts';
import { scannedBody } from './scanned-body.ts';

interface ModelRequest extends NamedBody {
  readonly model: Model;
}

const inputTokens = (tokens: number): object => ({ object: 'response.input_tokens', input_tokens: tokens });

/** What differs between the dialects. */
interface CountedDialect {
  readonly dialect: Dialect;
  readonly answer: (tokens: number) => object;
}

const COUNTED = {
  messages: { dialect: DIALECTS.messages, answer: (tokens) => ({ input_tokens: tokens }) },
  responses: { dialect: DIALECTS.responses, answer: inputTokens },
  chat: { dialect: DIALECTS['chat-completions'], answer: inputTokens },
} as const satisfies Readonly<Record<string, CountedDialect>>;

const ESTIMATE = ['x-headrace-estimate', 'true'];

/** Counts the tokens of a prompt in a dialect. Throws 401 for a bad key; every later refusal is answered. */
export function countTokens(name: keyof typeof COUNTED): Endpoint {
  const counted = COUNTED[name];
  const endpoint: PaidEndpoint<ModelRequest> = {
    read(exchange, deps, received) {
      const { body, scan } = scannedBody(exchange.path, deps.settings, received);
      const model = findModel(exchange, deps, scan.model);
      return { ...named(body, scan, model.id), model };
    },
    prepares: () => name === 'responses',
    prepare(request, proceed) {
      const { deps, exchange, input } = request;
      withEarlier({ exchange, deps, body: input.body, scan: input.scan, model: input.model.id }, (body) => {
        proceed(body === input.body ? request : { ...request, body, input: endpoint.read(exchange, deps, body) });
      });
    },
    price: () => unmeteredRange(0),
    quote: () => null,
    run: (request) =>
      void count(request, counted).catch((thrown: unknown) => refuse(request.exchange, request.deps, thrown)),
  };
  return paid(endpoint);
}

async function count(request: PaidRequest<ModelRequest>, dialect: CountedDialect): Promise<void> {
  const { deps, exchange, input } = request;
  const gone = new AbortController();
  const listener = new PendingListener(exchange, deps);
  listener.pending = gone;
  exchange.listener = listener;
  const members = membersOf(input.model, deps);
  const asked = askedOf(request, dialect);
  const counted = await deps.tokenCounter.count(members, asked, gone.signal).catch((thrown: unknown) => {
    if (gone.signal.aborted) return undefined;
    throw thrown;
  });
  listener.pending = null;
  if (counted === undefined || exchange.handedOver) return;
  if (counted === null) {
    respondJson(exchange, 200, dialect.answer(estimate(input, dialect, deps)), ESTIMATE);
    return;
  }
  const { answer, member, tokens } = counted;
  exchange.crn = member.url;
  if (answer === null) respondJson(exchange, 200, dialect.answer(tokens));
  else
    exchange.respond(
      answer.status,
      ['content-type', answer.headers['content-type'] ?? 'application/json'],
      answer.body,
    );
}

/** Those that are not down, the best first. */
function membersOf({ members }: Model, { board, random }: ApiDeps): readonly Member[] {
  const fit = members.filter(({ member }) => board.rank(member) > RANK.down);
  const first = Math.floor(random() * fit.length);
  return [...fit.slice(first), ...fit.slice(0, first)].sort((a, b) => board.rank(b.member) - board.rank(a.member));
}

function askedOf(
  { access, deps, exchange, input }: PaidRequest<ModelRequest>,
  { dialect }: CountedDialect,
): TokenCountRequest {
  const { board, clock, headerRules } = deps;
  const { apiKey, authorization, query } = exchange;
  const credential =
    access.credential.kind === 'none' ? '' : credentialLines({ authorization, apiKey, bearer: access.bearer });
  const { headers, remoteAddress, requestId } = exchange;
  const lines = requestLines(headerRules, { headers, remoteAddress, requestId, credential, readable: true });
  const nowMs = clock.now();
  let chat: Buffer | null | undefined;
  return {
    model: input.model.id,
    keyChecked: deps.settings.keys.required,
    path: query === '' ? exchange.path : `${exchange.path}?${query}`,
    body: input.body,
    headers: (member) => ({ 'content-type': 'application/json', ...fieldsOf(linesFor(lines, member.apiKey)) }),
    dialect: dialect.name,
    speaks: (member) => board.speaks(member, dialect.bit, nowMs),
    chat: () => (chat ??= chatOf(input, dialect, hostsSearch(deps.settings, input.model.id))),
  };
}

function fieldsOf(lines: string): Record<string, string> {
  const fields: Record<string, string> = {};
  for (const line of lines.split('\r\n')) {
    const colon = line.indexOf(':');
    if (colon > 0) fields[line.slice(0, colon)] = line.slice(colon + 1).trim();
  }
  return fields;
}

/** The request as one of chat completions; null when it cannot be carried: a count is no reason to refuse it. */
function chatOf({ body, scan }: NamedBody, dialect: Dialect, isHosting: boolean): Buffer | null {
  try {
    const hosted = isHosting && mayHost(body) ? hostedRequestOf(dialect.name, body, scan.values) : null;
    if (hosted !== null) return Buffer.from(JSON.stringify(hosted.chat));
    const translation = translationOf(dialect);
    return translation === undefined ? body : translation.request(body).body;
  } catch (thrown) {
    if (thrown instanceof HeadraceError) return null;
    throw thrown;
  }
}

/** Tokens of an image of usual size. */
const IMAGE_TOKENS = 1500;

/** Tokens by the size of the prompt and what tokens of the model have had on average. Attachments are no text. */
function estimate({ body, model }: ModelRequest, { dialect }: CountedDialect, { tokenSizes }: ApiDeps): number {
  const { attachments, bytes } = promptSize(body, dialect.name);
  return Math.max(1, Math.ceil(bytes / tokenSizes.of(model.id)) + attachments * IMAGE_TOKENS);
}
