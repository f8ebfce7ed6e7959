// Relays requests of compatible dialects to an attached engine: the body unchanged, headers without credentials and
// hop-by-hop fields (RFC 9110, section 7.6.1). A failure before the response head is an error body in the dialect of the
// path; after it the body fails.
import { type Scan, scanBody } from '../../dialect/index.ts';
import { chosenHeaders, headersByName } from '../../net/flat-headers.ts';
import { endToEndHeaders } from '../../upstream/index.ts';
import type { RawAnswer, RawRequest } from '../model-engine.ts';
import { type DetectedEngine, DIALECT_PATHS } from './detect.ts';
import { type OpenAnswer, AttachedEngineError, firstBytes } from './engine-dispatch.ts';
import { type EngineHttp, failureOf } from './engine-http.ts';
import { withIndexes } from './response-events.ts';
/** Credentials and cookies of the client, and words meant for the host. */
const OURS = /^(authorization|x-api-key|api-key|x-payment|cookie|x-headrace-.*|x-forwarded-.*|forwarded)$/;

/** What the host says itself, or what holds for one connection only. */
const NOT_PASSED = new Set([
  'connection',
  'keep-alive',
  'proxy-authenticate',
  'proxy-connection',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
  'date',
  'x-request-id',
  'request-id',
  'x-host',
]);

/** Of the body of a 404: one that says which model is missing is short. */
const MAX_MISSING_BYTES = 64 * 1024;

/** Index of the value of `model` in the spans of a scanned body. */
const MODEL_SPAN = 0;

/** Who is asked, and who hears that the engine gave no answer. */
export interface RelayDeps {
  readonly http: EngineHttp;
  readonly engine: DetectedEngine;
  readonly onFailure: (failure: AttachedEngineError) => void;
}

/** Passes a request on; `modelId` is the engine's name for the model it asks for. */
export async function relayToEngine(deps: RelayDeps, modelId: string, request: RawRequest): Promise<RawAnswer> {
  const { http, engine, onFailure } = deps;
  const { path, signal } = request;
  if (DIALECT_PATHS.includes(path) && !engine.dialects.has(path)) return notServed(engine, path);
  const scan = scanBody(request.body, { requireModel: false });
  const body = withModel(request.body, scan, modelId);
  try {
    const answer = await http.post(path, headersOf(request, scan), body, signal);
    // Whether the engine serves the other paths shows only now.
    if (answer.status === 404 && !DIALECT_PATHS.includes(path)) return await missing(engine, path, answer);
    if (isResponseStream(engine, path, answer)) return passed({ ...answer, body: withIndexes(answer.body) });
    if (answer.status !== 401 && answer.status !== 403) return passed(answer);
    // The key that was refused is the host's: not for the client to mend.
    await drop(answer);
    return failed(path, failureOf(answer.status, ''));
  } catch (error) {
    if (!(error instanceof AttachedEngineError)) throw error;
    onFailure(error);
    return failed(path, error);
  }
}

function headersOf({ headers }: RawRequest, scan: Scan): string[] {
  const flat: string[] = [];
  for (const [name, value] of Object.entries(headers)) {
    if (value === undefined || OURS.test(name)) continue;
    for (const one of [value].flat()) flat.push(name, one);
  }
  const isReadable = scan.ok && scan.stream;
  const sent = chosenHeaders(endToEndHeaders(flat), (name) => !isReadable || name !== 'accept-encoding');
  if (!sent.includes('accept-encoding')) sent.push('accept-encoding', 'identity');
  const requestId = headers['x-request-id'];
  if (typeof requestId === 'string') sent.push('x-request-id', requestId);
  return sent;
}

/** The same bytes, but for the name of the model when the engine has another one. */
function withModel(body: Buffer, scan: Scan, modelId: string): Buffer {
  if (!scan.ok || scan.model === modelId) return body;
  const [start = -1, end = -1] = scan.spans.slice(MODEL_SPAN, MODEL_SPAN + 2);
  if (start < 0) return body;
  return Buffer.concat([body.subarray(0, start), Buffer.from(JSON.stringify(modelId)), body.subarray(end)]);
}

function passed({ status, headers, body }: OpenAnswer): RawAnswer {
  const named = new Set(valuesOf(headers, 'connection').flatMap((value) => value.toLowerCase().split(/[\s,]+/)));
  const isOurs = (name: string): boolean =>
    NOT_PASSED.has(name) || named.has(name) || name.startsWith('access-control-');
  const kept = chosenHeaders(headers, (name) => !isOurs(name));
  return { status, headers: headersByName(kept), body };
}

function valuesOf(headers: readonly string[], name: string): string[] {
  return headers.filter((_, at) => at % 2 === 1 && headers[at - 1] === name);
}

async function drop({ body }: OpenAnswer): Promise<void> {
  for await (const _ of body) return;
}

function isResponseStream({ kind }: DetectedEngine, path: string, { status, headers }: OpenAnswer): boolean {
  if (kind !== 'llama-server' || path !== '/v1/responses' || status !== 200) return false;
  return valuesOf(headers, 'content-type').some((type) => type.startsWith('text/event-stream'));
}

function notServed({ kind, dialects }: DetectedEngine, path: string): RawAnswer {
  const served = [...dialects].join(', ');
  return problem(path, 404, `The engine behind this host (${kind}) does not serve ${path}; it serves ${served}`);
}

/** A 404 for the model passes, one for the path says what the engine has. */
async function missing(engine: DetectedEngine, path: string, answer: OpenAnswer): Promise<RawAnswer> {
  const body = await firstBytes(answer, MAX_MISSING_BYTES);
  const isOfModel = body.length <= MAX_MISSING_BYTES && /model/i.test(body.toString());
  return isOfModel ? passed({ ...answer, body: once(body) }) : notServed(engine, path);
}

function failed(path: string, { status, message }: AttachedEngineError): RawAnswer {
  return problem(path, status, `${message[0]!.toUpperCase()}${message.slice(1)}`);
}

/** An error body that clients of either family understand, beside the `detail` of the interface. */
function problem(path: string, status: number, message: string): RawAnswer {
  const type = status === 404 ? 'not_found_error' : 'api_error';
  const error = path.startsWith('/v1/messages') ? { type, message } : { message, type, code: null, param: null };
  const head = path.startsWith('/v1/messages') ? { type: 'error' } : {};
  const bytes = Buffer.from(JSON.stringify({ detail: message, ...head, error }));
  return {
    status,
    headers: { 'content-type': 'application/json', 'content-length': String(bytes.length) },
    body: once(bytes),
  };
}

async function* once(bytes: Buffer): AsyncGenerator<Buffer, void, void> {
  yield bytes;
}
