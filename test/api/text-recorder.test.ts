// Texts of requests and answers of every dialect, as the request log keeps them.

import t from 'tap';
import { answerText, promptText } from '../../src/api/text-recorder.ts';

const prompt = (body: object): string => promptText(Buffer.from(JSON.stringify(body)));
const stream = (...events: object[]): string => events.map((event) => `data: ${JSON.stringify(event)}\n\n`).join('');

t.test('prompts', async (t) => {
  const messages = [
    { role: 'system', content: 'Be brief.' },
    {
      role: 'user',
      content: [
        { type: 'text', text: 'What is this?' },
        { type: 'image_url', image_url: { url: 'data:…' } },
      ],
    },
    { role: 'assistant', content: null, tool_calls: [{ function: { name: 'look', arguments: '{"at":1}' } }] },
  ];
  t.equal(prompt({ model: 'm', messages }), 'system: Be brief.\n\nuser: What is this?\n\nassistant: look {"at":1}');
  t.equal(
    prompt({ system: [{ type: 'text', text: 'Be brief.' }], messages: [{ role: 'user', content: 'Hi' }] }),
    'Be brief.\n\nuser: Hi',
  );
  t.equal(prompt({ instructions: 'Be brief.', input: 'Hi' }), 'Be brief.\n\nHi');
  t.equal(prompt({ input: [{ role: 'user', content: [{ type: 'input_text', text: 'Hi' }] }] }), 'user: Hi');
  t.equal(prompt({ prompt: 'Once upon' }), 'Once upon');
  t.equal(prompt({ model: 'm', other: 1 }), '{"model":"m","other":1}');
  t.equal(promptText(Buffer.from('not JSON')), 'not JSON');
});

t.test('whole answers', async (t) => {
  const whole = (answer: object): string => answerText(JSON.stringify(answer));
  t.equal(whole({ choices: [{ message: { role: 'assistant', content: 'Hello' } }] }), 'Hello');
  t.equal(whole({ choices: [{ text: 'Hello' }] }), 'Hello');
  t.equal(
    whole({
      type: 'message',
      content: [
        { type: 'thinking', thinking: 'Hm. ' },
        { type: 'text', text: 'Hello' },
      ],
    }),
    'Hm. Hello',
  );
  t.equal(whole({ output: [{ type: 'message', content: [{ type: 'output_text', text: 'Hello' }] }] }), 'Hello');
  t.equal(whole({ error: 1 }), '{"error":1}');
});

t.test('streams', async (t) => {
  const chat = stream(
    { choices: [{ delta: { role: 'assistant', reasoning_content: 'Hm. ' } }] },
    { choices: [{ delta: { content: 'Hel' } }] },
    { choices: [{ delta: { content: 'lo' } }] },
  );
  t.equal(answerText(`${chat}data: [DONE]\n\n`), 'Hm. Hello');
  t.equal(answerText(stream({ choices: [{ text: 'Hel' }] }, { choices: [{ text: 'lo' }] })), 'Hello');
  const messages = stream(
    { type: 'content_block_delta', delta: { type: 'text_delta', text: 'Hel' } },
    { type: 'content_block_delta', delta: { type: 'text_delta', text: 'lo' } },
  );
  t.equal(answerText(messages), 'Hello');
  const responses = stream(
    { type: 'response.output_text.delta', delta: 'Hello' },
    { type: 'response.output_text.done', text: 'Hello' },
    { type: 'response.completed', response: { output: [{ content: [{ text: 'Hello' }] }] } },
  );
  t.equal(answerText(responses), 'Hello');
  t.equal(answerText(stream({ content: 'Hel' }, { content: 'lo' })), 'Hello');
});
