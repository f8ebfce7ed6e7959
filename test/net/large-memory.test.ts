// Memory that is freed by hand: which blocks are, and that none is which a socket still sends.
import t from 'tap';
import { freeMemory, LARGE_BYTES, sendsMemory, sentMemory } from '../../src/net/large-memory.ts';

t.test('a large block is freed, and what refers to it is empty', async (t) => {
  const block = Buffer.alloc(LARGE_BYTES, 'a');
  const part = block.subarray(10, 20);
  freeMemory(block);
  t.same([block.byteLength, part.byteLength, block.toString()], [0, 0, '']);
  freeMemory(block);
  t.equal(block.byteLength, 0, 'twice');
});

t.test('small blocks, parts of blocks and shared memory are left alone', async (t) => {
  const small = Buffer.alloc(LARGE_BYTES - 1);
  // Others may have the rest, as in the pool of Node.js.
  const part = Buffer.alloc(2 * LARGE_BYTES).subarray(LARGE_BYTES);
  const shared = Buffer.from(new SharedArrayBuffer(LARGE_BYTES));
  for (const block of [small, part, shared]) {
    const { byteLength } = block;
    freeMemory(block);
    t.equal(block.byteLength, byteLength);
  }
});

t.test('what is sent by any write is not freed', async (t) => {
  const block = Buffer.alloc(LARGE_BYTES);
  sendsMemory(block);
  sendsMemory(block.subarray(5));
  sentMemory(block);
  freeMemory(block);
  t.equal(block.byteLength, LARGE_BYTES, 'another write needs it');
  sentMemory(block);
  freeMemory(block);
  t.equal(block.byteLength, 0);
});
