// Scanner for multipart/form-data bodies (RFC 7578, RFC 2046 §5.1): one pass from delimiter to delimiter finds the fields `model` and
// `stream`, wherever they stand, without copying a part. What two parsers could read in two ways is refused: a request must not be
// routed by one model and served by another.

import type { ValidationEntry } from '../errors.ts';
import type { ScannedBody } from './body-scan.ts';
import type { RejectedBody } from './json-scan.ts';
import type { TokenBounds } from './token-bounds.ts';

/** What the scan found in a well-formed form. */
export interface ScannedForm {
  /** As of a JSON body of which nothing but `model` and `stream` was found. */
  readonly scan: ScannedBody;
  /** `[start, end)` of the value of each field `model`, flattened. */
  readonly models: readonly number[];
  /** Bytes of all fields that are no files. */
  readonly textBytes: number;
}

const MULTIPART = /^multipart\/form-data[ \t]*(?:;|$)/i;

/** Up to 70 characters, the last one no blank (RFC 2046 §5.1.1). */
const BOUNDARY = /^[\dA-Za-z'()+_,\-./:=? ]{0,69}[\dA-Za-z'()+_,\-./:=?]$/;

/** A parameter of a header field (RFC 9110 §5.6.6), as a quoted string or a token. */
const PARAMETER = /;[ \t]*([^\s;=]+)=(?:"((?:[^"\\]|\\.)*)"|([^\s;"]*))[ \t]*/y;

/** A longer value is no model id. */
const MAX_MODEL_BYTES = 1024;

/** A longer head of a part is a mistake or an attack. */
const MAX_HEAD_BYTES = 16 * 1024;

/** Most parts, and bytes of their heads: a part takes two microseconds, and a megabyte of heads 50 ms. */
const MAX_PARTS = 1000;
const MAX_HEADS_BYTES = 1024 * 1024;

const CR = 0x0d;
const LF = 0x0a;
const DASH = 0x2d;
const HEAD_END = Buffer.from('\r\n\r\n');

/** Whether a content type is that of a form. */
export function isForm(contentType: string): boolean {
  return MULTIPART.test(contentType);
}

/** Scans a form once, to its end. Never throws; the cost is linear in the length of the body, most of it a native search. */
export function scanForm(body: Buffer, contentType: string): (ScannedForm & { readonly ok: true }) | RejectedBody {
  const boundary = boundaryOf(contentType);
  if (boundary === undefined) return rejected(['body'], 'Content-Type multipart/form-data needs one boundary');
  const delimiter = Buffer.from(`--${boundary}`, 'latin1');
  const models: number[] = [];
  let model: string | undefined;
  let stream = false;
  let textBytes = 0;
  let headBytes = 0;
  let at = body.indexOf(delimiter, 0);
  if (at < 0) return rejected(['body'], 'The body does not contain the boundary of its Content-Type');
  if (at > 0 && !followsLineEnd(body, at)) return rejected(['body', at], LINE_BEFORE);
  for (let parts = 0; ; parts++) {
    const lineEnd = endOfDelimiter(body, at + delimiter.length);
    if (lineEnd === CLOSES) break;
    if (lineEnd < 0)
      return rejected(['body', at], 'A boundary must be followed by a line end, or by -- and a line end');
    if (parts === MAX_PARTS) return rejected(['body'], `A form should have at most ${MAX_PARTS} parts`);
    const start = lineEnd;
    const next = body.indexOf(delimiter, start);
    if (next < 0) return rejected(['body', body.length], 'The closing boundary is missing');
    if (!followsLineEnd(body, next)) return rejected(['body', next], LINE_BEFORE);
    const end = next - 2;
    const headEnd = body.subarray(start - 2, Math.min(end + 2, start + MAX_HEAD_BYTES)).indexOf(HEAD_END);
    if (headEnd < 0)
      return rejected(['body', start], 'A part needs a head of up to 16 KiB that ends with an empty line');
    headBytes += headEnd;
    if (headBytes > MAX_HEADS_BYTES) return rejected(['body'], 'The heads of all parts should have at most 1 MiB');
    const valueStart = start - 2 + headEnd + HEAD_END.length;
    // A part without content: the line end of the delimiter is that of the head.
    const valueEnd = Math.max(end, valueStart);
    const head = partHead(body.toString('latin1', start, start - 2 + headEnd));
    if (head === undefined)
      return rejected(['body', start], 'A part needs one Content-Disposition: form-data with a name');
    if (!head.isFile) textBytes += valueEnd - valueStart;
    if (head.name === 'model') {
      const fault = head.isFile ? 'Input should be a valid string' : head.fault;
      if (fault !== undefined) return rejected(['body', 'model'], fault);
      const value = textOf(body, valueStart, valueEnd);
      if (value === undefined)
        return rejected(['body', 'model'], `Input should be UTF-8 text of 1 to ${MAX_MODEL_BYTES} bytes`);
      if (model !== undefined && model !== value)
        return rejected(['body', 'model'], 'Field given twice with two values');
      model = value;
      models.push(valueStart, valueEnd);
    } else if (head.name === 'stream' && !head.isFile) {
      stream = /^(?:true|1)$/i.test(body.toString('latin1', valueStart, Math.min(valueEnd, valueStart + 8)));
    }
    at = next;
  }
  // Some parsers read on behind the closing boundary.
  at = body.indexOf(delimiter, at + delimiter.length);
  if (at >= 0) return rejected(['body', at], 'A boundary must not follow the closing one');
  if (model === undefined) return rejected(['body', 'model'], 'Field required', 'missing');
  return { ok: true, scan: { ...NOTHING_FOUND, model, stream }, models, textBytes };
}

/** The form with `model` as the value of its fields `model`; the same one where that stands there in any case. */
export function renamedForm(body: Buffer, { models, scan }: ScannedForm, model: string): Buffer {
  if (scan.model.toLowerCase() === model.toLowerCase()) return body;
  const value = Buffer.from(model);
  const parts: Buffer[] = [];
  let from = 0;
  for (let at = 0; at < models.length; at += 2) {
    parts.push(body.subarray(from, models[at]), value);
    from = models[at + 1] as number;
  }
  parts.push(body.subarray(from));
  return Buffer.concat(parts);
}

/** The form with a field `model` before all others. The same one where its boundary is not found. */
export function formWithModel(body: Buffer, contentType: string, model: string): Buffer {
  const boundary = boundaryOf(contentType);
  const at = boundary === undefined ? -1 : body.indexOf(`--${boundary}`, 0, 'latin1');
  if (at < 0) return body;
  const part = `--${boundary}\r\nContent-Disposition: form-data; name="model"\r\n\r\n${model}\r\n`;
  return Buffer.concat([body.subarray(0, at), Buffer.from(part), body.subarray(at)]);
}

/** Bytes of text that are one token on average. */
const BYTES_PER_TOKEN = 4;

/** Fewest bytes of a file that are one token: speech has 25 tokens or fewer in a second, of 1 KB or more. */
const FEWEST_FILE_BYTES_PER_TOKEN = 16;

/** What servers may count beside that: a small image can be a thousand tokens and more, and templates add some. */
const FURTHER_TOKENS = 16_384;

/**
 * Bounds of the tokens of a form. The estimate of its prompt is that of its text: what a file is worth in tokens only its server knows.
 */
export function formBounds(body: Buffer, { textBytes }: ScannedForm, context: number | undefined): TokenBounds {
  const longest = context ?? Infinity;
  const fileTokens = Math.ceil((body.byteLength - textBytes) / FEWEST_FILE_BYTES_PER_TOKEN);
  return {
    promptTokens: Math.ceil(textBytes / BYTES_PER_TOKEN),
    mostPromptTokens: textBytes + fileTokens + FURTHER_TOKENS,
    answers: 1,
    limit: undefined,
    context: longest,
    free: longest,
    surelyFree: longest,
  };
}

const NOTHING_FOUND: ScannedBody = {
  ok: true,
  model: '',
  stream: false,
  session: undefined,
  spans: new Array<number>(128).fill(-1),
  turns: [],
  repeated: null,
  // A file is no text of a prompt.
  hasAddress: true,
  values: 0,
};

/** Undefined when there is none, more than one, or none that RFC 2046 allows. */
function boundaryOf(contentType: string): string | undefined {
  const parameters = parametersOf(contentType);
  const boundary = parameters?.get('boundary');
  return boundary !== undefined && BOUNDARY.test(boundary) ? boundary : undefined;
}

/** The parameters behind the first word of a field value by name in lower case; undefined when they are malformed or repeat. */
function parametersOf(value: string): ReadonlyMap<string, string> | undefined {
  const parameters = new Map<string, string>();
  let at = value.indexOf(';');
  if (at < 0) return parameters;
  while (at < value.length) {
    PARAMETER.lastIndex = at;
    const match = PARAMETER.exec(value);
    // Some clients end the list with a semicolon.
    if (match === null) return /^;?[ \t]*$/.test(value.slice(at)) ? parameters : undefined;
    const name = (match[1] as string).toLowerCase();
    if (parameters.has(name)) return undefined;
    parameters.set(name, match[2]?.replace(/\\(.)/g, '$1') ?? (match[3] as string));
    at = PARAMETER.lastIndex;
  }
  return parameters;
}

/** Some parsers take a boundary for one wherever it stands, so it must not be in a part. */
const LINE_BEFORE = 'A boundary must stand at the beginning of a line, behind CRLF';

function followsLineEnd(body: Buffer, at: number): boolean {
  return body[at - 1] === LF && body[at - 2] === CR;
}

/** It is followed by `--`: no part follows it. */
const CLOSES = -2;

/** The offset behind the line end of a delimiter that ends at `start`; `CLOSES`, or -1 when something else follows. */
function endOfDelimiter(body: Buffer, start: number): number {
  const closes = body[start] === DASH && body[start + 1] === DASH;
  let at = closes ? start + 2 : start;
  while (body[at] === 0x20 || body[at] === 0x09) at++;
  if (closes && at === body.length) return CLOSES;
  if (body[at] !== CR || body[at + 1] !== LF) return -1;
  return closes ? CLOSES : at + 2;
}

interface PartHead {
  readonly name: string;
  readonly isFile: boolean;
  /** Why its content cannot be read as text. */
  readonly fault: string | undefined;
}

/** Undefined when the head is malformed. */
function partHead(head: string): PartHead | undefined {
  let disposition: string | undefined;
  let fault: string | undefined;
  for (const line of head.split('\r\n')) {
    const colon = line.indexOf(':');
    // A line that continues the one before is read differently by different servers.
    if (colon < 1 || /[\s\0]/.test(line.slice(0, colon))) return undefined;
    const name = line.slice(0, colon).toLowerCase();
    const value = line.slice(colon + 1).trim();
    if (/[\r\n\0]/.test(value)) return undefined;
    if (name === 'content-disposition') {
      if (disposition !== undefined) return undefined;
      disposition = value;
    } else if (name === 'content-transfer-encoding' && !/^(?:7bit|8bit|binary)$/i.test(value)) {
      fault = 'Content-Transfer-Encoding is not supported';
    } else if (name === 'content-type') {
      const parameters = parametersOf(value);
      const charset = parameters === undefined ? '' : (parameters.get('charset') ?? 'utf-8');
      if (!/^(?:utf-?8|us-ascii)$/i.test(charset)) fault = 'Only the charset UTF-8 is supported';
    }
  }
  if (disposition === undefined || !/^form-data[ \t]*;/i.test(disposition)) return undefined;
  const parameters = parametersOf(disposition);
  const name = parameters?.get('name');
  if (parameters === undefined || name === undefined || parameters.has('name*')) return undefined;
  return { name, isFile: parameters.has('filename') || parameters.has('filename*'), fault };
}

const UTF8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

function textOf(body: Buffer, start: number, end: number): string | undefined {
  if (end - start < 1 || end - start > MAX_MODEL_BYTES) return undefined;
  try {
    return UTF8.decode(body.subarray(start, end));
  } catch {
    return undefined;
  }
}

function rejected(loc: ValidationEntry['loc'], msg: string, type = 'multipart_invalid'): RejectedBody {
  return { ok: false, errors: [{ loc, msg, type }] };
}
