// The judge of a CRN's answer: when it begins, why it is none, and when it is complete, in every dialect.
import t from 'tap';
import { type AnswerFailure, type AnswerHead, AnswerJudge } from '../../src/dialect/answer.ts';
import { DIALECTS } from '../../src/dialect/dialects.ts';

const JSON_HEAD: AnswerHead = { status: 200, contentType: 'application/json', encoded: false, contentLength: -1 };
const EVENTS_HEAD: AnswerHead = { ...JSON_HEAD, contentType: 'text/event-stream; charset=utf-8' };

const chunk = (delta: object, more: object = {}): string =>
  `data: ${JSON.stringify({ id: 'c', choices: [{ index: 0, delta, finish_reason: null, ...more }] })}\n\n`;

t.test('a stream begins with text, ends with a finish reason and is complete with [DONE]', async (t) => {
  const judge = new AnswerJudge(DIALECTS['chat-completions'], 1, true);
  t.equal(judge.begin(EVENTS_HEAD), 'undecided');
  t.equal(judge.events(Buffer.from(`: comment\n\n${chunk({ role: 'assistant', content: '' })}`)), 'undecided');
  t.equal(judge.events(Buffer.from(chunk({ content: 'a' }))), 'begun');
  t.equal(judge.end(Buffer.alloc(0), false), 'truncated');
  judge.events(Buffer.from(chunk({}, { finish_reason: '' })));
  t.equal(judge.finished, false);
  judge.events(Buffer.from(chunk({}, { finish_reason: 'stop' })));
  t.same([judge.finished, judge.complete, judge.end(Buffer.alloc(0), true)], [true, false, null]);
  judge.events(Buffer.from('data: [DONE]\n\n'));
  t.equal(judge.complete, true);
});

t.test('a whole answer with an error and no output is a failure', async (t) => {
  const rows: [string, AnswerFailure | null][] = [
    ['{"choices":[{"message":{}}],"error":null}', null],
    ['{"error":{"message":"no"}}', 'error answer'],
    ['{"error":"no","choices":[]}', 'error answer'],
    ['{"choices":[{"message":{"content":"a', 'truncated'],
    ['<html>', 'not an answer'],
    ['', 'empty answer'],
  ];
  for (const [text, expected] of rows) {
    const judge = new AnswerJudge(DIALECTS['chat-completions'], 1, true);
    judge.begin(JSON_HEAD);
    const body = Buffer.from(text);
    judge.data(body);
    t.equal(judge.end(body, false), expected, text);
  }
});
