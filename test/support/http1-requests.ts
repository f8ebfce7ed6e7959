// Random requests, well-formed and broken, and what RequestParser and llhttp read from them. A seed gives the same case each time.

import { RequestParser, type RequestLimits } from '../../src/net/http1-request-parser.ts';
import { LLHTTP_METHODS, llhttpRead, type LlhttpMessage, withoutExtensions } from './llhttp.ts';
import { mutated, Random, withExtraLine } from './random.ts';

export interface Request {
  readonly method: string;
  readonly path: string;
  readonly query: string;
  readonly headers: readonly string[];
  readonly minor: number;
  readonly keepAlive: boolean;
  readonly declaredBytes: number;
  readonly expectContinue: boolean;
  body: string;
  complete: boolean;
}

export interface Requests {
  readonly requests: readonly Request[];
  /** Of the failure; 0 without one. */
  readonly status: number;
  readonly reason: string;
}

/** Bytes around each piece: they look like the rest of a request, and must not be read. */
const BEFORE = Buffer.from('GET / HTTP/1.1\r\nhost: before\r\n\r\n');
const AFTER = Buffer.from('\r\n\r\n0\r\n\r\n');

/** All requests of one connection whose bytes arrive cut at `places`. A client that asks for it is cut off after its request. */
export function readRequests(bytes: Buffer, places: readonly number[], limits: RequestLimits): Requests {
  const parser = new RequestParser(limits);
  const cuts = [...new Set(places.map((place) => place % (bytes.byteLength + 1)))].sort((a, b) => a - b);
  const requests: Request[] = [];
  let from = 0;
  for (const to of [...cuts, bytes.byteLength]) {
    const piece = Buffer.concat([BEFORE, bytes.subarray(from, to), AFTER]);
    let at = BEFORE.byteLength;
    const end = at + to - from;
    from = to;
    while (at < end && parser.state !== 'failed') {
      if (parser.state === 'done') {
        if (!parser.keepAlive) break;
        parser.begin();
      }
      const before = parser.state;
      at = parser.parse(piece, at, end);
      if (before === 'head' && (parser.state === 'body' || parser.state === 'done')) {
        const { method, path, query, headers, minor, keepAlive, declaredBytes, expectContinue } = parser;
        const head = { method, path, query, headers, minor, keepAlive, declaredBytes, expectContinue };
        requests.push({ ...head, body: '', complete: false });
        parser.releaseHead();
      }
      const request = requests.at(-1);
      if (request === undefined) continue;
      if (before === 'body') request.body += piece.toString('latin1', parser.bodyStart, parser.bodyEnd);
      if (parser.state === 'done') request.complete = true;
    }
    piece.fill('x');
  }
  const { status = 0, reason = '' } = parser.failure ?? {};
  return { requests, status, reason };
}

const METHODS = ['GET', 'POST', 'POST', 'POST', 'HEAD', 'PUT', 'DELETE', 'OPTIONS', 'PATCH', 'TRACE', 'QUERY'];
const ODD_METHODS = ['get', 'G ET', '', 'CONNECT', 'FOO', 'PRI', 'M-SEARCH', 'SOURCE', 'GE\tT', 'P\xd6ST', '(GET)'];
const TARGETS = ['/', '/v1/chat/completions', '/a?b=c', '/a/b/?q=?&x=%20', '/a//b', '/%zz', '/a:b@c;d,e=$!'];
const ODD_TARGETS = [
  '*',
  'http://h/p?q',
  'HTTPS://h:80',
  'http://h?q',
  '//',
  '/caf\xe9',
  '/a b',
  '/a#b',
  'h:80',
  'http://',
].concat([
  'http://u@h/',
  '/\x7f',
  '/a"<>^`{|}\\',
  '',
  'ftp://h/',
  'http://[::1]:80/',
  'http://h#f',
  '/?a#',
  '?a',
  'a',
  '/a\0',
  '/\t',
]);
const ODD_VERSIONS = [
  'HTTP/1.2',
  'HTTP/2.0',
  'HTTP/0.9',
  'HTTP/1.10',
  'http/1.1',
  'HTTP/11',
  'HTTP/1.1 ',
  ' HTTP/1.1',
  'HTTP/1,1',
].concat(['HTTPS/1.1', 'HTTP/-1.1', '', 'HTTP/1.', 'HTTP/1.1\t', 'ICE/1.0', 'RTSP/1.0']);
const FIELDS = [
  'Accept: */*',
  'user-agent:x',
  'X-Empty:',
  'x-blank: \t ',
  'x-outer: \t a\tb \t',
  'X-Latin: caf\xe9',
].concat(
  [
    'Cookie: a=b; c="d,e"',
    'Authorization: Bearer sk-0123456789',
    'Connection: keep-alive',
    'connection: close',
    'TE: trailers',
  ],
  [
    'Connection: x, Keep-Alive',
    'connection: X ,close',
    'Expect: 100-continue',
    'x-quoted: "a\\"b"',
    `X-Long: ${'y'.repeat(80)}`,
  ],
  ["!#$%&'*+-.^_`|~09AZaz: token", 'keep-alive: timeout=5', 'Upgrade: h2c', 'x:::'],
);
const ODD_FIELDS = [
  'a : b',
  ' a: b',
  '\ta: b',
  ': b',
  'a',
  'a b: c',
  'a\0: b',
  'a: b\0c',
  'a: b\rc',
  'a: b\nc',
  'a: b\x7f',
  'a\xe9: b',
].concat([
  'a: b\r\n c',
  'a: b\r\n\tc',
  'a\t: b',
  '(a): b',
  'a: \x01',
  'a: b\r',
  '\r',
  '\n',
  'a: b\n',
  'a: b\r\r',
  '"a": b',
  'a;b: c',
  'a/b: c',
]);
const HOSTS = ['Host: example.com', 'host:x', 'HOST: [::1]:8080', 'Host: 127.0.0.1:80', 'Host:'];
const ODD_HOSTS = [
  'Host: a b',
  'Host: a/b',
  'Host: a@b',
  'Host: a,b',
  'Host: [::1',
  'Host: a:b',
  'Host: \xe9',
  'Host: a:80:80',
];
const ODD_LENGTHS = [
  '',
  '+5',
  '-5',
  '0x5',
  '5 5',
  '5, 5',
  '5,',
  ',5',
  '5;',
  '05',
  '5.0',
  '1e1',
  '9007199254740993',
  '5\t',
  '\x0b5',
].concat(['18446744073709551616', '184467440737095516165', '\xb2']);
const ODD_CODINGS = [
  'gzip, chunked',
  'chunked, gzip',
  'identity',
  '',
  'chunked, chunked',
  'chunked;q=1',
  'x',
  '"chunked"',
  'chunked,',
].concat([',chunked', 'chun ked', 'xchunked', 'chunked\x0b', ' chunked', 'gzip']);
const ODD_SIZES = [
  '0x1',
  '-1',
  '+1',
  '1g',
  ' 1',
  '',
  'FFFFFFFFFFFFFFFF',
  '1 ',
  '1\t',
  '1 ;a',
  '1;\n',
  '1;a\nb',
  '1;a\rb',
  '1;a="\r\n"',
].concat(['10000000000000001', '0000000000000001', '1 x', '1\0', '1,', '1=', '1;\0', '100000000000000000']);
const EXTENSIONS = ['', '', '', ';a', ';a=b', ';a="b c"', ';a;b;c=d'];
const TRAILERS = ['', '', '', 'x-sum: 1\r\n', 'a:b\r\nc: d\r\n', 'GET: /\r\n'];
const ODD_TRAILERS = [
  'a b: c\r\n',
  ' a: b\r\n',
  'a\r\n',
  ': b\r\n',
  'a: \0\r\n',
  'a: b\n',
  'a: b\r\n c\r\n',
  'xxGET / HTTP/1.1\r\n',
  'a: b\rc\r\n',
];
const BODIES = ['', 'x', '{"model":"m"}', '\r\n', '\r\n\r\n', '0\r\n\r\n', 'GET /smuggled HTTP/1.1\r\nhost: x\r\n\r\n'];

/**
 * The bytes of one connection: one request or several. `odd` is the share of parts that are unusual or invalid; with 0 all
 * requests are well-formed.
 */
function requestBytes(random: Random, odd: number): Buffer {
  let text = '';
  const count = 1 + random.below(3);
  for (let i = 0; i < count; i++) {
    const request = requestText(random, odd);
    text += request;
    // A client often sends the same head again, or nearly the same.
    if (random.chance(0.3)) {
      for (let more = 1 + random.below(3); more > 0; more--) {
        text += random.chance(0.5) ? request : withExtraLine(request, random);
      }
    }
  }
  const bytes = Buffer.from(text, 'latin1');
  return odd > 0 && random.chance(0.5) ? mutated(bytes, random) : bytes;
}

function requestText(random: Random, odd: number): string {
  const either = (usual: readonly string[], unusual: readonly string[]): string =>
    random.pick(odd > 0 && random.chance(odd) ? unusual : usual);
  const method = either(METHODS, ODD_METHODS);
  const target = method === 'OPTIONS' && random.chance(0.3) ? '*' : either(TARGETS, ODD_TARGETS);
  const version = either(['HTTP/1.1', 'HTTP/1.1', 'HTTP/1.1', 'HTTP/1.0'], ODD_VERSIONS);
  const lines = Array.from({ length: random.below(6) }, () => either(FIELDS, ODD_FIELDS));
  if (odd === 0 || !random.chance(odd)) lines.push(either(HOSTS, ODD_HOSTS));
  if (random.chance(odd)) lines.push(random.pick(HOSTS));
  let body = '';
  const framing = version === 'HTTP/1.0' ? random.pick(['none', 'length']) : random.pick(['none', 'length', 'chunked']);
  if (framing === 'length' || random.chance(odd)) {
    body = random.pick(BODIES);
    lines.push(`Content-Length: ${either([String(body.length)], ODD_LENGTHS)}`);
    if (random.chance(odd)) lines.push(`content-length: ${random.pick([String(body.length), '7', '0'])}`);
  }
  if (framing === 'chunked' || random.chance(odd)) {
    lines.push(`Transfer-Encoding: ${either(['chunked', 'Chunked'], ODD_CODINGS)}`);
    if (random.chance(odd)) lines.push('transfer-encoding: chunked');
    body = chunkedText(random, odd);
  }
  for (let i = lines.length - 1; i > 0; i--) {
    const other = random.below(i + 1);
    [lines[i], lines[other]] = [lines[other] as string, lines[i] as string];
  }
  const end = either(['\r\n'], ['\n', '\r', '\n\r', '\r\n\r\n', ' \r\n', '\r\r\n']);
  const before = random.chance(odd) ? random.pick(['\r\n', '\r\n\r\n', '\n', '\r', ' ', '\0', '\r\n'.repeat(6)]) : '';
  return `${before}${method} ${target} ${version}${end}${lines.map((line) => `${line}\r\n`).join('')}\r\n${body}`;
}

/** A body in chunks. */
export function chunkedText(random: Random, odd: number): string {
  let text = '';
  for (let count = random.below(4); count > 0; count--) {
    const data = random.pick(BODIES.slice(1));
    const digits = data.length.toString(16);
    const size = random.pick([digits, digits.toUpperCase(), `0${digits}`]);
    const line = random.chance(odd) ? random.pick(ODD_SIZES) : `${size}${random.pick(EXTENSIONS)}`;
    text += `${line}\r\n${data}${random.chance(odd) ? random.pick(['', '\n', '\r', 'x', 'x\n', ' \r\n', '\r\r\n']) : '\r\n'}`;
  }
  const trailers = random.pick(random.chance(odd) ? ODD_TRAILERS : TRAILERS);
  return `${text}${random.pick(['0', '0', '000'])}${random.pick(EXTENSIONS)}\r\n${trailers}\r\n`;
}

/** Small limits, so that inputs reach them. */
const LIMITS: RequestLimits = { headerBytes: 500, maxFields: 10 };
/** Shares of unusual parts, by turns. */
const ODD = [0, 0.02, 0.1, 0.3];

/**
 * Parses one random input, whole and cut, and with llhttp. Returns what is wrong, with the input; null when nothing is. What
 * RequestParser takes as complete requests, llhttp must take as the same ones, but for the known differences below; it may refuse
 * what llhttp accepts. Neither may refuse a well-formed request.
 */
export function checkRequests(seed: number): string | null {
  const random = new Random(seed);
  const odd = ODD[seed % ODD.length] as number;
  const bytes = requestBytes(random, odd);
  const cuts = Array.from({ length: random.below(8) }, () => random.below(bytes.byteLength + 1));
  const limits = odd === 0 ? { headerBytes: 16_384, maxFields: 100 } : LIMITS;
  const whole = JSON.stringify(readRequests(bytes, [], limits));
  const cut = JSON.stringify(readRequests(bytes, cuts, limits));
  const input = JSON.stringify(bytes.toString('latin1'));
  if (whole !== cut) return `seed ${seed}: ${input}\ncut at ${cuts.join(', ')}: ${cut}\nwhole: ${whole}`;
  const plain = withoutExtensions(bytes);
  const difference = differenceOf(bytes, limits, odd === 0);
  if (difference === null || (odd > 0 && differenceOf(plain, limits, false) === null)) return null;
  return `seed ${seed}: ${input}\n${difference}\nread: ${whole}`;
}

function differenceOf(bytes: Buffer, limits: RequestLimits, bothAccept: boolean): string | null {
  const ours = readRequests(bytes, [], limits);
  const theirs = llhttpRead('request', bytes);
  const refused = theirs.error !== '' && theirs.error !== 'HPE_CLOSED_CONNECTION';
  if (bothAccept && (ours.status !== 0 || refused)) return `refused: ${ours.reason} / ${theirs.error}`;
  for (const [at, request] of ours.requests.entries()) {
    const message = theirs.messages[at];
    if (message === undefined) {
      if (!request.complete || knownRefusal(request, ours.requests[at - 1], bytes, theirs.error)) return null;
      return `llhttp refuses request ${at + 1}: ${theirs.error}`;
    }
    const difference = messageDifference(request, message, theirs.error, ours.status !== 0);
    if (difference !== null) return `request ${at + 1}: ${difference}`;
    if (message.upgrade || !message.complete || !request.complete || !request.keepAlive) return null;
  }
  const more = theirs.messages.length > ours.requests.length;
  return more && ours.status === 0 ? `llhttp reads ${theirs.messages.length} requests` : null;
}

/** Whether llhttp is known to refuse a request that RequestParser accepts; `before`: the one before it. */
function knownRefusal(request: Request, before: Request | undefined, bytes: Buffer, error: string): boolean {
  const { method, path, query, headers } = request;
  // Methods are tokens (RFC 9110 §9.1). llhttp has a list, and takes PRI for the preface of HTTP/2.
  if (!LLHTTP_METHODS.has(method) || method === 'PRI') return true;
  switch (error) {
    case 'HPE_INVALID_VERSION':
      // A later minor version is served as HTTP/1.1 (RFC 9110 §2.5).
      return /HTTP\/1\.[2-9]\r\n/.test(bytes.toString('latin1'));
    case 'HPE_INVALID_URL':
      // Bytes above ASCII pass as they are.
      return /[\x80-\xff]/.test(`${path}?${query}${headers[headers.indexOf('host') + 1]}`);
    case 'HPE_CLOSED_CONNECTION':
      // RequestParser drops all trailers; llhttp obeys a Connection line in them.
      return before?.declaredBytes === -1;
    default:
      return false;
  }
}

const FRAMING_TRAILER: ReadonlySet<string> = new Set([
  'HPE_INVALID_CONTENT_LENGTH',
  'HPE_UNEXPECTED_CONTENT_LENGTH',
  'HPE_INVALID_TRANSFER_ENCODING',
]);

function messageDifference(request: Request, message: LlhttpMessage, error: string, failed: boolean): string | null {
  const { method, path, query, minor, keepAlive, complete, body } = request;
  if (method !== message.method) return `method ${message.method}`;
  const [, authority = '', rest = ''] = /^https?:\/\/([^/?]+)(.*)$/i.exec(message.target) ?? ['', '', message.target];
  const target = rest.startsWith('/') || rest === '*' ? rest : rest === '' && method === 'OPTIONS' ? '*' : `/${rest}`;
  if (`${path}?${query}` !== (target.includes('?') ? target : `${target}?`)) return `target ${message.target}`;
  if (minor !== message.minor) return `minor version ${message.minor}`;
  // llhttp lets `keep-alive` win over `close` in HTTP/1.0.
  if (keepAlive !== message.keepAlive && (keepAlive || minor === 1)) return `keepAlive ${message.keepAlive}`;
  if (!sameFields(request.headers, authority === '' ? message.fields : withHost(message.fields, authority)))
    return `fields ${JSON.stringify(message.fields)}`;
  if (!complete) return !failed && error === '' && message.complete ? 'complete for llhttp' : null;
  // RequestParser drops all trailers; llhttp refuses those that would frame the message.
  if (!message.complete) return request.declaredBytes === -1 && FRAMING_TRAILER.has(error) ? null : error;
  if (body !== message.body) return `body ${JSON.stringify(message.body)}`;
  return null;
}

/** The fields with the authority of the target as Host (RFC 9112 §3.2.2). */
function withHost(fields: readonly string[], authority: string): string[] {
  const at = fields.findIndex((word, i) => i % 2 === 0 && word === 'host');
  return at < 0 ? [...fields, 'host', authority] : fields.with(at + 1, authority);
}

function sameFields(a: readonly string[], b: readonly string[]): boolean {
  return a.length === b.length && a.every((word, at) => word === b[at]);
}
