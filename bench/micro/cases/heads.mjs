// Cases of parsing HTTP/1.1: heads of requests and responses as SDKs and model servers send them (the same again, or with some lines
// that differ each time), and a chunked stream.

const COUNT = 64;

const requests = (vary) =>
  Array.from({ length: COUNT }, (_, at) => {
    const length = vary ? 900 + at : 931;
    const id = vary ? at.toString(16).padStart(12, '0') : '0'.repeat(12);
    const body = Buffer.alloc(length, 'x');
    const head = [
      'POST /v1/chat/completions HTTP/1.1',
      'Host: gateway.example.com:8080',
      'Accept-Encoding: gzip, deflate, br',
      'Connection: keep-alive',
      'Accept: application/json',
      'Content-Type: application/json',
      'User-Agent: OpenAI/Python 2.8.1',
      'X-Stainless-Lang: python',
      'X-Stainless-Package-Version: 2.8.1',
      `X-Request-Id: req-0123456789abcdef-${id}`,
      'Authorization: Bearer sk-bench-0123456789abcdef0123456789abcdef',
      'Cookie: headrace_crn=c3BhcmstMDE; theme=dark',
      `Content-Length: ${length}`,
      '',
      '',
    ].join('\r\n');
    return { head: Buffer.byteLength(head), bytes: Buffer.concat([Buffer.from(head), body]) };
  });

const responses = (vary) =>
  Array.from({ length: COUNT }, (_, at) => {
    const length = vary ? 560 + at : 603;
    return Buffer.from(
      [
        'HTTP/1.1 200 OK',
        `date: Mon, 02 Nov 2026 10:00:${vary ? at % 60 : 10} GMT`,
        'server: uvicorn',
        `content-length: ${length}`,
        'content-type: application/json',
        '',
        'x'.repeat(length),
      ].join('\r\n'),
    );
  });

const events = Array.from({ length: COUNT }, () => {
  const data = `data: {"choices":[{"index":0,"delta":{"content":" word"}}],"model":"atlas-27b"}\n\n`;
  return Buffer.from(`${data.length.toString(16)}\r\n${data}\r\n`);
});

/** The cases of this file: see `../measure.mjs`. */
export async function cases(load) {
  const { ResponseParser } = await load('src/net/http1-response-parser.js', 'src/net/http1-parser.js');
  const response = (all) => {
    const parser = new ResponseParser();
    let next = 0;
    return () => {
      const bytes = all[(next = (next + 1) % COUNT)];
      parser.begin(false);
      parser.parse(bytes, bytes.byteLength);
      if (parser.state !== 'done') throw new Error('not parsed');
    };
  };
  const stream = new ResponseParser();
  const head = Buffer.from('HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n');
  stream.begin(false);
  stream.parse(head, head.byteLength);
  let next = 0;
  return {
    ...(await requestCases(load)),
    'response, the same head': response(responses(false)),
    'response, date and length differ': response(responses(true)),
    'response, a chunk with an event': () => {
      const bytes = events[(next = (next + 1) % COUNT)];
      stream.parse(bytes, bytes.byteLength);
    },
  };
}

async function requestCases(load) {
  const { RequestParser } = await load('src/net/http1-request-parser.js').catch(() => ({ RequestParser: null }));
  if (RequestParser === null) return {};
  const request = (all) => {
    const parser = new RequestParser({ headerBytes: 16_384, maxFields: 100 });
    let next = 0;
    return () => {
      const { bytes } = all[(next = (next + 1) % COUNT)];
      const at = parser.parse(bytes, 0, bytes.byteLength);
      parser.parse(bytes, at, bytes.byteLength);
      if (parser.state !== 'done') throw new Error('not parsed');
      parser.begin();
    };
  };
  const [same, varied] = [requests(false), requests(true)];
  return {
    [`request, the same ${same[0].head} B head`]: request(same),
    'request, id and length differ': request(varied),
  };
}
