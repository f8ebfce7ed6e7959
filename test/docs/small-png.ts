// Makes the pictures of the documentation small: a screenshot in at most 128 colours, as a PNG with a palette. The pictures are in the
// package, and a screen of text needs few colours.

import { crc32, deflateSync, inflateSync } from 'node:zlib';

const SIGNATURE = Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]);
const COLORS = 128;

/** Colours that occur together in a box of the colour space, and how often each does. */
interface Box {
  readonly colors: readonly number[];
  readonly weight: number;
  /** The longest side: its channel, and its length. */
  readonly channel: number;
  readonly length: number;
}

/** The same picture with a palette. Takes what Chromium writes: 8 bits a channel, RGB or RGBA, not interlaced. */
export function smallPng(png: Buffer): Buffer {
  const { channels, height, pixels, width } = decode(png);
  const counts = new Map<number, number>();
  for (let at = 0; at < pixels.length; at += channels) {
    const color = colorAt(pixels, at);
    counts.set(color, (counts.get(color) ?? 0) + 1);
  }
  const palette = paletteOf(counts);
  const places = new Map<number, number>();
  for (const color of counts.keys()) places.set(color, nearest(palette, color));
  const rows = Buffer.alloc(height * (width + 1));
  for (let y = 0, at = 0, to = 0; y < height; y++) {
    // Filter 0: of pictures with a palette it is the best one.
    to++;
    for (let x = 0; x < width; x++, at += channels) rows[to++] = places.get(colorAt(pixels, at)) as number;
  }
  const header = Buffer.alloc(13);
  header.writeUInt32BE(width, 0);
  header.writeUInt32BE(height, 4);
  header.set([8, 3, 0, 0, 0], 8);
  return Buffer.concat([
    SIGNATURE,
    chunk('IHDR', header),
    chunk('PLTE', Buffer.from(palette.flatMap((color) => [color >> 16, (color >> 8) & 255, color & 255]))),
    chunk('IDAT', deflateSync(rows, { level: 9, memLevel: 9 })),
    chunk('IEND', Buffer.alloc(0)),
  ]);
}

interface Picture {
  readonly width: number;
  readonly height: number;
  readonly channels: number;
  readonly pixels: Buffer;
}

function decode(png: Buffer): Picture {
  const width = png.readUInt32BE(16);
  const height = png.readUInt32BE(20);
  const [depth, type, , , interlace] = png.subarray(24, 29);
  if (depth !== 8 || (type !== 2 && type !== 6) || interlace !== 0) throw new Error('not a PNG as Chromium writes it');
  const channels = type === 2 ? 3 : 4;
  const data: Buffer[] = [];
  for (let at = 8; at < png.length;) {
    const length = png.readUInt32BE(at);
    if (png.toString('latin1', at + 4, at + 8) === 'IDAT') data.push(png.subarray(at + 8, at + 8 + length));
    at += length + 12;
  }
  return { width, height, channels, pixels: unfilter(inflateSync(Buffer.concat(data)), width * channels, channels) };
}

/** Undoes the filters of the rows (PNG, section 9). */
function unfilter(rows: Buffer, stride: number, channels: number): Buffer {
  const pixels = Buffer.alloc((rows.length / (stride + 1)) * stride);
  for (let from = 0, to = 0; from < rows.length;) {
    const filter = rows[from++];
    for (let x = 0; x < stride; x++, from++, to++) {
      const left = x < channels ? 0 : (pixels[to - channels] as number);
      const up = to < stride ? 0 : (pixels[to - stride] as number);
      const corner = x < channels || to < stride ? 0 : (pixels[to - stride - channels] as number);
      const guess = [0, left, up, (left + up) >> 1, paeth(left, up, corner)][filter as number] as number;
      pixels[to] = ((rows[from] as number) + guess) & 255;
    }
  }
  return pixels;
}

function paeth(left: number, up: number, corner: number): number {
  const guess = left + up - corner;
  const [byLeft, byUp, byCorner] = [Math.abs(guess - left), Math.abs(guess - up), Math.abs(guess - corner)];
  if (byLeft <= byUp && byLeft <= byCorner) return left;
  return byUp <= byCorner ? up : corner;
}

function colorAt(pixels: Buffer, at: number): number {
  return ((pixels[at] as number) << 16) | ((pixels[at + 1] as number) << 8) | (pixels[at + 2] as number);
}

/** Median cut: the box with the longest side is halved until there are enough. */
function paletteOf(counts: ReadonlyMap<number, number>): number[] {
  let boxes = [boxOf([...counts.keys()], counts)];
  while (boxes.length < COLORS) {
    const [largest, ...others] = boxes.sort((one, other) => sizeOf(other) - sizeOf(one));
    if (largest === undefined || largest.length === 0) break;
    const sorted = largest.colors.toSorted(
      (one, other) => channelOf(one, largest.channel) - channelOf(other, largest.channel),
    );
    const middle =
      (channelOf(sorted[0] as number, largest.channel) + channelOf(sorted.at(-1) as number, largest.channel)) / 2;
    const cut = sorted.findIndex((color) => channelOf(color, largest.channel) > middle);
    boxes = [...others, boxOf(sorted.slice(0, cut), counts), boxOf(sorted.slice(cut), counts)];
  }
  // The most frequent colour of a box stands for it, so that large areas keep theirs.
  return boxes.map(({ colors }) =>
    colors.reduce((best, color) => ((counts.get(color) ?? 0) > (counts.get(best) ?? 0) ? color : best)),
  );
}

function sizeOf({ length, weight }: Box): number {
  return length * Math.log2(weight + 1);
}

function boxOf(colors: readonly number[], counts: ReadonlyMap<number, number>): Box {
  const sides = [16, 8, 0].map((channel) => {
    const values = colors.map((color) => channelOf(color, channel));
    return {
      channel,
      length: values.reduce((a, b) => Math.max(a, b), 0) - values.reduce((a, b) => Math.min(a, b), 255),
    };
  });
  const { channel, length } = sides.reduce((best, side) => (side.length > best.length ? side : best));
  const weight = colors.reduce((sum, color) => sum + (counts.get(color) ?? 0), 0);
  return { colors, weight, channel, length };
}

function channelOf(color: number, channel: number): number {
  return (color >> channel) & 255;
}

function nearest(palette: readonly number[], color: number): number {
  let best = 0;
  let least = Infinity;
  for (const [place, other] of palette.entries()) {
    const distance = [16, 8, 0].reduce((sum, channel) => {
      return sum + (channelOf(color, channel) - channelOf(other, channel)) ** 2;
    }, 0);
    if (distance < least) [best, least] = [place, distance];
  }
  return best;
}

function chunk(type: string, data: Buffer): Buffer {
  const head = Buffer.alloc(4);
  head.writeUInt32BE(data.length);
  const body = Buffer.concat([Buffer.from(type, 'latin1'), data]);
  const sum = Buffer.alloc(4);
  sum.writeUInt32BE(crc32(body));
  return Buffer.concat([head, body, sum]);
}
