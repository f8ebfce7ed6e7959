import fc from 'fast-check';
import t from 'tap';
import { readCookie, setCookie } from '../../src/ingress/cookies.ts';

const NAME = 'preferred_instances';

t.test('a cookie is found by its whole name, wherever it stands', async (t) => {
  const cases: [string | undefined, string | undefined][] = [
    [undefined, undefined],
    ['', undefined],
    [`${NAME}=v`, 'v'],
    [`${NAME}=`, ''],
    [`a=1; ${NAME}=v; b=2`, 'v'],
    [`a=1;${NAME}=v`, 'v'],
    [`${NAME}=first; ${NAME}=second`, 'first'],
    [`x${NAME}=no; ${NAME}=yes`, 'yes'],
    [`${NAME}2=no`, undefined],
    [`x-${NAME}=no`, undefined],
    [`a=${NAME}; b=1`, undefined],
    [`a=${NAME}=no; ${NAME}=yes`, 'yes'],
    [NAME, undefined],
    [`${NAME.toUpperCase()}=no`, undefined],
    [`${NAME}={"a":"http://x","b":"y"}; c=1`, '{"a":"http://x","b":"y"}'],
    [`${NAME}= {"a": "b c"} `, '{"a": "b c"}'],
    [`${NAME}=%7B%22a%22%3A%22b%22%7D`, '%7B%22a%22%3A%22b%22%7D'],
    [`${NAME}=a=b=c`, 'a=b=c'],
  ];
  for (const [header, value] of cases) t.equal(readCookie(header, NAME), value, `${header}`);
});

/** The plain reading of RFC 6265 §5.4, to compare with. */
function plainly(header: string): string | undefined {
  for (const part of header.split(';')) {
    const equals = part.indexOf('=');
    if (equals >= 0 && part.slice(0, equals).replace(/^ +/, '') === NAME) return part.slice(equals + 1).trim();
  }
  return undefined;
}

t.test('any header reads as the plain reading has it', async () => {
  const piece = fc.oneof(fc.constantFrom(NAME, '=', ';', ' ', `${NAME}=`, '"', 'x'), fc.string({ maxLength: 4 }));
  const header = fc.array(piece, { maxLength: 12 }).map((pieces) => pieces.join(''));
  fc.assert(
    fc.property(header, (text) => readCookie(text, NAME) === plainly(text)),
    { numRuns: 2000 },
  );
});

t.test('what is set is read back', async () => {
  const value = fc.string().filter((text) => !text.includes(';') && text === text.trim());
  fc.assert(
    fc.property(value, fc.boolean(), (text, secure) => {
      return readCookie(setCookie(NAME, text, 60, secure), NAME) === text;
    }),
  );
});

t.test('a cookie is set with its attributes, Secure only when asked', async (t) => {
  t.equal(setCookie('a', 'b', 1800, false), 'a=b; Max-Age=1800; Path=/; HttpOnly; SameSite=Lax');
  t.equal(setCookie('a', 'b', 1800, true), 'a=b; Max-Age=1800; Path=/; HttpOnly; SameSite=Lax; Secure');
});
