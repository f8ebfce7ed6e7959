import fc from 'fast-check';
import t from 'tap';
import { createGuard, isSameAddress } from '../../src/fetch/guard.ts';

const guard = createGuard({ allow: [], ports: [80, 443] });

/** First and last address of what is private, as numbers. */
const BLOCKS: readonly (readonly [number, number])[] = [
  [0x00000000, 0x00ffffff],
  [0x0a000000, 0x0affffff],
  [0x64400000, 0x647fffff],
  [0x7f000000, 0x7fffffff],
  [0xa9fe0000, 0xa9feffff],
  [0xac100000, 0xac1fffff],
  [0xc0a80000, 0xc0a8ffff],
  [0xc6120000, 0xc613ffff],
  [0xe0000000, 0xffffffff],
];

const privateAddress = fc.oneof(...BLOCKS.map(([min, max]) => fc.integer({ min, max })), fc.constant(0xa83f8110));

function octets(address: number): number[] {
  return [24, 16, 8, 0].map((shift) => (address >>> shift) & 0xff);
}

const number = fc.constantFrom(
  (value: number) => String(value),
  (value: number) => `0x${value.toString(16)}`,
  (value: number) => `0X${value.toString(16).toUpperCase()}`,
  (value: number) => `0${value.toString(8)}`,
  (value: number) => `000${value.toString(8)}`,
);

/** The four, three, two or one numbers that inet_aton takes, each in a radix of its own. */
const dotted = fc
  .tuple(privateAddress, fc.integer({ min: 1, max: 4 }), fc.array(number, { minLength: 4, maxLength: 4 }))
  .map(([address, count, spell]) => {
    const bytes = octets(address);
    const last = bytes.slice(count - 1).reduce((sum, byte) => sum * 256 + byte, 0);
    return [...bytes.slice(0, count - 1), last].map((value, at) => spell[at]?.(value)).join('.');
  });

/** Digits and dots in other scripts, and escapes, all of which URLs fold. */
const disguised = fc
  .tuple(dotted, fc.infiniteStream(fc.integer({ min: 0, max: 3 })), fc.constantFrom('', '.'))
  .map(([text, choices, end]) => {
    const disguise = (character: string): string => {
      const choice = choices.next().value;
      if (choice === 1) return `%${character.charCodeAt(0).toString(16).padStart(2, '0')}`;
      if (choice === 2 && character === '.') return '。';
      if (choice === 2) return String.fromCodePoint(character.charCodeAt(0) + 0xfee0);
      return character;
    };
    return [...text].map(disguise).join('') + end;
  });

function hex(address: number): string {
  return `${(address >>> 16).toString(16)}:${(address & 0xffff).toString(16)}`;
}

const EMBEDDINGS: readonly ((address: number) => string)[] = [
  (address) => `::${octets(address).join('.')}`,
  (address) => `::ffff:${octets(address).join('.')}`,
  (address) => `::ffff:${hex(address)}`,
  (address) => `0:0:0:0:0:FFFF:${hex(address)}`,
  (address) => `::ffff:0:${hex(address)}`,
  (address) => `64:ff9b::${hex(address)}`,
  (address) => `64:ff9b:1::${hex(address)}`,
  (address) => `2002:${hex(address)}::1`,
  (address) => `2606:4700:1:2:0:5efe:${hex(address)}`,
  (address) => `2606:4700:1:2:200:5efe:${octets(address).join('.')}`,
  (address) => `2001:0:${hex(address)}:8000:63bf:3fff:fdd2`,
];
const embedded = fc
  .tuple(privateAddress, fc.constantFrom(...EMBEDDINGS))
  .map(([address, embed]) => `[${embed(address)}]`);

t.test('every spelling of a private IPv4 address is refused', async (t) => {
  const host = fc.oneof(dotted, disguised, embedded);
  const scheme = fc.constantFrom('http://', 'https://', 'HTTP:', 'http:\\\\', '\thttp:/');
  fc.assert(
    fc.property(scheme, host, (start, name) => {
      try {
        guard.admit(`${start}${name}/`);
        return false;
      } catch (error) {
        return (error as { code: string }).code === 'HR_FETCH_BLOCKED';
      }
    }),
    { numRuns: 5000 },
  );
  t.pass('5000 spellings');
});

t.test('a name with any private address among public ones is refused', async (t) => {
  const publicAddress = fc.constantFrom('1.1.1.1', '93.184.216.34', '2606:4700::1111');
  const addresses = fc.tuple(
    fc.array(publicAddress),
    privateAddress.map((address) => octets(address).join('.')),
    fc.array(publicAddress),
  );
  await fc.assert(
    fc.asyncProperty(addresses, async ([before, bad, after]) => {
      const lookup = async (): Promise<string[]> => [...before, bad, ...after];
      const checker = createGuard({ allow: [], ports: [80], lookup });
      return await checker.resolve('mixed.test').then(
        () => false,
        (error: { subject: string }) => error.subject === 'name not found',
      );
    }),
  );
  t.pass('held');
});

t.test('IPv6 outside of 2000::/3 is refused', async (t) => {
  const groups = fc.array(fc.integer({ min: 0, max: 0xffff }), { minLength: 8, maxLength: 8 });
  fc.assert(
    fc.property(groups, (parts) => {
      fc.pre(((parts[0] ?? 0) & 0xe000) !== 0x2000);
      const text = parts.map((part) => part.toString(16)).join(':');
      t.ok(isSameAddress(text, text));
      try {
        guard.admit(`http://[${text}]/`);
        return false;
      } catch {
        return true;
      }
    }),
  );
});
