// Sizes of prompts in each dialect: what is text, and what is an image or a file.
import t from 'tap';
import type { DialectName } from '../../src/dialect/dialect.ts';
import { promptSize } from '../../src/dialect/index.ts';

const DATA = 'A'.repeat(1000);
const size = (dialect: DialectName, body: object): ReturnType<typeof promptSize> =>
  promptSize(Buffer.from(JSON.stringify(body)), dialect);
const bytesOf = (value: unknown): number => Buffer.byteLength(JSON.stringify(value));

t.test('text counts as its JSON, in the members that become prompt', (t) => {
  const tools = [{ name: 'f', input_schema: { type: 'object' } }];
  const messages = [{ role: 'user', content: 'Grüße' }];
  const all = { model: 'm', max_tokens: 9, messages, tools };
  t.strictSame(size('messages', { ...all, system: 'Be brief.' }), {
    bytes: bytesOf(messages) + bytesOf(tools) + bytesOf('Be brief.'),
    attachments: 0,
  });
  t.strictSame(size('chat-completions', all), { bytes: bytesOf(messages) + bytesOf(tools), attachments: 0 });
  t.strictSame(size('responses', { model: 'm', input: 'Hello', instructions: 'Be brief.', messages }), {
    bytes: bytesOf('Hello') + bytesOf('Be brief.'),
    attachments: 0,
  });
  t.strictSame(size('completions', { prompt: 'x' }), { bytes: 0, attachments: 0 });
  t.end();
});

t.test('images and files are no text, however they are given', (t) => {
  const attached = (dialect: DialectName, part: object): { rest: number; attachments: number } => {
    const member = dialect === 'responses' ? 'input' : 'messages';
    const { attachments, bytes } = size(dialect, { model: 'm', [member]: [{ role: 'user', content: [part] }] });
    return { rest: bytes - bytesOf([{ role: 'user', content: [part] }]), attachments };
  };
  const one = { rest: -DATA.length, attachments: 1 };
  for (const source of [
    { type: 'base64', media_type: 'image/png', data: DATA },
    { data: DATA, media_type: 'application/pdf', type: 'base64' },
  ]) {
    t.strictSame(attached('messages', { type: 'image', source }), one);
  }
  for (const source of [
    { type: 'url', url: 'https://a.example/b.png' },
    { type: 'file', file_id: 'f' },
  ]) {
    t.strictSame(attached('messages', { type: 'image', source }), { rest: 0, attachments: 1 });
  }
  t.strictSame(attached('chat-completions', { type: 'image_url', image_url: { url: DATA } }), one);
  t.strictSame(attached('chat-completions', { type: 'image_url', image_url: DATA }), one);
  t.strictSame(attached('chat-completions', { type: 'input_audio', input_audio: { data: DATA, format: 'wav' } }), one);
  t.strictSame(attached('chat-completions', { type: 'file', file: { filename: 'a', file_data: DATA } }), one);
  t.strictSame(attached('responses', { type: 'input_image', image_url: DATA }), one);
  t.strictSame(attached('responses', { type: 'input_file', file_data: DATA }), one);
  t.strictSame(attached('responses', { type: 'input_file', file_url: DATA }), one);
  const input = [{ type: 'image_generation_call', id: 'ig_1', status: 'completed', result: DATA }];
  t.strictSame(size('responses', { input }), { bytes: bytesOf(input) - DATA.length, attachments: 1 });
  t.end();
});

t.test('documents of text, and properties of schemas, are text', (t) => {
  const none = (dialect: DialectName, body: object): void => {
    const members = ['messages', 'tools', 'input'].flatMap((name) => (name in body ? [body[name as never]] : []));
    t.strictSame(size(dialect, body), { bytes: members.reduce((sum, each) => sum + bytesOf(each), 0), attachments: 0 });
  };
  const source = { type: 'text', media_type: 'text/plain', data: DATA };
  none('messages', { messages: [{ role: 'user', content: [{ type: 'document', source }] }] });
  const names = ['source', 'data', 'image_url', 'file_data', 'file_url', 'input_audio', 'result', 'url'];
  const properties = Object.fromEntries(names.map((name) => [name, { type: 'string' }]));
  for (const dialect of ['messages', 'chat-completions', 'responses'] as const)
    none(dialect, { tools: [{ properties }] });
  const image = { type: 'image', source: { type: 'url', url: 'https://a.example/b.png' } };
  const content = [{ type: 'document', source: { type: 'content', content: [{ type: 'text', text: 'x' }, image] } }];
  t.strictSame(size('messages', { messages: content }), { bytes: bytesOf(content), attachments: 1 });
  t.end();
});

t.test('a prompt of very many values is text alone', (t) => {
  const body = { messages: Array.from({ length: 300_000 }, () => 1) };
  t.strictSame(size('messages', body), { bytes: bytesOf(body), attachments: 0 });
  t.end();
});
