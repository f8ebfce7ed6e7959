// The bytes of a prompt and their hashes against plain implementations of the same rules.
import { readFileSync } from 'node:fs';
import * as fc from 'fast-check';
import t from 'tap';
import { promptBlocks } from '../../src/dialect/index.ts';
import { DIALECTS } from '../../src/dialect/dialects.ts';
import { scanBody } from '../../src/dialect/body-scan.ts';
import { blockBytes } from '../../src/dialect/prompt-stream.ts';
import { compiledModule, moduleFile, MODULES } from './compiled-modules.ts';

const MASK = (1n << 64n) - 1n;
const P1 = 0x9e3779b185ebca87n;
const P2 = 0xc2b2ae3d27d4eb4fn;
const P3 = 0x165667b19e3779f9n;
const P4 = 0x85ebca77c2b2ae63n;

/** XXH64 by its specification, of a multiple of 32 bytes. */
function xxh64(bytes: Buffer, seed: bigint): bigint {
  const rotated = (value: bigint, by: bigint): bigint => ((value << by) | (value >> (64n - by))) & MASK;
  const round = (lane: bigint, word: bigint): bigint => (rotated((lane + word * P2) & MASK, 31n) * P1) & MASK;
  const lanes = [seed + P1 + P2, seed + P2, seed, seed - P1].map((lane) => lane & MASK);
  for (let at = 0; at < bytes.length; at += 32) {
    for (let lane = 0; lane < 4; lane++) {
      lanes[lane] = round(lanes[lane] as bigint, bytes.readBigUInt64LE(at + 8 * lane));
    }
  }
  let hash = lanes.reduce((sum, lane, at) => sum + rotated(lane, [1n, 7n, 12n, 18n][at] as bigint), 0n) & MASK;
  for (const lane of lanes) hash = (((hash ^ round(0n, lane)) & MASK) * P1 + P4) & MASK;
  hash = (hash + BigInt(bytes.length)) & MASK;
  hash = ((hash ^ (hash >> 33n)) * P2) & MASK;
  hash = ((hash ^ (hash >> 29n)) * P3) & MASK;
  return hash ^ (hash >> 32n);
}

function chain(body: Buffer, seed = 7): { bytes: number; blocks: bigint[] } {
  const scan = scanBody(body, { requireModel: false });
  if (!scan.ok) throw new Error(JSON.stringify(scan.errors));
  const { bytes, count, hashes } = promptBlocks(body, scan, DIALECTS.completions, seed);
  const word = (at: number): bigint => BigInt((hashes[at] as number) >>> 0);
  return { bytes, blocks: Array.from({ length: count }, (_, at) => (word(2 * at + 1) << 32n) | word(2 * at)) };
}

/** The blocks of a plain prompt by the rules. */
function expected(prompt: string, seed = 7n): { bytes: number; blocks: bigint[] } {
  const bytes = Buffer.from(JSON.stringify(prompt).slice(1, -1));
  const blocks: bigint[] = [];
  let hash = seed;
  for (let at = 1; at <= 608 && blockBytes(at) <= bytes.length; at++) {
    hash = xxh64(bytes.subarray(blockBytes(at - 1), blockBytes(at)), hash);
    blocks.push(hash);
  }
  return { bytes: bytes.length, blocks };
}

t.test('the reference has the values of the specification', (t) => {
  // Of the sanity test of the xxHash library: its generator of bytes, and lengths that are multiples of 32.
  const bytes = Buffer.alloc(2048);
  let generator = 2654435761n;
  for (let at = 0; at < bytes.length; at++) {
    bytes[at] = Number(generator >> 56n);
    generator = (generator * 11400714785074694797n) & MASK;
  }
  t.equal(xxh64(bytes.subarray(0, 32), 0n), 0x18b216492bb44b70n);
  t.end();
});

t.test('short texts have the hashes of the same texts with escapes, also where the hashed bytes end', (t) => {
  const HASHED = 1024 * 1024;
  const shorts = Array.from({ length: 16 }, (_, length) => 'abcdefghijklmnop'.slice(0, length));
  for (const rest of [0, 1, 5, 11, 12, 13, 40, 150, HASHED - 700]) {
    const prompt = JSON.stringify({ prompt: ['x'.repeat(HASHED - rest), ...shorts, 'y'.repeat(600)] });
    const escaped = prompt.replace(/"a(?=[b-p]*")/g, String.raw`"\u0061`);
    t.not(prompt, escaped);
    t.same(chain(Buffer.from(prompt)).blocks, chain(Buffer.from(escaped)).blocks, `${rest} bytes are left`);
  }
  t.end();
});

t.test('a plain prompt has the hashes of the rules', (t) => {
  const TEXT = fc.oneof(
    fc.string({ unit: 'binary' }),
    fc.string(),
    fc.constantFrom('\n', '"', '\\', '\\\\', '/', '/u'),
  );
  fc.assert(
    fc.property(fc.array(TEXT, { maxLength: 50 }), fc.nat(60), (texts, times) => {
      const prompt = texts.join('').repeat(times);
      t.same(chain(Buffer.from(JSON.stringify({ prompt }))), expected(prompt));
    }),
    { numRuns: 200 },
  );
  t.end();
});

t.test('escapes, wherever a chunk or a step ends, are read as their characters', (t) => {
  const CHARS = ['a', 'é', '中', '\u{1f600}', '\ud800', '\udc00', '\n', '\u0001', '"', '\\', '/', '\u007f', '\u0000'];
  const written = (char: string, way: number): string => {
    const units = Array.from({ length: char.length }, (_, at) => char.charCodeAt(at).toString(16).padStart(4, '0'));
    if (way === 0) return units.map((unit) => `\\u${unit}`).join('');
    if (way === 1) return units.map((unit) => `\\u${unit.toUpperCase()}`).join('');
    return way === 2 && char === '/' ? '\\/' : JSON.stringify(char).slice(1, -1);
  };
  const PIECE = fc.tuple(fc.constantFrom(...CHARS), fc.nat(3), fc.nat(40));
  fc.assert(
    fc.property(fc.array(PIECE, { maxLength: 60 }), fc.nat(2000), (pieces, before) => {
      const filler = 'x'.repeat(before);
      let text = filler;
      let json = filler;
      for (const [char, way, count] of pieces) {
        text += `${char.repeat(count)}.`;
        json += `${written(char, way).repeat(count)}.`;
      }
      t.same(chain(Buffer.from(`{"prompt":"${json}"}`)), expected(text));
    }),
    { numRuns: 300 },
  );
  // Longer than a chunk of 64 KiB, and than all that is hashed.
  for (const [char, count] of [
    ['中', 30_000],
    ['\u{1f600}', 40_000],
    ['"', 600_000],
    ['/', 1_100_000],
    ['é"\n', 250_000],
  ] as const) {
    const text = char.repeat(count);
    const known = expected(text).blocks;
    for (const way of [0, 2, 3]) {
      const json = [...char].map((one) => written(one, way)).join('');
      const { blocks } = chain(Buffer.from(`{"prompt":"${json.repeat(count)}"}`));
      t.same(blocks.length, known.length);
      t.same(blocks.at(-1), known.at(-1), `${JSON.stringify(char)} way ${way}`);
    }
  }
  t.end();
});

t.test('one changed byte changes half of the bits of its block and of all behind it', (t) => {
  const text = Buffer.from('abcdefghijklmnop'.repeat(128));
  const first = chain(Buffer.from(`{"prompt":"${text.toString()}"}`)).blocks;
  const flips = Array.from({ length: 64 }, () => 0);
  let rounds = 0;
  for (let at = 0; at < text.length; at += 3) {
    for (const bit of [0, 1, 2, 3]) {
      const changed = Buffer.from(text);
      // Letters stay letters.
      changed[at] = 0x60 | (((changed[at] as number) ^ (1 << bit)) & 15 || 16);
      const { blocks } = chain(Buffer.from(`{"prompt":"${changed.toString()}"}`));
      const block = Math.floor(at / 512);
      t.same(blocks.slice(0, block), first.slice(0, block));
      t.notOk(blocks.some((each, later) => later >= block && each === first[later]));
      const changes = (blocks[block] as bigint) ^ (first[block] as bigint);
      for (let n = 0; n < 64; n++) flips[n] = (flips[n] as number) + Number((changes >> BigInt(n)) & 1n);
      rounds++;
    }
  }
  for (const [n, count] of flips.entries()) t.ok(Math.abs(count / rounds - 0.5) < 0.06, `bit ${n}: ${count / rounds}`);
  t.end();
});

t.test('the modules are what their sources compile to', (t) => {
  for (const name of MODULES) t.equal(readFileSync(moduleFile(name), 'utf8'), compiledModule(name));
  t.end();
});
