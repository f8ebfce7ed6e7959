// Blocks of memory that are freed by hand.

import type { Test } from 'tap';

type Transfer = (this: ArrayBuffer, length?: number) => ArrayBuffer;

/** Sizes of the blocks that are freed from now on, to the end of the test. */
export function freedBlocks(t: Test): number[] {
  const sizes: number[] = [];
  const transfer = Reflect.get(ArrayBuffer.prototype, 'transfer') as Transfer;
  ArrayBuffer.prototype.transfer = function (length) {
    sizes.push(this.byteLength);
    return transfer.call(this, length);
  };
  t.teardown(() => (ArrayBuffer.prototype.transfer = transfer));
  return sizes;
}
