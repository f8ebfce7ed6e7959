// Cases of making the headers of a request for a CRN: for a client that sends 14 headers, and the same behind a trusted proxy.

const HEADERS = [
  ...['host', 'gate.example:8080', 'user-agent', 'OpenAI/Python 1.54.3', 'accept', 'application/json'],
  ...['accept-encoding', 'gzip, deflate, br', 'connection', 'keep-alive', 'content-type', 'application/json'],
  ...['authorization', `Bearer hr_${'0'.repeat(32)}`, 'x-stainless-lang', 'python', 'x-stainless-os', 'Linux'],
  ...['x-stainless-package-version', '1.54.3', 'x-stainless-arch', 'x64', 'x-stainless-runtime', 'CPython'],
  ...['x-stainless-retry-count', '0', 'content-length', '862'],
];
const FROM_PROXY = [...HEADERS, 'x-forwarded-for', '203.0.113.9', 'x-forwarded-proto', 'https', 'via', '1.1 cdn'];

/** The cases of this file: see `../measure.mjs`. */
export async function cases(load) {
  const { credentialLines, Peers, requestLines, viaName } = await load('src/upstream/index.js');
  const { linesFor } = await load('src/upstream/headers.js');
  const rules = { peers: new Peers(['10.0.0.0/8']), scheme: 'http', via: viaName() };
  const presented = { authorization: HEADERS[13], apiKey: undefined, bearer: undefined };
  const buffer = Buffer.allocUnsafe(4096);
  // Written out, since the text is joined only then.
  const write = (headers, remoteAddress) => () => {
    const credential = credentialLines(presented);
    const input = {
      headers,
      remoteAddress,
      requestId: 'a8f5f167-0000-4000-8000-1d3ad7b9a2c1',
      credential,
      readable: true,
    };
    buffer.latin1Write(linesFor(requestLines(rules, input), undefined), 0);
  };
  return {
    'headers for a CRN, 14 of the client': write(HEADERS, '192.0.2.1'),
    'headers for a CRN, 17 of a trusted proxy': write(FROM_PROXY, '10.0.0.1'),
  };
}
