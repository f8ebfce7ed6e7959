// Log probabilities in the OpenAI dialects, against the probabilities that the llama-style API reports.
import t from 'tap';
import { type Answer, ask, events, send, startHost } from './ask.ts';

const CHAT = '/v1/chat/completions';
const MESSAGES = [{ role: 'user', content: 'How does the mill work?' }];
/** Every sampler off: what is left are the probabilities of the model. */
const PLAIN = { temperature: 1, top_k: 0, top_p: 1, min_p: 0, repeat_penalty: 1, seed: 4 };

function near(a: number, b: number): boolean {
  return Math.abs(a - b) < 1e-9;
}

/** What the tokens stand for: a token within a character has bytes and no text. */
function textOf(content: readonly { readonly bytes: readonly number[] }[]): string {
  return Buffer.from(content.flatMap(({ bytes }) => bytes)).toString();
}

t.test('completions report the log probabilities of the model, in the shape of OpenAI', async (t) => {
  const host = await startHost(t);
  const body = { prompt: 'The miller', ...PLAIN };
  const plain = await ask(host, '/completion', { ...body, n_predict: 12, n_probs: 5, ignore_eos: false });
  const { choices } = await ask(host, '/v1/completions', { model: 'm', ...body, max_tokens: 12, logprobs: 5 });
  const [{ logprobs, text }] = choices;
  t.equal(text, plain.content);
  t.equal(logprobs.tokens.join(''), text);
  t.same(
    logprobs.text_offset.map((at: number, place: number) => text.startsWith(logprobs.tokens[place], at)),
    Array(12).fill(true),
  );
  for (const [place, { content, probs }] of plain.completion_probabilities.entries()) {
    const top = logprobs.top_logprobs[place];
    t.equal(logprobs.tokens[place], content);
    t.equal(top[content], logprobs.token_logprobs[place]);
    for (const { tok_str, prob } of probs) t.ok(near(Math.exp(top[tok_str]), prob), `${tok_str} at ${place}`);
  }
});

t.test('they are those of the model whatever the samplers do', async (t) => {
  const host = await startHost(t);
  const body = { model: 'm', messages: MESSAGES, max_tokens: 1, logprobs: true, top_logprobs: 3, seed: 1 };
  const first = async (more: object): Promise<Answer> =>
    (await ask(host, CHAT, { ...body, ...more })).choices[0].logprobs.content[0];
  const { tokens } = await ask(host, '/tokenize', { content: ' bread' });
  const free = await first({ ...PLAIN, temperature: 0 });
  const forced = await first({ temperature: 3, logit_bias: { [tokens[0]]: 100 } });
  t.equal(free.logprob, free.top_logprobs[0].logprob, 'the most likely one');
  t.equal(forced.token, ' bread');
  t.same(forced.bytes, Array.from(Buffer.from(' bread')));
  t.same(forced.top_logprobs, free.top_logprobs);
  t.ok(forced.logprob < free.top_logprobs[2].logprob);
});

t.test('a chat lists as many tokens as it is asked for, whole and streamed', async (t) => {
  const host = await startHost(t);
  const body = { model: 'm', messages: MESSAGES, max_tokens: 9, seed: 2, logprobs: true };
  for (const most of [undefined, 0, 1, 20]) {
    const request = { ...body, ...(most !== undefined && { top_logprobs: most }) };
    const [choice] = (await ask(host, CHAT, request)).choices;
    t.equal(choice.logprobs.refusal, null);
    t.equal(textOf(choice.logprobs.content), choice.message.content);
    for (const { top_logprobs: top } of choice.logprobs.content) {
      t.equal(top.length, most ?? 0);
      const falling = top.map(({ logprob }: Answer) => logprob as number);
      t.same(
        falling,
        falling.toSorted((a: number, b: number) => b - a),
      );
    }
    const streamed = await events(host, CHAT, request);
    const listed = streamed.flatMap(({ choices: [one] }) => one.logprobs?.content ?? []);
    t.same(listed, choice.logprobs.content);
  }
  t.equal((await ask(host, CHAT, { ...body, logprobs: false })).choices[0].logprobs, null);
});

t.test('responses include them when they are asked to', async (t) => {
  const host = await startHost(t);
  const body = { model: 'm', input: 'How does the mill work?', max_output_tokens: 7, seed: 2 };
  const asked = { ...body, include: ['message.output_text.logprobs'], top_logprobs: 2 };
  const [{ logprobs, text }] = (await ask(host, '/v1/responses', asked)).output[0].content;
  t.equal(textOf(logprobs), text);
  t.same(
    logprobs.map(({ top_logprobs: top }: Answer) => top.length as number),
    Array(7).fill(2),
  );
  const streamed = await events(host, '/v1/responses', asked);
  const deltas = streamed.filter(({ type }) => type === 'response.output_text.delta');
  t.same(
    deltas.flatMap((event) => event.logprobs),
    logprobs,
  );
  t.same(streamed.find(({ type }) => type === 'response.output_text.done').logprobs, logprobs);
  t.same((await ask(host, '/v1/responses', body)).output[0].content[0].logprobs, []);
  t.equal((await send(host, '/v1/responses', { ...body, top_logprobs: 'two' })).status, 422);
});

t.test('streamed completions count on with their offsets', async (t) => {
  const host = await startHost(t);
  const request = { model: 'm', prompt: 'x', max_tokens: 6, seed: 3, logprobs: 0 };
  const [{ logprobs }] = (await ask(host, '/v1/completions', request)).choices;
  t.same(
    logprobs.top_logprobs.map((top: object) => Object.keys(top).length),
    Array(6).fill(1),
    'the token itself is always there',
  );
  const streamed = (await events(host, '/v1/completions', request)).map(({ choices: [one] }) => one.logprobs);
  for (const name of ['tokens', 'token_logprobs', 'top_logprobs', 'text_offset']) {
    t.same(
      streamed.flatMap((one) => one?.[name] ?? []),
      logprobs[name],
    );
  }
});

t.test('tokens of a stop string are not listed', async (t) => {
  const host = await startHost(t);
  const grammar = 'root ::= "one two END three"';
  const body = { model: 'm', messages: MESSAGES, seed: 1, logprobs: true, grammar, stop: 'END' };
  const [choice] = (await ask(host, CHAT, body)).choices;
  t.equal(choice.message.content, 'one two ');
  const said = textOf(choice.logprobs.content);
  t.ok(said.startsWith('one two') && !said.includes('END'), said);
  const streamed = await events(host, CHAT, body);
  t.same(
    streamed.flatMap(({ choices: [one] }) => one.logprobs?.content ?? []),
    choice.logprobs.content,
  );
});

t.test('a character of several tokens has all of their bytes', async (t) => {
  const host = await startHost(t);
  const body = { model: 'm', prompt: 'x', seed: 1, logprobs: 1, grammar: 'root ::= "a水b"' };
  const [{ logprobs, text }] = (await ask(host, '/v1/completions', body)).choices;
  t.equal(text, 'a水b');
  t.same(logprobs.tokens, ['a', 'byte: \\xe6', 'byte: \\xb0', 'byte: \\xb4', 'b']);
  t.same(logprobs.text_offset, [0, 1, 2, 2, 2]);
  const chat = { model: 'm', messages: MESSAGES, seed: 1, logprobs: true, grammar: 'root ::= "a水b"' };
  const { content } = (await ask(host, CHAT, chat)).choices[0].logprobs;
  t.equal(textOf(content), 'a水b');
});

t.test('what makes no sense is refused by name', async (t) => {
  const host = await startHost(t);
  const paced = await startHost(t, { engine: 'paced' });
  const chat = { model: 'm', messages: MESSAGES, max_tokens: 1 };
  const text = { model: 'm', prompt: 'x', max_tokens: 1 };
  const refused: [typeof host, string, object, string][] = [
    [host, CHAT, { ...chat, logprobs: 3 }, 'logprobs'],
    [host, CHAT, { ...chat, top_logprobs: 3 }, 'top_logprobs'],
    [host, CHAT, { ...chat, logprobs: true, top_logprobs: 21 }, 'top_logprobs'],
    [host, '/v1/completions', { ...text, logprobs: true }, 'logprobs'],
    [host, '/v1/completions', { ...text, logprobs: 21 }, 'logprobs'],
    [paced, CHAT, { ...chat, logprobs: true }, 'logprobs'],
  ];
  for (const [where, path, body, name] of refused) {
    const response = await send(where, path, body);
    t.equal(response.status, 422, JSON.stringify(body));
    t.match(await response.json(), { detail: [{ loc: ['body', name], msg: String }], error: { message: String } });
  }
});
