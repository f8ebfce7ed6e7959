// The chat completions dialect: POST /v1/chat/completions. Listed in table.ts.
// A stream is `data:` lines without event names; it ends with a finish reason and `[DONE]`.
import { sseEvent } from './dialect.ts';
import type { Dialect } from './dialect.ts';
import { openaiError, openaiUsage } from './openai.ts';
import { showsEnd } from './stream-end.ts';

/** `[DONE]` is enough, and so is a finish reason: some engines leave `[DONE]` out and SDKs do not miss it. */
const COMPLETE = /^data:[ \t]*\[DONE\]|"finish_reason"\s*:\s*"/m;

export const chatCompletions: Dialect = {
  name: 'chat-completions',
  paths: ['/v1/chat/completions'],
  conversation: 'messages',
  // No `[DONE]` behind it: the answer is not complete, and SDKs throw without one.
  errorEvent: (failure) => sseEvent(undefined, { error: openaiError(failure) }),
  errorMember: (failure) => ({ error: openaiError(failure) }),
  endsWell: (tail) => showsEnd(tail, COMPLETE),
  // Some engines open with a chunk that holds the role and no words.
  openingEvents: (first) => (first.includes('"content":""') ? 1 : 0),
  usage: (read) => openaiUsage(read('usage')),
};
