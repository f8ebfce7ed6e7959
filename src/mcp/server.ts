// The server of the Model Context Protocol, by the official SDK: protocol revision 2026-07-28, where every request says all about itself,
// and the revisions of 2024 and 2025 with their handshake. Nothing is kept between two requests, so that any thread and any gateway
// serves any of them.

import {
  createMcpHandler,
  type McpHttpHandler,
  type McpServerFactory,
  ProtocolError,
  ProtocolErrorCode,
  Server,
} from '@modelcontextprotocol/server';
import type { ExchangeProgress } from '../ingress/exchange.ts';
import type { Tool, ToolCall, ToolResult } from './tool.ts';

/** Whom a request is served for. */
export interface Caller {
  readonly version: string;
  /** For the model: when to use the tools. */
  readonly instructions: string;
  readonly tools: readonly Tool[];
  /** A call has begun that its client may cancel by another request. Returns what is to be called at its end. */
  began(id: string | number, abort: () => void): () => void;
}

/** Heartbeat of answers that take long: below the usual limits of proxies. */
const KEEP_ALIVE_MS = 15_000;

/** Who sends a request, for the factory, which gets the request alone. */
const callers = new WeakMap<Request, Caller>();

let handler: McpHttpHandler | null = null;

/** Serves one request. `message` is its JSON body. */
export function respondTo(request: Request, message: unknown, caller: Caller): Promise<Response> {
  handler ??= createMcpHandler(serverOf, {
    keepAliveMs: KEEP_ALIVE_MS,
    // Lists of tools change with the configuration only, and a stream without end would hold up every shutdown.
    maxSubscriptions: 0,
  });
  callers.set(request, caller);
  return handler.fetch(request, { parsedBody: message });
}

const serverOf: McpServerFactory = ({ requestInfo }) => {
  const caller = requestInfo === undefined ? undefined : callers.get(requestInfo);
  if (caller === undefined) throw new Error('the request is not one of this gateway');
  const { instructions, tools, version } = caller;
  const server = new Server(
    { name: 'headrace', title: 'Headrace', version },
    { capabilities: { tools: {} }, instructions },
  );
  server.setRequestHandler('tools/list', () => ({ tools: tools.map(describe) }));
  server.setRequestHandler('tools/call', async ({ params }, { mcpReq }) => {
    const tool = tools.find(({ name }) => name === params.name);
    if (tool === undefined) {
      throw new ProtocolError(ProtocolErrorCode.InvalidParams, `Unknown tool: ${params.name.slice(0, 100)}`);
    }
    const token = mcpReq._meta?.progressToken;
    const report = (progress: ExchangeProgress): void => {
      const { done, message, total } = progress;
      const said = { progressToken: token as string | number, progress: done, total, message };
      // A client that has gone hears nothing: its request is aborted already.
      mcpReq.notify({ method: 'notifications/progress', params: said }).catch(() => undefined);
    };
    const result = await run(tool, params.arguments ?? {}, token === undefined ? undefined : report, mcpReq, caller);
    return {
      content: [{ type: 'text', text: result.text }],
      ...(result.structured === null
        ? { isError: true }
        : { structuredContent: result.structured as Record<string, unknown> }),
      ...(result.meta !== undefined && { _meta: result.meta }),
    };
  });
  return server;
};

function describe({ description, inputSchema, name, outputSchema, title }: Tool): ToolListing {
  return {
    name,
    title,
    description,
    inputSchema: inputSchema as ToolListing['inputSchema'],
    outputSchema: outputSchema as ToolListing['inputSchema'],
    annotations: { title, readOnlyHint: true, destructiveHint: false, idempotentHint: true, openWorldHint: true },
  };
}

interface ToolListing {
  name: string;
  title: string;
  description: string;
  inputSchema: { type: 'object'; [keyword: string]: unknown };
  outputSchema: { type: 'object'; [keyword: string]: unknown };
  annotations: Record<'readOnlyHint' | 'destructiveHint' | 'idempotentHint' | 'openWorldHint', boolean> & {
    title: string;
  };
}

/** Runs a call until it is done, its client has gone or it is cancelled. */
function run(
  tool: Tool,
  input: Readonly<Record<string, unknown>>,
  onProgress: ((progress: ExchangeProgress) => void) | undefined,
  { id, signal }: { readonly id: string | number; readonly signal: AbortSignal },
  caller: Caller,
): Promise<ToolResult> {
  return new Promise((resolve, reject) => {
    let call: ToolCall | null = null;
    let isOver = false;
    const end = (): void => {
      isOver = true;
      ended();
      signal.removeEventListener('abort', abort);
    };
    const abort = (): void => {
      if (isOver) return;
      end();
      call?.abort();
      reject(new Error('cancelled'));
    };
    const ended = caller.began(id, abort);
    signal.addEventListener('abort', abort, { once: true });
    if (signal.aborted) {
      abort();
      return;
    }
    call = tool.call(input, onProgress, (result) => {
      end();
      resolve(result);
    });
  });
}
