// A stream of chat completion chunks as a sequence of blocks, one after another: reasoning, text, refusals and tool calls. Evens out
// what servers do differently: calls whole or in pieces, without ids or indexes, or taking turns. Nothing of a block is kept.

import { isFilled } from '../dialect.ts';
import { ArgumentsEnd } from './arguments-end.ts';
import {
  type CallPart,
  callsOf,
  errorOf,
  isBare,
  reasoningOf,
  refusalOf,
  type ServerError,
  signatureOf,
  stopSequenceOf,
  textOf,
} from './chat-answer.ts';
import { type ChatObject, type ChatEventListener, ChatEventReader } from './chat-events.ts';
import { parseJson } from '../../config/json-text.ts';
import { membersOf } from '../../net/json-object.ts';

export type BlockKind = 'reasoning' | 'text' | 'refusal' | 'call';

/** Hears what a stream says. Blocks do not overlap. */
export interface ChatBlocksListener {
  /** The first chunk with a choice. */
  onStart(chunk: ChatObject): void;
  /** A choice that was parsed, before its blocks: for members that are no text. */
  onChoice?(choice: ChatObject): void;
  /** A block begins. `call`: of a tool; its id is '' where the server sends none. */
  onBlock(kind: BlockKind, call: { readonly id: string; readonly name: string } | null): void;
  /** More text of the block: the content of a JSON string as it is written, `[start, end)` of `bytes`. Never empty. */
  onText(bytes: Buffer, start: number, end: number): void;
  /** The block has ended. `signature`: of reasoning; '' where the server sends none, and for other blocks. */
  onBlockEnd(kind: BlockKind, signature: string): void;
  /** The server reports an error. Nothing is heard after it. */
  onError(error: ServerError): void;
  /** `[DONE]`, or the end of a stream that has a finish reason. Nothing is heard after it. */
  onDone(): void;
  /** A line that clients ignore, without line end. */
  onComment(line: string): void;
}

/** A call of a tool, as far as it is known. */
class Call {
  readonly index: number | undefined;
  id = '';
  name = '';
  begun = false;
  /** What of its arguments waits. */
  held: Held | null = null;
  readonly end = new ArgumentsEnd();

  constructor(index: number | undefined) {
    this.index = index;
  }
}

/** Text that waits for the end of an open call. */
interface Held {
  readonly kind: BlockKind;
  readonly call: Call | null;
  text: string;
}

/** Most blocks and characters that wait for the end of one call: each end takes up again all that wait. */
const MAX_HELD = 1000;
const MAX_HELD_CHARACTERS = 16 * 1024 * 1024;
const TOO_MANY_HELD = 'The answer has too many tool calls that take turns';
/** Most characters of calls that are known. A server that does not stop must not fill the memory. */
const MAX_CALL_CHARACTERS = 16 * 1024 * 1024;
/** What a call takes beside its id and its name. */
const CALL_CHARACTERS = 512;
const TOO_MANY_CALLS = 'The answer has too many tool calls';

export class ChatBlocks implements ChatEventListener {
  readonly #listener: ChatBlocksListener;
  readonly #reader: ChatEventReader = new ChatEventReader(this);
  /** Kind of the open block; null between blocks. */
  #kind: BlockKind | null = null;
  /** The open call. */
  #call: Call | null = null;
  // What the text of the last chunk belongs to.
  #lastKind: BlockKind = 'text';
  #lastCall: Call | null = null;
  /** Null while there was none. */
  #calls: Call[] | null = null;
  /** The last call with each index. */
  readonly #lastOf = new Map<number, Call>();
  /** Calls before this one have begun. */
  #begunCalls = 0;
  #callCharacters = 0;
  /** Null while nothing is held. */
  #held: Held[] | null = null;
  #heldCharacters = 0;
  #signature = '';
  /** Names may come behind arguments, which wait for them then. */
  #awaitsNames = true;
  #started = false;
  #ended = false;
  /** Whether an error was reported. */
  failed = false;
  /** `finish_reason` of the choice; '' while it goes on. */
  finishReason = '';
  /** The stop sequence that the server says it has met; null: none. */
  stopSequence: string | null = null;
  /** Whether a tool was called. */
  called = false;
  /** Whether the model refused. */
  refused = false;
  /** The last usage object; null while there is none. */
  usage: unknown = null;

  constructor(listener: ChatBlocksListener) {
    this.#listener = listener;
  }

  /** Reads the next bytes of the stream. */
  read(piece: Buffer): void {
    if (!this.#ended) this.#reader.read(piece);
  }

  /** Ends the open block: what follows is another one. */
  endBlocks(): void {
    if (!this.#ended) this.#endBlocks();
  }

  /** The stream has ended. */
  end(): void {
    this.#reader.end();
    if (this.#ended) return;
    if (this.finishReason !== '') this.onDone();
    else this.onError({ message: 'The server ended the answer before it was complete', code: 502 });
  }

  /** @internal */
  onDone(): void {
    if (this.#ended) return;
    this.#endBlocks();
    if (this.#ended) return;
    this.#ended = true;
    this.#listener.onDone();
  }

  /** @internal */
  onError(error: unknown): void {
    if (this.#ended) return;
    this.#ended = this.failed = true;
    this.#listener.onError(errorOf(error));
  }

  /** @internal */
  onComment(line: string): void {
    if (!this.#ended) this.#listener.onComment(line);
  }

  /** @internal */
  onText(piece: Buffer, start: number, end: number): void {
    if (this.#ended || start === end) return;
    const call = this.#lastCall;
    if (this.#kind !== this.#lastKind || this.#call !== call) {
      this.#put(this.#lastKind, call, parseJson(piece.toString('utf8', start - 1, end + 1)) as string);
      return;
    }
    this.#text(piece, start, end);
    if (this.#held !== null && call?.end.reached === true) this.#release();
  }

  /** @internal */
  onChunk(chunk: ChatObject): void {
    const { choices, usage } = chunk;
    if (this.#ended) return;
    if (isFilled(usage)) this.usage = usage;
    if (!Array.isArray(choices)) return;
    for (const choice of choices as readonly unknown[]) {
      const members = membersOf(choice);
      // Clients of other dialects know one choice.
      if ((members['index'] ?? 0) === 0) this.#choice(chunk, members);
    }
  }

  #choice(chunk: ChatObject, choice: ChatObject): void {
    const { finish_reason: reason, usage } = choice;
    // Some servers send a message in place of deltas.
    const delta = membersOf(choice['delta'] ?? choice['message']);
    if (!this.#started) {
      this.#started = true;
      this.#listener.onStart(chunk);
    }
    this.#listener.onChoice?.(choice);
    const reasoning = reasoningOf(delta);
    const signature = signatureOf(delta);
    const text = textOf(delta['content']);
    const refusal = refusalOf(delta);
    if (reasoning !== '') this.#put('reasoning', null, reasoning);
    if (signature !== '') this.#signature = signature;
    if (text !== '') this.#put('text', null, text);
    if (refusal !== '') {
      this.refused = true;
      this.#put('refusal', null, refusal);
    }
    for (const part of callsOf(delta)) this.#callPart(part);
    this.stopSequence ??= stopSequenceOf(choice);
    if (isFilled(usage)) this.usage = usage;
    if (typeof reason !== 'string' || reason === '') return;
    if (this.finishReason === '') this.finishReason = reason;
    this.#endBlocks();
  }

  #callPart({ arguments: text, id, index, name }: CallPart): void {
    const calls = (this.#calls ??= []);
    let call = index === undefined ? calls.at(-1) : this.#lastOf.get(index);
    // Some servers send all calls with the same index, or with none; a new id with a name, or a name behind complete arguments, begins a
    // call. Others make a new id for every piece.
    const isNext =
      call !== undefined &&
      name !== '' &&
      (id === '' ? text !== '' && call.end.reached : call.id !== '' && call.id !== id);
    if (call === undefined || isNext) {
      call = new Call(index);
      this.#callCharacters += CALL_CHARACTERS;
      calls.push(call);
      if (index !== undefined) this.#lastOf.set(index, call);
      this.called = true;
    }
    if (call.id === '') {
      call.id = id;
      this.#callCharacters += id.length;
    }
    // Names may come in pieces, and some servers repeat them.
    const isNamed = call.name === '' && name !== '';
    if (!call.begun && (isNamed || (!call.end.seen && name !== call.name))) {
      call.name += name;
      this.#callCharacters += name.length;
    }
    if (this.#callCharacters > MAX_CALL_CHARACTERS) this.onError({ message: TOO_MANY_CALLS, code: 'HR_STREAM_BROKEN' });
    if (isNamed && call.held !== null) this.#release();
    if (call.end.seen ? text !== '' : !isBare(text)) this.#put('call', call, text);
    this.#lastKind = 'call';
    this.#lastCall = call;
  }

  /** Adds text to the block of its kind. It is held while another call is incomplete, or an earlier one may still get arguments. */
  #put(kind: BlockKind, call: Call | null, text: string): void {
    if (this.#ended) return;
    if (call !== null) call.end.seen = true;
    this.#lastKind = kind;
    this.#lastCall = call;
    if (this.#call !== null && this.#call !== call && !this.#call.end.reached) {
      this.#hold(kind, call, text);
      return;
    }
    if (call === null ? this.#kind !== kind : this.#call !== call) {
      // Its arguments were complete.
      if (call?.begun === true) return;
      const isUnnamed = call?.name === '' && this.#awaitsNames;
      if (call !== null && (isUnnamed || this.#firstUnbegun() !== call)) {
        this.#hold(kind, call, text);
        return;
      }
      this.#begin(kind, call);
    }
    const json = Buffer.from(JSON.stringify(text));
    this.#text(json, 1, json.length - 1);
    if (call?.end.reached === true) this.#release();
  }

  #hold(kind: BlockKind, call: Call | null, text: string): void {
    const held = (this.#held ??= []);
    this.#heldCharacters += text.length;
    let one = call === null ? held.at(-1) : call.held;
    if (one?.kind === kind && one.call === call) {
      one.text += text;
    } else {
      one = { kind, call, text };
      held.push(one);
      if (call !== null) call.held = one;
    }
    if (held.length <= MAX_HELD && this.#heldCharacters <= MAX_HELD_CHARACTERS) return;
    this.onError({ message: TOO_MANY_HELD, code: 'HR_STREAM_BROKEN' });
  }

  #firstUnbegun(): Call | undefined {
    while (this.#calls?.[this.#begunCalls]?.begun === true) this.#begunCalls++;
    return this.#calls?.[this.#begunCalls];
  }

  /** Reports text of the open block. What follows complete arguments is dropped. */
  #text(bytes: Buffer, start: number, end: number): void {
    const written = this.#call === null ? end : this.#call.end.find(bytes, start, end);
    if (written > start) this.#listener.onText(bytes, start, written);
  }

  /** Puts what was held for the open call. */
  #release(): void {
    const held = this.#held;
    if (held === null) return;
    const lastKind = this.#lastKind;
    const lastCall = this.#lastCall;
    this.#held = null;
    this.#heldCharacters = 0;
    for (const { call } of held) if (call !== null) call.held = null;
    for (const { call, kind, text } of held) this.#put(kind, call, text);
    this.#lastKind = lastKind;
    this.#lastCall = lastCall;
  }

  #begin(kind: BlockKind, call: Call | null): void {
    this.#endBlock();
    this.#kind = kind;
    this.#call = call;
    this.#signature = '';
    if (call !== null) call.begun = true;
    this.#listener.onBlock(kind, call);
  }

  #endBlock(): void {
    const kind = this.#kind;
    if (kind === null) return;
    this.#kind = null;
    this.#call = null;
    this.#listener.onBlockEnd(kind, this.#signature);
  }

  /** Ends the open block and what waits for it, and begins calls that have no arguments. */
  #endBlocks(): void {
    this.#awaitsNames = false;
    while (!this.#ended) {
      if (this.#call !== null) this.#call.end.reached = true;
      const held = this.#held?.length;
      this.#release();
      if (held !== undefined && this.#held?.length !== held) continue;
      const unbegun = this.#firstUnbegun();
      if (unbegun === undefined) break;
      this.#begin('call', unbegun);
    }
    if (!this.#ended) this.#endBlock();
  }
}
