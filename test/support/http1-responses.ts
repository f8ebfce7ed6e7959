// Random responses, well-formed and broken, and what ResponseParser and llhttp read from them. A seed gives the same case each time.

import { ResponseParser } from '../../src/net/http1-response-parser.ts';
import { chunkedText } from './http1-requests.ts';
import { llhttpRead, withoutExtensions } from './llhttp.ts';
import { mutated, Random, withExtraLine } from './random.ts';

export interface Response {
  readonly state: string;
  readonly status: number;
  readonly fields: readonly string[];
  readonly body: string;
  readonly reusable: boolean;
}

export interface ResponseOptions {
  /** The server closes the connection after the bytes. */
  readonly ended?: boolean;
  /** The request was HEAD. */
  readonly toHead?: boolean;
}

/** The response whose bytes arrive cut at `places`, as `parser` reads it, which may have read others before. */
export function readResponse(
  bytes: Buffer,
  places: readonly number[] = [],
  { ended = false, toHead = false }: ResponseOptions = {},
  parser: ResponseParser = new ResponseParser(),
): Response {
  parser.begin(toHead);
  const body: Buffer[] = [];
  const cuts = [...new Set(places.map((place) => place % (bytes.byteLength + 1)))].sort((a, b) => a - b);
  let from = 0;
  let heads = 0;
  for (const to of [...cuts, bytes.byteLength]) {
    const piece = Buffer.from(bytes.subarray(from, to));
    from = to;
    parser.parse(piece, piece.byteLength);
    if (parser.headCame) heads++;
    body.push(Buffer.from(piece.subarray(parser.bodyStart, parser.bodyEnd)));
    piece.fill('x');
  }
  if (ended) parser.end();
  if (heads > 1) throw new Error('two heads were delivered');
  const { state, status, fields, reusable } = parser;
  return { state, status: heads === 0 ? 0 : status, fields, reusable, body: Buffer.concat(body).toString('latin1') };
}

const STATUS_LINES = [
  '200 OK',
  '200',
  '200 ',
  '404 Not Found',
  '503 caf\xe9',
  '204 No Content',
  '304 Not Modified',
  '429 a b\tc',
];
const ODD_STATUS_LINES = [
  '20 OK',
  '2000 OK',
  ' 200 OK',
  '2x0 OK',
  '099 OK',
  '600 OK',
  '000',
  '',
  '200OK',
  '200 O\x01K',
  '200\tOK',
  '101 x',
];
const ODD_VERSIONS = [
  'HTTP/1.2',
  'HTTP/2.0',
  'HTTP/0.9',
  'http/1.1',
  'HTTP/11',
  'HTTP/1.10',
  'ICY',
  '',
  ' HTTP/1.1',
  'HTTP/1.1 ',
].concat(['\r\nHTTP/1.1', 'RTSP/1.0', 'HTTPS/1.1', '\nHTTP/1.1', 'HTTP/1,1']);
const INTERIM = ['HTTP/1.1 100 Continue\r\n\r\n', 'HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n'];
const FIELDS = [
  'Date: Mon, 02 Nov 2026 10:00:00 GMT',
  'server:uvicorn',
  'Content-Type: text/event-stream',
  'X-Empty:',
  'x-blank: \t ',
].concat([
  'Connection: keep-alive',
  'connection: close',
  'Keep-Alive: timeout=5',
  'set-cookie: a=b',
  'set-cookie: c=d',
  'x-latin: caf\xe9',
]);
const ODD_FIELDS = [
  'a : b',
  ' a: b',
  ': b',
  'a',
  'a: b\0c',
  'a: b\rc',
  'a: b\nc',
  'a: b\r\n c',
  '\r',
  '\n',
  'a b: c',
  'a\xe9: b',
];
const ODD_LENGTHS = [
  '',
  '+5',
  '-5',
  '0x5',
  '5 5',
  '5, 5',
  '5,6',
  '5,',
  '05',
  '5.0',
  '9007199254740993',
  '18446744073709551616',
  '5\t',
];
const ODD_CODINGS = [
  'gzip, chunked',
  'chunked, gzip',
  'identity',
  '',
  'chunked, chunked',
  'gzip',
  'chunked;q=1',
  'xchunked',
  'chunked\x0b',
];
const BODIES = [
  '',
  'x',
  '{"choices":[]}',
  '\r\n\r\n',
  '0\r\n\r\n',
  'data: {}\n\n',
  'HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n',
];

/** The bytes of one response. `odd` is the share of parts that are unusual or invalid; with 0 the response is well-formed. */
function responseBytes(random: Random, odd: number): Buffer {
  const either = (usual: readonly string[], unusual: readonly string[]): string =>
    random.pick(odd > 0 && random.chance(odd) ? unusual : usual);
  const version = either(['HTTP/1.1', 'HTTP/1.1', 'HTTP/1.1', 'HTTP/1.0'], ODD_VERSIONS);
  const interim = random.chance(0.2) ? random.pick(INTERIM) : '';
  const lines = Array.from({ length: random.below(6) }, () => either(FIELDS, ODD_FIELDS));
  const framing =
    version === 'HTTP/1.0' ? random.pick(['close', 'length']) : random.pick(['close', 'length', 'chunked']);
  let body = random.pick(BODIES);
  if (framing === 'length' || random.chance(odd)) {
    lines.push(`Content-Length: ${either([String(body.length)], ODD_LENGTHS)}`);
    if (random.chance(odd)) lines.push(`content-length: ${random.pick([String(body.length), '7', '0'])}`);
  }
  if (framing === 'chunked' || random.chance(odd)) {
    lines.push(`Transfer-Encoding: ${either(['chunked', 'Chunked'], ODD_CODINGS)}`);
    if (random.chance(odd)) lines.push('transfer-encoding: chunked');
    body = chunkedText(random, odd);
  }
  const end = either(['\r\n'], ['\n', '\r', '\n\r', '\r\n\r\n']);
  const status = either(STATUS_LINES, ODD_STATUS_LINES);
  const text = `${interim}${version} ${status}${end}${lines.map((line) => `${line}\r\n`).join('')}\r\n${body}`;
  const bytes = Buffer.from(text, 'latin1');
  return odd > 0 && random.chance(0.5) ? mutated(bytes, random) : bytes;
}

/** Shares of unusual parts, by turns. */
const ODD = [0, 0.02, 0.1, 0.3];

/** Reads all cases one after another, as a kept connection does. */
const KEPT = new ResponseParser();

/**
 * Parses one random input, whole and cut, with new parsers and one that is used again, and with llhttp. Returns what is wrong, with
 * the input; null when nothing is. What ResponseParser takes as a complete response, llhttp must take as the same one, but for the
 * known differences below; it may refuse what llhttp accepts. Neither may refuse a well-formed response.
 */
export function checkResponse(seed: number): string | null {
  const random = new Random(seed);
  const odd = ODD[seed % ODD.length] as number;
  const bytes = responseBytes(random, odd);
  const options = { ended: odd === 0 || random.chance(0.5), toHead: random.chance(0.1) };
  const cuts = Array.from({ length: random.below(8) }, () => random.below(bytes.byteLength + 1));
  const whole = JSON.stringify(readResponse(bytes, [], options));
  const input = `seed ${seed}: ${JSON.stringify(bytes.toString('latin1'))} ${JSON.stringify(options)}`;
  for (const [places, parser] of [[cuts], [cuts, KEPT], [[], KEPT]] as const) {
    const other = JSON.stringify(readResponse(bytes, places, options, parser));
    if (other !== whole) return `${input}\ncut at ${places.join(', ')}: ${other}\nwhole: ${whole}`;
  }
  const near = Buffer.from(withExtraLine(bytes.toString('latin1'), random), 'latin1');
  const kept = JSON.stringify(readResponse(near, [], options, KEPT));
  const fresh = JSON.stringify(readResponse(near, [], options));
  if (kept !== fresh) return `${input}\nthen ${JSON.stringify(near.toString('latin1'))}: ${kept}\nby itself: ${fresh}`;
  const difference = differenceOf(bytes, options, odd === 0);
  if (difference === null || (odd > 0 && differenceOf(withoutExtensions(bytes), options, false) === null)) return null;
  return `${input}\n${difference}\nread: ${whole}`;
}

function differenceOf(bytes: Buffer, options: ResponseOptions, bothAccept: boolean): string | null {
  const ours = readResponse(bytes, [], options);
  const theirs = llhttpRead('response', bytes, options);
  const final = theirs.messages.find(({ status }) => status >= 200);
  if (bothAccept && (ours.state === 'malformed' || (theirs.error !== '' && final?.complete !== true))) {
    return `refused: ${ours.state} / ${theirs.error}`;
  }
  if (ours.state === 'malformed') return null;
  if (ours.state !== 'done') return theirs.error === '' && final?.complete === true ? 'complete for llhttp' : null;
  if (final === undefined || !final.complete) {
    return knownRefusal(ours, bytes, theirs.error) ? null : `llhttp refuses it: ${theirs.error}`;
  }
  if (ours.status !== final.status) return `status ${final.status}`;
  if (JSON.stringify(ours.fields) !== JSON.stringify(final.fields)) return `fields ${JSON.stringify(final.fields)}`;
  if (ours.body !== final.body) return `body ${JSON.stringify(final.body)}`;
  // llhttp takes every response without a length for one that ends with the connection, those to HEAD too.
  if (ours.reusable && !final.keepAlive && options.toHead !== true) return 'keepAlive false';
  return null;
}

/** Whether llhttp is known to refuse what ResponseParser accepts. */
function knownRefusal({ fields, reusable }: Response, bytes: Buffer, error: string): boolean {
  const lengths = bytes.toString('latin1').match(/^content-length:.*$/gim) ?? [];
  const chunked = fields.includes('transfer-encoding');
  switch (error) {
    case 'HPE_INVALID_CONTENT_LENGTH':
    case 'HPE_UNEXPECTED_CONTENT_LENGTH':
      // Equal lengths are one (RFC 9112 §6.3), and trailers are dropped.
      return chunked || lengths.length > 1 || lengths.some((line) => line.includes(','));
    case 'HPE_INVALID_TRANSFER_ENCODING':
      // Chunked wins over a length, and the connection is not used again (RFC 9112 §6.3). Trailers are dropped.
      return chunked && (!reusable || lengths.length === 0);
    case 'HPE_CLOSED_CONNECTION':
      // An informational response said that the connection ends; the final one still counts.
      return !reusable;
    default:
      return false;
  }
}
