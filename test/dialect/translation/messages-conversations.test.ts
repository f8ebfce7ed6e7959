// Random conversations from messages to chat completions and back: a reader that knows nothing of the translation turns the chat
// request into one of messages again, and it says what the first one said, nothing lost and nothing invented.
import assert from 'node:assert/strict';
import t from 'tap';
import { MessagesRequest } from '../../../src/dialect/translation/messages-request.ts';
import { HeadraceError } from '../../../src/errors.ts';
import { LONG } from '../../support/long.ts';
import { mutated, Random } from '../../support/random.ts';
import { spelledJson } from './json-texts.ts';
import { plainRequest, requestBack } from './messages-facts.ts';
import { type Json, RandomConversations } from './random-conversations.ts';

const CONVERSATIONS = LONG ? 10_000 : 4_000;

/** Whether no object of a JSON text has two members of one name. */
function hasKeysOnce(body: Buffer): boolean {
  const keysIn = (value: unknown): number =>
    typeof value !== 'object' || value === null
      ? 0
      : Object.values(value).reduce<number>(
          (sum, one) => sum + keysIn(one),
          Array.isArray(value) ? 0 : Object.keys(value).length,
        );
  const text = body.toString();
  const strings = [...text.matchAll(/"(?:[^"\\]|\\.)*"(\s*:)?/gs)];
  return strings.filter(([, colon]) => colon !== undefined).length === keysIn(JSON.parse(text));
}

t.test('loses and invents nothing in random conversations, there and back', (t) => {
  const random = new Random(16);
  const conversations = new RandomConversations(random);
  let run = 0;
  for (; run < CONVERSATIONS; run++) {
    const request = conversations.request();
    const { body } = new MessagesRequest(Buffer.from(spelledJson(random, request)));
    const [back, said] = [requestBack(JSON.parse(body.toString()) as Json), plainRequest(request)];
    assert.deepEqual(back, said, JSON.stringify(request));
    assert(hasKeysOnce(body), `a member comes twice: ${body.toString()}`);
  }
  t.equal(run, CONVERSATIONS);
  t.end();
});

t.test('makes JSON of a changed body, or refuses it', (t) => {
  const random = new Random(17);
  const conversations = new RandomConversations(random);
  let made = 0;
  for (let run = 0; run < CONVERSATIONS / 2; run++) {
    const body = mutated(Buffer.from(spelledJson(random, conversations.request())), random);
    let translated: Buffer | undefined;
    try {
      translated = new MessagesRequest(body).body;
    } catch (error) {
      if (!(error instanceof HeadraceError) || error.status !== 422) throw error;
    }
    if (translated === undefined || !isJson(body)) continue;
    made++;
    if (!isJson(translated)) t.fail(`no JSON of ${body.toString('latin1')}`);
  }
  t.ok(made > CONVERSATIONS / 20, `${made} changed bodies are JSON still`);
  t.end();
});

function isJson(text: Buffer): boolean {
  try {
    JSON.parse(text.toString());
    return true;
  } catch {
    return false;
  }
}
