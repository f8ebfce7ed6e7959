// Builds small PDF files for the tests of the PDF reader, with the classic cross-reference table.

import { deflateSync } from 'node:zlib';

/** A line of text; points from the lower left corner of a page of 612 × 792. */
export interface PdfLine {
  readonly text: string;
  readonly x: number;
  readonly y: number;
  /** Default 12. */
  readonly size?: number;
}

export interface PdfOptions {
  /** Entries of the information dictionary, such as `{ Title: 'Mills' }`. */
  readonly info?: Readonly<Record<string, string>>;
  /** Instead of Helvetica: a font of an East Asian collection that is not in the file. Texts of lines are hexadecimal codes. */
  readonly eastAsian?: { readonly encoding: string; readonly ordering: string };
  /** Adds an encryption dictionary that no empty password opens. */
  readonly encrypted?: boolean;
  /** Instead of the text of every page: the content stream, deflated. */
  readonly deflated?: Uint8Array;
  /** Filters of that stream. Default: `/FlateDecode`. */
  readonly filter?: string;
}

/** Lines of equal spacing from the top of a page. */
export function linesFrom(texts: readonly string[], top = 700, gap = 14): PdfLine[] {
  return texts.map((text, index) => ({ text, x: 72, y: top - index * gap }));
}

export function buildPdf(
  pages: readonly (readonly PdfLine[])[],
  { info = {}, encrypted = false, deflated, filter = '/FlateDecode', eastAsian }: PdfOptions = {},
): Uint8Array<ArrayBuffer> {
  const kids = pages.map((_, index) => `${5 + 2 * index} 0 R`).join(' ');
  const objects: (string | Buffer)[] = [
    '<< /Type /Catalog /Pages 2 0 R >>',
    `<< /Type /Pages /Kids [${kids}] /Count ${pages.length} >>`,
    eastAsian === undefined
      ? '<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>'
      : `<< /Type /Font /Subtype /Type0 /BaseFont /Sample-${eastAsian.encoding} /Encoding /${eastAsian.encoding} /DescendantFonts [<< /Type /Font /Subtype /CIDFontType0 /BaseFont /Sample /CIDSystemInfo << /Registry (Adobe) /Ordering (${eastAsian.ordering}) /Supplement 2 >> /FontDescriptor << /Type /FontDescriptor /FontName /Sample /Flags 4 /FontBBox [0 -200 1000 900] /ItalicAngle 0 /Ascent 900 /Descent -200 /StemV 80 >> >>] >>`,
    `<< ${Object.entries(info)
      .map(([key, value]) => `/${key} (${escaped(value)})`)
      .join(' ')} >>`,
  ];
  pages.forEach((lines, index) => {
    objects.push(
      `<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Resources << /Font << /F1 3 0 R >> >> /Contents ${6 + 2 * index} 0 R >>`,
      deflated === undefined
        ? stream(Buffer.from(drawn(lines, eastAsian !== undefined), 'latin1'), '')
        : stream(deflated, `/Filter ${filter} `),
    );
  });
  const key = 'A'.repeat(64);
  if (encrypted) objects.push(`<< /Filter /Standard /V 1 /R 2 /O <${key}> /U <${key}> /P -4 >>`);
  return assembled(objects, encrypted);
}

/** A deflated content stream of `bytes` spaces: small in the file, large when inflated. */
export function deflatedSpaces(bytes: number): Uint8Array {
  return deflateSync(Buffer.alloc(bytes, 0x20), { level: 9 });
}

function drawn(lines: readonly PdfLine[], isHexadecimal: boolean): string {
  const written = (text: string): string => (isHexadecimal ? `<${text}>` : `(${escaped(text)})`);
  const texts = lines.map(({ text, x, y, size = 12 }) => `/F1 ${size} Tf 1 0 0 1 ${x} ${y} Tm ${written(text)} Tj`);
  return `BT ${texts.join('\n')} ET`;
}

function escaped(text: string): string {
  return text.replaceAll(/[\\()]/g, (character) => `\\${character}`);
}

function stream(data: Uint8Array, filter: string): Buffer {
  return Buffer.concat([
    Buffer.from(`<< ${filter}/Length ${data.length} >>\nstream\n`),
    data,
    Buffer.from('\nendstream'),
  ]);
}

function assembled(objects: readonly (string | Buffer)[], encrypted: boolean): Uint8Array<ArrayBuffer> {
  const parts: Buffer[] = [Buffer.from('%PDF-1.4\n')];
  const offsets: number[] = [];
  let length = parts[0]?.length ?? 0;
  const push = (part: Buffer): void => {
    parts.push(part);
    length += part.length;
  };
  objects.forEach((object, index) => {
    offsets.push(length);
    push(Buffer.concat([Buffer.from(`${index + 1} 0 obj\n`), Buffer.from(object), Buffer.from('\nendobj\n')]));
  });
  const table = offsets.map((offset) => `${String(offset).padStart(10, '0')} 00000 n \n`).join('');
  const id = '<00112233445566778899AABBCCDDEEFF>';
  const extra = encrypted ? ` /Encrypt ${objects.length} 0 R /ID [${id} ${id}]` : '';
  push(
    Buffer.from(
      `xref\n0 ${objects.length + 1}\n0000000000 65535 f \n${table}trailer\n<< /Size ${objects.length + 1} /Root 1 0 R /Info 4 0 R${extra} >>\nstartxref\n${length}\n%%EOF\n`,
    ),
  );
  return new Uint8Array(Buffer.concat(parts));
}
