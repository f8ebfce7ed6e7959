import { constants, zstdCompressSync } from 'node:zlib';
import t from 'tap';
import { ZstdFrame } from '../../src/fetch/zstd-frame.ts';

const { ZSTD_c_checksumFlag, ZSTD_c_contentSizeFlag } = constants;

/** A frame that decoders skip, with one of the sixteen magic numbers. */
function skippable(number: number, bytes: number): Buffer {
  const frame = Buffer.alloc(8 + bytes, 'a');
  frame.writeUInt32LE(0x184d2a50 + number, 0);
  frame.writeUInt32LE(bytes, 4);
  return frame;
}

/** Frames with headers and blocks of all kinds. */
const FRAMES: Readonly<Record<string, Buffer>> = {
  empty: zstdCompressSync(''),
  short: zstdCompressSync('<p>words'),
  'of one byte': zstdCompressSync(Buffer.alloc(300_000, 'a')),
  'of several blocks': zstdCompressSync(
    Buffer.from(Array.from({ length: 60_000 }, (_, at) => `${at * 7919}`).join(' ')),
  ),
  'with a checksum': zstdCompressSync('<p>words', { params: { [ZSTD_c_checksumFlag]: 1 } }),
  skippable: skippable(15, 300_000),
  'skippable and empty': skippable(0, 0),
  'without its size': zstdCompressSync(Buffer.alloc(70_000, 'ab'), { params: { [ZSTD_c_contentSizeFlag]: 0 } }),
};

t.test('a frame is whole with its last byte, and takes no byte behind it', async (t) => {
  for (const [name, bytes] of Object.entries(FRAMES)) {
    const cut = new ZstdFrame();
    t.equal(cut.take(bytes.subarray(0, -1)), bytes.byteLength - 1, name);
    t.equal(cut.isWhole, false, `${name}, cut off`);
    const followed = new ZstdFrame();
    t.equal(followed.take(Buffer.concat([bytes, bytes])), bytes.byteLength, `${name}, followed by another one`);
    t.equal(followed.isWhole, true);
  }
});

t.test('a frame ends at the same byte whatever its pieces', async (t) => {
  for (const [name, bytes] of Object.entries(FRAMES)) {
    const frame = new ZstdFrame();
    let whole = -1;
    for (let at = 0; at < bytes.byteLength; at++) {
      frame.take(bytes.subarray(at, at + 1));
      if (frame.isWhole && whole < 0) whole = at;
    }
    t.equal(whole, bytes.byteLength - 1, name);
  }
});
