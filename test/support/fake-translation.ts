// Translations for tests of what carries them: each event of the server becomes one event in the dialect of the client with the same text in
// it, and a request that has a field `refused` cannot be carried. The texts tell what was translated.

import { dialectOf, type AnswerTranslator, type Dialect, type Translation } from '../../src/dialect/index.ts';
import { HeadraceError } from '../../src/errors.ts';
import { parseEvents } from '../../src/net/sse.ts';

/** What fake translators were asked, in order. */
export interface FakeTranslation extends Translation {
  readonly calls: string[];
}

const CHAT = dialectOf('/v1/chat/completions') as Dialect;

/** Of whole JSON answers and errors: the client's answer says what it was made of. */
export const wrapped = (kind: string, body: Buffer): Buffer =>
  Buffer.from(JSON.stringify({ kind, of: body.toString() }));

/** Bytes before each body that heads are written to. */
const ROOM = 1024;

/** Used again at each call, and by all: translators may do so. */
const MEMORY = Buffer.alloc(1024 * 1024);

class FakeAnswer implements AnswerTranslator {
  nextSequence = 0;
  readonly hasFailed = false;
  readonly #calls: string[];
  #written = 0;

  constructor(calls: string[]) {
    this.#calls = calls;
    calls.push('answer');
  }

  events(piece: Buffer): Buffer {
    let text = '';
    for (const { data } of parseEvents(piece.toString())) {
      if (data === '[DONE]') continue;
      const { choices, error } = JSON.parse(data) as { choices?: { delta?: { content?: string } }[]; error?: object };
      const content = choices?.[0]?.delta?.content ?? '';
      if (error !== undefined) text += event('error', { error });
      else if (content !== '') text += event('text', { text: content, sequence_number: this.nextSequence++ });
    }
    return this.#write(text);
  }

  end(): Buffer {
    this.#calls.push('end');
    return this.#write(event('end', { sequence_number: this.nextSequence++ }));
  }

  hosted(): Buffer {
    return Buffer.alloc(0);
  }

  broken(): Buffer {
    return Buffer.alloc(0);
  }

  whole(body: Buffer): Buffer {
    this.#calls.push('whole');
    if (!body.includes('choices')) throw new HeadraceError('HR_UPSTREAM_ANSWER');
    const { byteLength } = body;
    return 2 * byteLength < MEMORY.byteLength ? this.#write(wrapped('whole', body).toString()) : wrapped('whole', body);
  }

  error(status: number, body: Buffer): Buffer {
    this.#calls.push(`error ${status}`);
    return wrapped(`error ${status}`, body);
  }

  #write(text: string): Buffer {
    MEMORY.fill('~', 0, this.#written);
    this.#written = MEMORY.write(text);
    return MEMORY.subarray(0, this.#written);
  }
}

function event(type: string, data: object): string {
  return `event: ${type}\ndata: ${JSON.stringify({ type, ...data })}\n\n`;
}

/** A translation from the messages dialect, or from that of responses. */
export function fakeTranslation(name: Translation['name'] = 'messages-chat'): FakeTranslation {
  const calls: string[] = [];
  return {
    calls,
    name,
    from: name === 'messages-chat' ? 'messages' : 'responses',
    to: CHAT,
    path: '/v1/chat/completions',
    request: (body) => {
      calls.push('request');
      const { refused, ...members } = JSON.parse(body.toString()) as Readonly<Record<string, unknown>>;
      if (refused !== undefined) {
        const validation = [{ loc: ['body', 'refused'], msg: 'cannot be carried', type: 'untranslatable' }];
        throw new HeadraceError('HR_REQUEST_UNTRANSLATABLE', { validation });
      }
      let carried: Buffer | null = null;
      return {
        get body() {
          carried ??= Buffer.from('~'.repeat(ROOM) + JSON.stringify({ ...members, carried: true })).subarray(ROOM);
          return carried;
        },
        room: ROOM,
        giveBack: () => {
          // As the next request would write over it.
          carried?.fill('!');
          carried = null;
        },
        answer: () => new FakeAnswer(calls),
      };
    },
  };
}
