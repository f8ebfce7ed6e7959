// Calls of tools in their plainest form, as most clients of the revisions of 2025 write them: answered without the SDK, which takes
// several times the CPU of a search, and byte for byte as it answers. Whatever is not as here, the SDK serves.

import type { Clock, TimerHandle } from '../actor/index.ts';
import type { Exchange } from '../ingress/exchange.ts';
import { isJsonObject } from '../net/json-object.ts';
import { PROTOCOL_HEADERS, type ResponsePump } from './exchange-response.ts';
import type { Caller } from './server.ts';
import { KEEP_ALIVE_MS, resultOf, runTool, type Tool } from './tool.ts';

export interface PlainCall {
  readonly id: number | string;
  readonly tool: Tool;
  readonly input: Readonly<Record<string, unknown>>;
}

/** Without one, a client is of the revision 2025-03-26. */
const REVISIONS = ['2025-03-26', '2025-06-18', '2025-11-25'];

const EVENT_HEADERS = [
  ...['cache-control', 'no-cache, no-transform', 'content-type', 'text/event-stream'],
  ...['x-accel-buffering', 'no'],
];

const KEEP_ALIVE = Buffer.from(': keepalive\n\n');

/** The call that a message is; null where the SDK has to look. `message` is from JSON. */
export function plainCallOf({ headers }: Exchange, message: unknown, tools: readonly Tool[]): PlainCall | null {
  if (!isJsonObject(message) || !isJsonObject(message['params']) || !hasPlainHead(headers)) return null;
  const { id, jsonrpc, method, params, ...more } = message;
  if (jsonrpc !== '2.0' || method !== 'tools/call' || Object.keys(more).length > 0) return null;
  if (typeof id !== 'string' && !Number.isSafeInteger(id)) return null;
  const { arguments: input = {}, name, ...moreParams } = params;
  const tool = tools.find((each) => each.name === name);
  if (tool === undefined || !isJsonObject(input) || Object.hasOwn(input, '__proto__')) return null;
  return Object.keys(moreParams).length > 0 ? null : { id: id as number | string, tool, input };
}

/** Whether the headers that the protocol reads are those of such a call, each once. */
function hasPlainHead(headers: readonly string[]): boolean {
  let accept: string | null = null;
  let type: string | null = null;
  let revision: string | null = null;
  for (let i = 0; i < headers.length; i += 2) {
    const [name, value] = [headers[i] as string, headers[i + 1] as string];
    if (name === 'accept' && accept === null) accept = value;
    else if (name === 'content-type' && type === null) type = value;
    else if (name === 'mcp-protocol-version' && revision === null) revision = value;
    else if (name !== 'mcp-session-id' && PROTOCOL_HEADERS.test(name)) return false;
  }
  const takesBoth = accept !== null && accept.includes('application/json') && accept.includes('text/event-stream');
  return takesBoth && type === 'application/json' && (revision === null || REVISIONS.includes(revision));
}

/** Runs a call and answers with one event. */
export async function servePlainCall(
  { id, input, tool }: PlainCall,
  exchange: Exchange,
  pump: ResponsePump,
  clock: Clock,
  signal: AbortSignal,
  caller: Pick<Caller, 'began'>,
): Promise<void> {
  exchange.start(200, EVENT_HEADERS, -1);
  const schedule = (): TimerHandle =>
    clock.setTimeout(() => {
      timer = schedule();
      exchange.write(KEEP_ALIVE);
    }, KEEP_ALIVE_MS);
  let timer = schedule();
  const ended = new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve(), { once: true }));
  const result = await Promise.race([runTool(tool, input, undefined, { id, signal }, caller), ended]).finally(() =>
    clock.clearTimeout(timer),
  );
  if (result !== undefined) await pump.sendEvent({ result: resultOf(result), jsonrpc: '2.0', id });
}
