// What is read in parts, so that making and sending one is a short turn of an event loop.

export interface Part {
  /** No part follows. */
  readonly isLast: boolean;
}

/** Reads one part after the other, counted from 0; null when one does not come. */
export async function allParts<P extends Part>(read: (part: number) => Promise<P | null>): Promise<P[] | null> {
  const parts: P[] = [];
  for (;;) {
    const part = await read(parts.length);
    if (part === null) return null;
    parts.push(part);
    if (part.isLast) return parts;
  }
}
