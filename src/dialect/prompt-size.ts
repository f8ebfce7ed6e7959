// How large a prompt is where nobody counts its tokens: its text in bytes, and the images and files in it, which are no text.

import { bodyTape as tape } from './body-scan.ts';
import type { DialectName } from './dialect.ts';
import { nameIds } from './json-names.ts';
import { JsonTape } from './json-tape.ts';
import { HeadraceError } from '../errors.ts';

const { ROOT } = JsonTape;
const NAME = nameIds(
  'base64',
  'data',
  'file',
  'file_data',
  'file_url',
  'image_url',
  'input',
  'input_audio',
  'instructions',
  'messages',
  'result',
  'source',
  'system',
  'tools',
  'type',
  'url',
);

/** Members of the body that become prompt, and members that hold attachments. */
interface Prompt {
  readonly members: ReadonlySet<number>;
  readonly attachments: ReadonlySet<number>;
}

const CHAT: Prompt = {
  members: new Set([NAME.messages, NAME.tools]),
  attachments: new Set([NAME.image_url, NAME.file_data, NAME.input_audio]),
};
const PROMPTS: Readonly<Partial<Record<DialectName, Prompt>>> = {
  'chat-completions': CHAT,
  responses: {
    members: new Set([NAME.input, NAME.instructions, NAME.tools]),
    // `result` is an image that a model has made.
    attachments: new Set([...CHAT.attachments, NAME.file_url, NAME.result]),
  },
  messages: {
    members: new Set([NAME.messages, NAME.system, NAME.tools]),
    attachments: new Set([NAME.source]),
  },
};

/** Sources of the messages dialect that are no text. */
const ATTACHED: ReadonlySet<number> = new Set([NAME.base64, NAME.url, NAME.file]);

export interface PromptSize {
  /** Bytes of JSON, without attachments. */
  bytes: number;
  /** Images and files. */
  attachments: number;
}

/** The size of the prompt of a valid body. One of very many values is text alone: see `JsonTape.read`. */
export function promptSize(body: Buffer, dialect: DialectName): PromptSize {
  const prompt = PROMPTS[dialect];
  const size: PromptSize = { bytes: 0, attachments: 0 };
  if (prompt === undefined) return size;
  try {
    tape.read(body);
  } catch (thrown) {
    if (thrown instanceof HeadraceError) return { bytes: body.length, attachments: 0 };
    throw thrown;
  }
  const end = tape.next(ROOT);
  for (let key = tape.first(ROOT); key < end; key = tape.next(tape.valueOf(key))) {
    const value = tape.valueOf(key);
    if (!prompt.members.has(tape.name(key))) continue;
    size.bytes += tape.end(value) - tape.start(value);
    addAttachments(value, prompt, size);
  }
  tape.release();
  return size;
}

function addAttachments(value: number, prompt: Prompt, size: PromptSize): void {
  const end = tape.next(value);
  if (tape.isArray(value)) {
    for (let item = tape.first(value); item < end; item = tape.next(item)) addAttachments(item, prompt, size);
  } else if (tape.isObject(value)) {
    for (let key = tape.first(value); key < end; key = tape.next(tape.valueOf(key))) {
      const member = tape.valueOf(key);
      const bytes = prompt.attachments.has(tape.name(key)) ? attachedBytes(tape.name(key), member) : -1;
      if (bytes < 0) {
        addAttachments(member, prompt, size);
      } else {
        size.bytes -= bytes;
        size.attachments++;
      }
    }
  }
}

/** Bytes of the attachment that a member with this name is; -1 where it is none: a schema may have a property with the same name. */
function attachedBytes(name: number, value: number): number {
  if (name === NAME.source && !ATTACHED.has(tape.name(tape.member(value, NAME.type)))) return -1;
  const inside = tape.member(value, name === NAME.image_url ? NAME.url : NAME.data);
  // Others are objects with a text.
  const text = name !== NAME.source && name !== NAME.input_audio && tape.isString(value) ? value : inside;
  // An image may also be named by its address or its id.
  if (!tape.isString(text)) return name === NAME.source ? 0 : -1;
  return tape.end(text) - tape.start(text) - 2;
}
