// Text of one byte per character, as HTTP heads and most JSON of the program are, written into memory.

/** Every Buffer has it, though its types do not say so. */
type WritableBuffer = Buffer & { latin1Write(text: string, at: number, length: number): number };

/** Writes `text`, of characters up to U+00FF, at `at`, where there is room for it: `Buffer.write` in half the time (measured). Returns its end. */
export function writeLatin1(bytes: Buffer, text: string, at: number): number {
  return at + (bytes as WritableBuffer).latin1Write(text, at, text.length);
}
