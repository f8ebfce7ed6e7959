// The interface of translations, and the table of those that exist. A translation carries a request to a server that speaks
// another dialect, and the server's answer back, without a client or a server knowing.

import type { Dialect, DialectName, Failure } from '../dialect.ts';
import { chatCompletions } from '../openai.ts';
import type { HostedStep } from './hosted-search.ts';
import { MessagesRequest } from './messages-request.ts';
import { ResponsesRequest } from './responses-request.ts';

/** Carries requests of one dialect to servers that speak another one, and their answers back. */
export interface Translation {
  readonly name: 'messages-chat' | 'responses-chat';
  readonly from: DialectName;
  /** What the server speaks. */
  readonly to: Dialect;
  readonly path: '/v1/chat/completions';
  /**
   * Throws HeadraceError `HR_REQUEST_UNTRANSLATABLE` (422), which names the field, for what would change the answer if it were
   * left out.
   */
  request(body: Buffer, repeats?: Repeats): TranslatedRequest;
}

/** What answers repeat of their request, where `body` does not say it. */
export interface Repeats {
  /** Stands for the whole body. */
  readonly shown?: Buffer;
  /** Id of the response that is continued; '' where there is none. */
  readonly continues?: string;
}

/** A request in the dialect of the server. */
export interface TranslatedRequest {
  /**
   * JSON for the server, which asks for one choice. Streams ask for usage (`stream_options.include_usage`). Made again where it was given
   * back.
   */
  readonly body: Buffer;
  /** Bytes before `body` in its memory that belong to it: what stands before the body in a message can be written there. */
  readonly room: number;
  /** Gives the memory of `body` back, which nobody may need any more. */
  giveBack(): void;
  /** For one answer: called once per attempt whose answer passes. */
  answer(): AnswerTranslator;
}

/** Carries one answer to the client: either the events of a stream, or a whole answer, or an error. */
export interface AnswerTranslator {
  /** Whole events of the server's stream as events for the client. May be empty. Scratch memory: valid until the next call. */
  events(piece: Buffer): Buffer;
  /** The stream has ended well: the closing events that are still missing. */
  end(): Buffer;
  /** What the gateway does for the model between two events, as events for the client. Memory as of `events`. */
  hosted(step: HostedStep): Buffer;
  /** The server broke off: the error events. Empty where `errorEvent` says all that there is to say. Memory as of `events`. */
  broken(failure: Failure): Buffer;
  /** A whole 2xx answer. Memory as of `events`. */
  whole(body: Buffer): Buffer;
  /** A server's own error answer (status 400 and more). */
  error(status: number, body: Buffer): Buffer;
  /** An error has ended the stream for the client, whatever follows. */
  readonly hasFailed: boolean;
  /** Number of the next event of a numbered stream, for `errorEvent`. */
  readonly nextSequence: number;
}

const TRANSLATIONS: readonly Translation[] = [
  {
    name: 'messages-chat',
    from: 'messages',
    to: chatCompletions,
    path: '/v1/chat/completions',
    request: (body) => new MessagesRequest(body),
  },
  {
    name: 'responses-chat',
    from: 'responses',
    to: chatCompletions,
    path: '/v1/chat/completions',
    request: (body, repeats) => new ResponsesRequest(body, repeats),
  },
];

/** Undefined where nothing is translated. */
export function translationOf(from: Dialect | undefined): Translation | undefined {
  return TRANSLATIONS.find((translation) => translation.from === from?.name);
}
