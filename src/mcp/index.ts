/** The Model Context Protocol. `respondTo` and what it needs of the SDK are in server.ts, which is loaded with the first request. */

export { type CancelCommand, Cancellations, digestOf } from './cancellations.ts';
export { type SendMessage, StdioBridge } from './stdio-bridge.ts';
export { requestOf, ResponsePump } from './exchange-response.ts';
export { respondTo } from './lazy.ts';
export { plainCallOf, servePlainCall } from './plain-call.ts';
export type { Caller } from './server.ts';
export { errorText, pageText, searchText } from './text.ts';
export type { JsonSchema, Tool, ToolCall, ToolResult } from './tool.ts';
