// docs/forwarding.md says what happens to each header of a request: the table must name every header that has a rule of its own, and
// say the truth about it.
import { readFileSync } from 'node:fs';
import t from 'tap';
import { Peers, requestLines, viaName } from '../../src/upstream/index.ts';
import { OF_DIALECT, REQUEST_RULES } from '../../src/upstream/headers.ts';

const page = readFileSync(new URL('../../../docs/forwarding.md', import.meta.url), 'utf8');
const rules = { peers: new Peers(['10.0.0.0/8']), scheme: 'https', via: viaName() };

/** Names in the first column with what the second one says. */
const documented = new Map(
  [...page.matchAll(/^\| (`.*?) +\| (.*?) +\|$/gm)].flatMap(([, names = '', effect = '']) =>
    [...names.matchAll(/`([\w-]+)`/g)].map(([, name = '']) => [name, effect] as const),
  ),
);

/** Whether a CRN gets the value that this peer sent. */
function passes(name: string, remoteAddress: string): boolean {
  const input = { headers: [name, 'theirs'], remoteAddress, requestId: 'id', credential: '', readable: true };
  return new RegExp(`^${name}: .*theirs`, 'm').test(requestLines(rules, input).common);
}

t.test('every header with a rule is in the table', async (t) => {
  t.same(
    [...REQUEST_RULES.keys(), ...OF_DIALECT].filter((name) => !documented.has(name)),
    [],
  );
});

t.test('the table says what happens', async (t) => {
  t.ok(documented.size > 30);
  for (const [name, effect] of documented) {
    t.notOk(passes(name, '192.0.2.1') && name !== 'x-forwarded-host', `${name} of a stranger`);
    t.equal(passes(name, '10.0.0.1'), /trusted/.test(effect), `${name} of a trusted proxy`);
  }
  t.ok(passes('x-other', '192.0.2.1'));
});
