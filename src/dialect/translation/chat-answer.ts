// Reads messages, deltas and errors of chat completion servers. They agree on little but the names of the official API.

import { isFilled } from '../dialect.ts';
import { membersOf } from '../../net/json-object.ts';

type Members = Readonly<Record<string, unknown>>;

/** Part of a tool call in a delta; the whole call in a message. */
export interface CallPart {
  /** Undefined where the server sends none. */
  readonly index: number | undefined;
  /** '' where it is absent. */
  readonly id: string;
  readonly name: string;
  /** JSON text, or a piece of it. */
  readonly arguments: string;
}

/** An error as a server reports it. */
export interface ServerError {
  readonly message: string;
  /** The server's own word; '' where it has none. */
  readonly type: string;
  /** A word, not a status; '' where it has none. */
  readonly code: string;
  /** Name of the parameter at fault; '' where it is not said. */
  readonly param: string;
  /** HTTP status that the error names; 0 where it names none. */
  readonly status: number;
  /** '' where it is not said. */
  readonly requestId: string;
}

/** Finish reasons of an answer that is none, and what to say of it. */
export const FAILED_FINISHES: ReadonlyMap<unknown, string> = new Map([
  ['error', 'The server ended the answer with an error'],
  ['abort', 'The server aborted the answer'],
]);

/** Text of a `content` member: a string, or an array of parts. */
export function textOf(content: unknown): string {
  if (typeof content === 'string') return content;
  return Array.isArray(content) ? partsOf(content, isText) : '';
}

/** Reasoning of a message or delta. Servers that send it in two members send the same in both. */
export function reasoningOf({ content, reasoning, reasoning_content: named }: Members): string {
  if (typeof named === 'string' && named !== '') return named;
  if (typeof reasoning === 'string' && reasoning !== '') return reasoning;
  return Array.isArray(content) ? partsOf(content, isReasoning) : '';
}

export function refusalOf({ refusal }: Members): string {
  return typeof refusal === 'string' ? refusal : '';
}

/** Signature of the reasoning, which proves to its maker that nobody has changed it; '' where the server sends none. */
export function signatureOf({ reasoning_details: details, thinking_blocks: blocks }: Members): string {
  for (const list of [blocks, details]) {
    if (!Array.isArray(list)) continue;
    for (const entry of list as readonly unknown[]) {
      const { signature } = membersOf(entry);
      if (typeof signature === 'string' && signature !== '') return signature;
    }
  }
  return '';
}

/** The stop sequence that a choice has met, as vLLM and SGLang say it; a number is a token. Null: none. */
export function stopSequenceOf({ matched_stop: matched, stop_reason: stop }: Members): string | null {
  const stopped = typeof stop === 'string' ? stop : matched;
  return typeof stopped === 'string' && stopped !== '' ? stopped : null;
}

const NO_CALLS: readonly CallPart[] = [];

/** Tool calls of a message or delta; `function_call` is their older form. */
export function callsOf({ function_call: single, tool_calls: calls }: Members): readonly CallPart[] {
  if (!Array.isArray(calls) || calls.length === 0) return isFilled(single) ? [callPart({}, single, 0)] : NO_CALLS;
  return (calls as readonly unknown[]).filter(isFilled).map((entry, at) => {
    const members = membersOf(entry);
    return callPart(members, members['function'], calls.length > 1 ? at : undefined);
  });
}

function callPart({ id, index }: Members, called: unknown, place: number | undefined): CallPart {
  const { arguments: args, name } = membersOf(called);
  const text = typeof args === 'string' ? args : isFilled(args) ? JSON.stringify(args) : '';
  return {
    index: typeof index === 'number' ? index : place,
    id: textOrNone(id),
    name: textOrNone(name),
    arguments: text,
  };
}

/** Whether arguments say that there are none. */
export function isBare(args: string): boolean {
  const text = args.trim();
  return text === '' || text === 'null';
}

function isText(type: unknown): boolean {
  return type === undefined || type === 'text' || type === 'output_text';
}

function isReasoning(type: unknown): boolean {
  return type === 'thinking' || type === 'reasoning';
}

function partsOf(parts: readonly unknown[], isWanted: (type: unknown) => boolean): string {
  let text = '';
  for (const part of parts) {
    const { reasoning, text: plain, thinking, type } = membersOf(part);
    if (isWanted(type)) text += innerText(plain ?? thinking ?? reasoning);
  }
  return text;
}

function innerText(value: unknown): string {
  return typeof value === 'string' ? value : Array.isArray(value) ? partsOf(value, isText) : '';
}

/** An error body of that many characters says what is wrong; a page of HTML does not. */
const MAX_MESSAGE_CHARS = 2048;

/** Reads the body of an error answer, or the data of an error event: parsed JSON, or text. */
export function errorOf(body: unknown): ServerError {
  const outer = membersOf(body);
  const error = outer['error'] ?? body;
  const inner = membersOf(error);
  const message =
    sayingOf(error) || sayingOf(inner['message']) || sayingOf(inner['detail']) || sayingOf(outer['detail']);
  const { code, param, type } = inner;
  return {
    message: (message || JSON.stringify(body) || '').slice(0, MAX_MESSAGE_CHARS),
    type: type === 'error' ? '' : textOrNone(type),
    code: textOrNone(code),
    param: textOrNone(param),
    status: statusOf(code) || statusOf(inner['status']) || statusOf(inner['status_code']) || statusOf(outer['status']),
    requestId: textOrNone(outer['request_id']),
  };
}

function textOrNone(value: unknown): string {
  return typeof value === 'string' ? value : '';
}

function statusOf(value: unknown): number {
  const status = Number(value);
  return Number.isInteger(status) && status >= 400 && status <= 599 ? status : 0;
}

/** A message as text: of validation errors, each with its place. */
function sayingOf(value: unknown): string {
  if (typeof value === 'string') return value.trim();
  if (!Array.isArray(value)) return '';
  return value
    .map((entry: unknown) => {
      const { loc, msg } = membersOf(entry);
      const place = Array.isArray(loc) ? `${loc.join('.')}: ` : '';
      return typeof msg === 'string' ? `${place}${msg}` : JSON.stringify(entry);
    })
    .join('; ');
}
