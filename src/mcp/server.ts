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
import { KEEP_ALIVE_MS, resultOf, runTool, type Tool } from './tool.ts';

/** Whom a request is served for. */
export interface Caller {
  readonly version: string;
  /** For the model: when to use the tools. */
  readonly instructions: string;
  readonly tools: readonly Tool[];
  /** A call has begun that its client may cancel by another request. Returns what is to be called at its end. */
  began(id: string | number, abort: () => void): () => void;
}

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
    const result = await runTool(
      tool,
      params.arguments ?? {},
      token === undefined ? undefined : report,
      mcpReq,
      caller,
    );
    return resultOf(result);
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
