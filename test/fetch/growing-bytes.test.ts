import fc from 'fast-check';
import t from 'tap';
import { GrowingBytes } from '../../src/fetch/growing-bytes.ts';

t.test('keeps every byte in order, and hands over a buffer of their size', async (t) => {
  fc.assert(
    fc.property(fc.array(fc.uint8Array({ maxLength: 5000 })), (pieces) => {
      const bytes = new GrowingBytes();
      for (const piece of pieces) bytes.append(piece);
      const expected = Buffer.concat(pieces);
      const { length } = bytes;
      const taken = bytes.take();
      return (
        length === expected.length &&
        expected.equals(taken) &&
        taken.buffer.byteLength === taken.byteLength &&
        bytes.length === 0
      );
    }),
  );
  t.pass('held');
});

t.test('starts anew after it was taken', async (t) => {
  const bytes = new GrowingBytes();
  bytes.append(Buffer.from('one'));
  const first = bytes.take();
  bytes.append(Buffer.from('two'));
  t.equal(Buffer.from(bytes.take()).toString(), 'two');
  t.equal(Buffer.from(first).toString(), 'one');
});
