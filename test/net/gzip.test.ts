// The members of gzip: heads wherever they are cut, and what stands behind the last member.
import { deflateRawSync, gzipSync } from 'node:zlib';
import t from 'tap';
import { gunzipMembers, gzipHeadBytes, MAX_GZIP_MEMBERS } from '../../src/net/gzip.ts';

const TEXT = 'Water runs downhill. '.repeat(50);
const packed = gzipSync(TEXT);
/** A head with all optional fields (RFC 1952 §2.3). */
const FULL = Buffer.from('\x1f\x8b\x08\x1e\0\0\0\0\0\x03\x03\0abcname\0comment\0\x12\x34', 'latin1');

t.test('reads the head of a member as soon as it is whole', (t) => {
  for (const head of [FULL, packed.subarray(0, 10)]) {
    for (let length = 0; length < head.length; length++) t.equal(gzipHeadBytes(head.subarray(0, length)), -1);
    t.equal(gzipHeadBytes(head), head.length);
    t.equal(gzipHeadBytes(Buffer.concat([head, packed])), head.length);
  }
  for (const other of ['\x1f\x8b\x07', '\x1f\x8b\x08\xff\0\0\0\0\0\0\0', '<html>'])
    t.equal(gzipHeadBytes(Buffer.from(other, 'latin1')), 0);
  t.end();
});

t.test('decodes all members, and ignores what follows them', (t) => {
  const named = Buffer.concat([FULL, deflateRawSync(TEXT), packed.subarray(-8)]);
  const two = Buffer.concat([packed, named]);
  for (const behind of ['', '\0\0\0', '<!-- 9 ms -->', '\x1f\x8b\xff\xff'])
    t.equal(gunzipMembers(Buffer.concat([two, Buffer.from(behind, 'latin1')]), 10_000).toString(), TEXT + TEXT);
  t.equal(gunzipMembers(gzipSync(''), 1).byteLength, 0);
  const most = Buffer.concat(Array<Buffer>(MAX_GZIP_MEMBERS).fill(gzipSync('a')));
  t.equal(gunzipMembers(Buffer.concat([most, Buffer.from('<!-- 9 ms -->')]), 10_000).byteLength, MAX_GZIP_MEMBERS);
  t.end();
});

t.test('refuses what is cut, changed or too long', (t) => {
  const changed = Buffer.concat([packed.subarray(0, -8), Buffer.alloc(8)]);
  for (const bytes of [packed.subarray(0, -9), packed.subarray(0, -1), changed, Buffer.from(TEXT), Buffer.alloc(0)])
    t.throws(() => gunzipMembers(bytes, 10_000), { code: /^Z_/ });
  t.throws(() => gunzipMembers(Buffer.concat([packed, packed.subarray(0, -9)]), 10_000));
  const many = Buffer.concat(Array<Buffer>(MAX_GZIP_MEMBERS + 1).fill(gzipSync('a')));
  t.throws(() => gunzipMembers(many, 10_000), { code: /^Z_/ }, 'more members than are read');
  t.throws(() => gunzipMembers(packed, TEXT.length - 1));
  t.equal(gunzipMembers(packed, TEXT.length).toString(), TEXT);
  t.throws(() => gunzipMembers(Buffer.concat([packed, packed]), TEXT.length), 'all members together');
  t.end();
});
