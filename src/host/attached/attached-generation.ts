// One generation by an attached engine: sends the request, reads the events of the response and passes them to the sink,
// which gets exactly one end unless the generation was cancelled.
import { parseEvents } from '../../net/sse.ts';
import { InvalidOptions } from '../completion-options.ts';
import { type CompletionEnd, type Run, type Sink, BLANK_END } from '../model-engine.ts';
import { membersOf, parsedJson } from '../../net/json-object.ts';
import { headerOf } from '../../net/flat-headers.ts';
import { AttachedEngineError, firstBytes } from './engine-dispatch.ts';
import { type EngineHttp, failureOf } from './engine-http.ts';
import type { EngineProtocol, ProtocolEvent } from './engine-protocol.ts';
import { wholeEvents } from './response-events.ts';
const HEADERS = ['content-type', 'application/json', 'accept', 'text/event-stream', 'accept-encoding', 'identity'];

/** The most of a whole answer, which repeats the prompt. */
const MAX_ANSWER_BYTES = 128 * 1024 * 1024;

/** The most of an error body that is read. */
const MAX_ERROR_BYTES = 64 * 1024;

/** Begins at once. `onEnd` is called with the sink's end, or with null when the generation was cancelled before. */
export function generate(
  http: EngineHttp,
  protocol: EngineProtocol,
  sink: Sink,
  onEnd: (end: CompletionEnd | null, cause: Error | null) => void,
): Run {
  const gone = new AbortController();
  let isOver = false;
  const end = (how: CompletionEnd, cause: Error | null): void => {
    if (isOver) return;
    isOver = true;
    onEnd(how, cause);
    sink.end(how);
  };
  /** False when the rest of the answer is not wanted; otherwise it is read to its end, to keep the connection. */
  const hear = (read: ProtocolEvent): boolean => {
    if (isOver) return true;
    if (read.start !== undefined) sink.start(read.start.promptTokens, read.start.cachedTokens, read.start.slotId);
    const { text = '', reports = [], details } = read;
    if (text !== '' || reports.length > 0 || details !== undefined) sink.text(text, reports, false, details);
    if (read.failure !== undefined) throw new AttachedEngineError(read.failure);
    if (read.end !== undefined) end(read.end, null);
    return read.isCut !== true;
  };
  runProtocol(http, protocol, { hear, rest: () => sink.rest?.() }, gone.signal)
    .then(() => {
      const last = protocol.close();
      if (last === undefined && !isOver)
        throw new AttachedEngineError('the engine ended its answer before it was complete');
      if (last !== undefined) end(last, null);
    })
    .catch((error: Error) =>
      end({ ...BLANK_END, reason: 'failed', message: error.message, status: statusOf(error) }, error),
    );
  return {
    cancel() {
      if (isOver) return;
      isOver = true;
      gone.abort(new Error('cancelled'));
      onEnd(null, null);
    },
  };
}

/** A status for a failure before the answer. */
function statusOf(error: Error): number {
  if (error instanceof AttachedEngineError) return error.status;
  return error instanceof InvalidOptions ? 422 : 500;
}

/** Where the events go. */
interface Listener {
  readonly hear: (read: ProtocolEvent) => boolean;
  /** As in Sink: backpressure of the client. */
  readonly rest: () => Promise<void> | undefined;
}

async function runProtocol(
  http: EngineHttp,
  protocol: EngineProtocol,
  { hear, rest }: Listener,
  signal: AbortSignal,
): Promise<void> {
  const { path, body } = await protocol.ask();
  const answer = await http.post(path, HEADERS, Buffer.from(JSON.stringify(body)), signal);
  if (answer.status !== 200) throw failureOf(answer.status, String(await firstBytes(answer, MAX_ERROR_BYTES)));
  const type = headerOf(answer.headers, 'content-type') ?? '';
  if (body['stream'] === false) {
    const event = parsedJson(String(await firstBytes(answer, MAX_ANSWER_BYTES)));
    if (typeof event !== 'object' || event === null)
      throw new AttachedEngineError('the engine sent an answer that is not JSON');
    return void hear(protocol.hear(membersOf(event)));
  }
  if (!type.toLowerCase().startsWith('text/event-stream')) {
    throw new AttachedEngineError('the engine answered without a stream of events');
  }
  for await (const events of wholeEvents(answer.body)) {
    for (const { data } of parseEvents(events)) {
      if (data === '[DONE]') continue;
      const event = parsedJson(data);
      if (typeof event !== 'object' || event === null)
        throw new AttachedEngineError('the engine sent an event that is not JSON');
      if (!hear(protocol.hear(membersOf(event)))) return;
    }
    await rest();
  }
}
