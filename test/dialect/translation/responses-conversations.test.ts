// Random conversations from responses to chat completions: a reader of its own finds the same facts in both requests, nothing lost
// and nothing invented, and calls come back as the items that they were.
import { isDeepStrictEqual } from 'node:util';
import t from 'tap';
import { HeadraceError } from '../../../src/errors.ts';
import { JsonTape } from '../../../src/dialect/json-tape.ts';
import { ResponsesRequest } from '../../../src/dialect/translation/responses-request.ts';
import { LONG } from '../../support/long.ts';
import { mutated, Random } from '../../support/random.ts';
import {
  callsOf,
  defined,
  factsOfChat,
  factsOfResponses,
  flatName,
  list,
  optionsOfResponses,
} from './responses-facts.ts';
import { spelledJson } from './json-texts.ts';
import { type Json, RandomResponses } from './random-responses.ts';

const CONVERSATIONS = LONG ? 10_000 : 4_000;

t.test('loses and invents nothing in random conversations', (t) => {
  const random = new Random(16);
  const requests = new RandomResponses(random);
  let run = 0;
  for (; run < CONVERSATIONS; run++) {
    const request = requests.request();
    const { body } = new ResponsesRequest(Buffer.from(spelledJson(random, request)));
    const { messages, ...options } = JSON.parse(body.toString()) as Json;
    const isSame =
      hasKeysOnce(body) &&
      isDeepStrictEqual(factsOfChat(messages as Json[], request), factsOfResponses(request)) &&
      isDeepStrictEqual(options, optionsOfResponses(request));
    if (isSame) continue;
    t.strictSame(factsOfChat(messages as Json[], request), factsOfResponses(request), `facts of conversation ${run}`);
    t.strictSame(options, optionsOfResponses(request), `options of conversation ${run}`);
    t.ok(hasKeysOnce(body), `no member comes twice in conversation ${run}`);
    break;
  }
  t.equal(run, CONVERSATIONS);
  t.end();
});

t.test('brings calls of all kinds back as the items that they were', (t) => {
  const random = new Random(17);
  const requests = new RandomResponses(random);
  let returned = 0;
  for (let run = 0; run < CONVERSATIONS / 2; run++) {
    const request = requests.request();
    const translated = new ResponsesRequest(Buffer.from(JSON.stringify(request)));
    const { messages, tools } = JSON.parse(translated.body.toString()) as { messages: Json[]; tools?: Json[] };
    const known = new Set(list(tools).map((tool) => (tool['function'] as Json)['name']));
    const isKnown = (call: Json): boolean => known.has(flatName(call));
    const calls = messages.flatMap((message) => list(message['tool_calls']));
    const message = {
      role: 'assistant',
      content: null,
      tool_calls: calls.filter((call) => known.has((call['function'] as Json)['name'])),
    };
    if (message.tool_calls.length === 0) continue;
    const answer = { id: 'chatcmpl-1', model: 'm', choices: [{ index: 0, message, finish_reason: 'tool_calls' }] };
    const { output } = JSON.parse(
      translated
        .answer()
        .whole(Buffer.from(JSON.stringify(answer)))
        .toString(),
    ) as { output: Json[] };
    const facts = (item: Json): Json => defined({ ...item, id: undefined, status: undefined });
    const [back, sent] = [output.map(facts), callsOf(request).filter(isKnown).map(facts)];
    returned += output.length;
    if (isDeepStrictEqual(back, sent)) continue;
    t.strictSame(back, sent, `calls of conversation ${run}`);
    break;
  }
  t.ok(returned > CONVERSATIONS / 10, `${returned} calls came back`);
  t.end();
});

t.test('makes JSON of a changed body, or refuses it', (t) => {
  const random = new Random(18);
  const requests = new RandomResponses(random);
  const seen = { translated: 0, refused: 0, invalid: 0 };
  for (let run = 0; run < 5000; run++) {
    const body = mutated(Buffer.from(spelledJson(random, requests.request())), random);
    try {
      const chat = new ResponsesRequest(body).body.toString();
      if (isJson(body.toString())) JSON.parse(chat);
      seen.translated++;
    } catch (error) {
      if (!(error instanceof HeadraceError)) return t.error(error, body.toString('latin1'));
      if (error.code === 'HR_REQUEST_UNTRANSLATABLE') seen.refused++;
      else if (error.code === 'HR_REQUEST_INVALID') seen.invalid++;
      else t.error(error);
    }
  }
  t.ok(seen.translated > 100 && seen.refused > 100 && seen.invalid > 100, JSON.stringify(seen));
  t.end();
});

/** JSON.parse takes the last of two members with one name; servers may take the first. */
function hasKeysOnce(body: Buffer): boolean {
  const tape = new JsonTape();
  tape.read(body);
  const names = new Set<string | undefined>();
  for (let key = tape.first(JsonTape.ROOT), end = tape.next(JsonTape.ROOT); key < end;) {
    const name = tape.string(key);
    if (names.has(name)) return false;
    names.add(name);
    key = tape.next(tape.valueOf(key));
  }
  return true;
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}
