// The completions dialect: POST /v1/completions. Listed in table.ts.
// On the wire it differs from chat completions only in the request: the conversation is one growing `prompt`.
import { chatCompletions } from './chat-completions.ts';
import type { Dialect } from './dialect.ts';

export const completions: Dialect = {
  ...chatCompletions,
  name: 'completions',
  paths: ['/v1/completions'],
  conversation: 'prompt',
  openingEvents: () => 0,
};
