// The tables of addresses in docs/search.md, row by row, against the code.
import { readFileSync } from 'node:fs';
import t from 'tap';
import { keySteps } from '../../src/search/canonical-rules.ts';
import { pageKey, TRACKING } from '../../src/search/canonical-url.ts';

const page = readFileSync(new URL('../../../docs/search.md', import.meta.url), 'utf8');
const section = /## Which addresses are one page\n([^]*?)\n## |## Which addresses are one page\n([^]*)$/.exec(page);
const text = section?.[1] ?? section?.[2] ?? '';

/** Rows of the table with this third heading: rule, and two addresses. */
function rows(heading: string): (readonly [rule: string, one: string, other: string])[] {
  const table = text.split('\n\n').find((part) => part.includes(`| ${heading} `)) ?? '';
  return table
    .split('\n')
    .slice(2)
    .map((row) => row.split('|').map((cell) => cell.trim()))
    .map(([, rule = '', one = '', other = '']) => [rule, one.replaceAll('`', ''), other.replaceAll('`', '')]);
}

t.test('what is documented as one page has one key', async (t) => {
  const merged = rows('Is the page');
  t.ok(merged.length >= 25);
  for (const [rule, one, other] of merged) {
    t.not(one, other);
    t.equal(pageKey(one), pageKey(other), rule);
    t.ok(keySteps(one, 'web').rules.includes(rule.replaceAll('`', '')), `${rule} is named`);
  }
});

t.test('no rule is named for an address that is in the form already', async (t) => {
  for (const url of ['https://example.com/a', 'https://example.com/a?a=1&b=2', 'https://example.com/#/a', 'no URL'])
    t.strictSame(keySteps(url, 'web').rules, [], url);
});

t.test('what is documented as kept apart is', async (t) => {
  const apart = rows('Is not the page');
  t.ok(apart.length >= 15);
  for (const [rule, one, other] of apart) t.not(pageKey(one), pageKey(other), rule);
});

t.test('the tracking parameters are those of the code', async (t) => {
  const list = /Tracking parameters: ([^]*?)\n\n/.exec(text)?.[1] ?? '';
  const [prefixes = '', names = ''] = list.split(', and\n');
  const quoted = (part: string): string[] => [...part.matchAll(/`([^`]+)`/g)].map(([, name = '']) => name);
  t.strictSame(quoted(names).toSorted(), [...TRACKING].toSorted());
  for (const name of [...quoted(names), ...quoted(prefixes).map((prefix) => `${prefix}x`)])
    t.equal(pageKey(`https://example.com/a?${name}=1`), 'example.com/a', name);
  t.equal(quoted(prefixes).length, 9);
});

t.test('rules are told in words for any host', async (t) => {
  for (const host of ['constructor:8080', '__proto__:8080', 'arxiv']) {
    const { key, rules } = keySteps(`https://${host}/`, 'web');
    t.strictSame(rules, [], key);
  }
});
