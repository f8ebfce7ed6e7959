// The billing line of Claude Code goes, and all other bytes stay.
import assert from 'node:assert/strict';
import t from 'tap';
import { bodyTape, scanBody, type ScannedBody } from '../../src/dialect/body-scan.ts';
import { withoutVolatileSystem } from '../../src/dialect/volatile-system.ts';
import { Random } from '../support/random.ts';
import { randomJson, randomText, spelled } from './translation/json-texts.ts';
import { nodesOf } from '../support/tape-nodes.ts';

const LINE = 'x-anthropic-billing-header: cc_version=2.1.37.0d9; cc_entrypoint=cli; cch=0a1b2;';

function without(json: string): string {
  const body = Buffer.from(json);
  const scan = scanBody(body) as ScannedBody;
  const cleaned = withoutVolatileSystem(body, scan);
  const text = cleaned.body.toString();
  if (text === json) t.equal(cleaned.body, body, 'a body without the line is not copied');
  assert.equal(cleaned.body.buffer, body.buffer, 'no memory is taken');
  assert.equal(bodyTape.body, cleaned.body);
  const nodes = nodesOf(bodyTape);
  assert.deepEqual({ ...(scanBody(Buffer.from(text)) as ScannedBody), values: scan.values }, cleaned.scan, json);
  assert.deepEqual(nodesOf(bodyTape), nodes, json);
  return text;
}

const body = (system: string): string => `{ "model":"m", "system": ${system} ,"messages":[] }`;
const block = (text: string): string => `{"type":"text","text":"${text}"}`;
const marked = (text: string): string => `{"cache_control":{"type":"ephemeral"}, "text": "${text}", "type":"text"}`;

t.test('takes the line out of a text and out of a list of blocks', (t) => {
  for (const [system, expected] of [
    [`"${LINE}"`, '""'],
    [String.raw`"${LINE}\n\nYou are \"it\"."`, String.raw`"You are \"it\"."`],
    [`[${block(LINE)}]`, '[]'],
    [`[ ${block(LINE)} , ${marked('a')},${block('b')} ]`, `[ ${marked('a')},${block('b')} ]`],
    [`[${marked(LINE)},\n ${marked('a')}]`, `[${marked('a')}]`],
    [`[${block('a')} , ${block(LINE)} ]`, `[${block('a')} ]`],
    [`[${block('a')}, ${block(LINE)}, ${block('b')}]`, `[${block('a')}, ${block('b')}]`],
    [`[${block(LINE)},${block(LINE)},${block('a')},${block(LINE)},${block(LINE)}]`, `[${block('a')}]`],
    [`[${block(String.raw`${LINE}\nkeep this`)},${block('a')}]`, `[${block('keep this')},${block('a')}]`],
    [`[${block(String.raw`${LINE}\n`)},${block('a')}]`, `[${block('a')}]`],
    [
      block(String.raw`${LINE} C:\\new\nkept`)
        .replace(/^/, '[')
        .replace(/$/, ']'),
      `[${block('kept')}]`,
    ],
  ] as const) {
    t.equal(without(body(system)), body(expected));
  }
  const twice = `{"model":"m","system":"${LINE}","system":[${block(LINE)}]}`;
  t.equal(without(twice), '{"model":"m","system":"","system":[]}', 'each of two members');
  t.end();
});

t.test('knows line ends however they are written', (t) => {
  for (const lineEnd of ['\\n', '\\u000a', '\\u000A', '\\n\\u000a']) {
    t.equal(without(body(`"${LINE}${lineEnd}You are."`)), body('"You are."'));
    t.equal(without(body(`[${block(`${LINE}${lineEnd}You are.`)}]`)), body(`[${block('You are.')}]`));
  }
  t.end();
});

t.test('leaves every other body as it is', (t) => {
  for (const system of [
    '"You are."',
    `" ${LINE}"`,
    '"x-anthropic-billing-header"',
    'null',
    '{}',
    '[]',
    `["${LINE}"]`,
    `[{"type":"text","text":["${LINE}"]}]`,
    `[{"type":"text"},7,{"text":"a${LINE}"}]`,
    `[${'{"text":"a"},'.repeat(8)}${block(LINE)}]`,
  ]) {
    t.equal(without(body(system)), body(system));
  }
  t.equal(without(`{"model":"m","messages":[${block(LINE)}]}`), `{"model":"m","messages":[${block(LINE)}]}`);
  t.end();
});

t.test('takes out nothing else of random bodies', (t) => {
  const random = new Random(5);
  let removed = 0;
  for (let round = 0; round < 3000; round++) {
    const blocks = Array.from({ length: random.below(7) }, () => ({
      isLine: random.chance(0.3),
      extra: `"x":${randomJson(random, 2)}`,
      text: spelled(random, `a${randomText(random, 4)}`),
    }));
    const listOf = (list: typeof blocks): string =>
      `[${list.map(({ extra, isLine, text }) => `{${extra},"text":${isLine ? `"${LINE}"` : text}}`).join(',')}]`;
    const json = body(listOf(blocks));
    const kept = blocks.filter(({ isLine }) => !isLine);
    removed += blocks.length - kept.length;
    assert.equal(without(json), body(listOf(kept)));
  }
  t.ok(removed > 1000);
  t.end();
});
