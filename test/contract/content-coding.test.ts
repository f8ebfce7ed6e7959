// Encoded request bodies through every server: decoded for checks, prices and CRNs, or refused before they are read.

import { createHash } from 'node:crypto';
import { brotliCompressSync, constants, deflateSync, gzipSync, zstdCompressSync } from 'node:zlib';
import t from 'tap';
import { CHAT, GOOD, MODEL, open, SERVER_ADAPTERS } from '../support/server-adapter.ts';

const ENCODERS: Readonly<Record<string, (bytes: Buffer) => Buffer>> = {
  gzip: (bytes) => gzipSync(bytes),
  deflate: (bytes) => deflateSync(bytes),
  br: (bytes) => brotliCompressSync(bytes, { params: { [constants.BROTLI_PARAM_QUALITY]: 4 } }),
  zstd: (bytes) => zstdCompressSync(bytes),
  identity: (bytes) => bytes,
  'gzip, zstd': (bytes) => zstdCompressSync(gzipSync(bytes)),
};

/** More than a body may have. */
const BOMBS: Readonly<Record<string, Buffer>> = Object.fromEntries(
  Object.entries(ENCODERS).map(([coding, encode]) => [coding, encode(Buffer.alloc(8 * 1024 * 1024, ' '))]),
);

const PATH = '/v1/chat/completions';
const TYPED = { ...GOOD, 'content-type': 'application/json' };

for (const adapter of SERVER_ADAPTERS) {
  t.test(`${adapter}: CRNs get the body decoded, with its length and without the coding`, async (t) => {
    const { ask, host } = await open(t, adapter);
    const body = Buffer.from(JSON.stringify({ ...CHAT, user: 'Where does the water go? '.repeat(2000) }));
    const digest = createHash('sha256').update(body).digest('hex');
    for (const [coding, encode] of Object.entries(ENCODERS)) {
      const headers = { ...TYPED, 'content-encoding': coding, 'content-digest': 'sha-256=:AA==:' };
      t.equal((await ask({ path: PATH, headers, body: encode(body) })).status, 200, coding);
      const request = await host.nextRequest();
      t.match(request, { bodySha256: digest, headers: { 'content-length': String(body.byteLength) } }, coding);
      t.notOk('content-encoding' in request.headers || 'content-digest' in request.headers, coding);
    }
    const search = gzipSync('{"query":"","engines":["engine_z"]}');
    t.equal(
      (await ask({ path: '/search', headers: { ...TYPED, 'content-encoding': 'gzip' }, body: search })).status,
      422,
    );
  });

  t.test(
    `${adapter}: a coding that is not supported is 415 with those that are, a broken body 400, a bomb 413`,
    async (t) => {
      const { ask, host } = await open(t, adapter, { limits: { bodyBytes: '2MiB' } });
      const answer = (coding: string, body: Buffer): ReturnType<typeof ask> =>
        ask({ path: PATH, headers: { ...TYPED, 'content-encoding': coding }, body });
      const refused = await answer('compress', Buffer.from('x'));
      t.match(refused, {
        status: 415,
        headers: {
          'accept-encoding': 'gzip, deflate, br, zstd',
          'x-headrace-error': 'HR_REQUEST_ENCODING',
          'x-should-retry': 'false',
        },
      });
      t.same(Object.keys(refused.json<object>()), ['detail']);
      const plain = Buffer.from(JSON.stringify(CHAT));
      for (const coding of ['gzip', 'deflate', 'br', 'zstd']) {
        t.equal((await answer(coding, plain)).status, 400, `${coding}: it is not encoded`);
        t.equal((await answer(coding, BOMBS[coding] as Buffer)).status, 413, `${coding}: a bomb`);
      }
      t.same((await answer('gzip', Buffer.alloc(0))).json(), {
        detail: [{ loc: ['body'], msg: 'Field required', type: 'missing' }],
      });
      t.equal((await answer('gzip', gzipSync(`{"model":"${MODEL}"`))).status, 422, 'decoded, it is no JSON');
      t.equal(host.requests.filter(({ method }) => method === 'POST').length, 0);
    },
  );
}
