import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type GgufHeader, readGgufHeader } from '../../../src/host/gguf/gguf-header.ts';
import { type GgufFile, ggufBytes, tinyModel } from '../../support/gguf.ts';

import t from 'tap';
import { temporaryFolder } from '../../support/temporary-folder.ts';

const folder = temporaryFolder(t);
let files = 0;

async function read(bytes: Buffer): Promise<GgufHeader> {
  const path = join(folder, `${++files}.gguf`);
  await writeFile(path, bytes);
  return readGgufHeader(path);
}

const tiny = tinyModel();

t.test('reads what a model says of itself', async (t) => {
  t.same(await read(ggufBytes(tiny)), {
    version: 3,
    architecture: 'llama',
    name: 'tiny',
    contextTokens: 256,
    tokenizer: 'llama',
    vocabularySize: (tiny.metadata['tokenizer.ggml.tokens']!.value as string[]).length,
    tensors: 12,
    hasChatTemplate: false,
    canInfill: true,
  });
});

t.test('takes what is missing for unknown', async (t) => {
  const metadata: GgufFile['metadata'] = {
    'general.architecture': { type: 'string', value: 'other' },
    'tokenizer.chat_template': { type: 'string', value: '{{ x }}' },
    'tokenizer.ggml.prefix_token_id': { type: 'uint32', value: 1 },
    'other.scale': { type: 'float32', value: 1.5 },
    'other.flags': { type: 'ints', value: [1, -2] },
  };
  const header = await read(ggufBytes({ version: 2, metadata, tensors: tiny.tensors!.slice(0, 1) }));
  t.same(header, {
    version: 2,
    architecture: 'other',
    name: null,
    contextTokens: null,
    tokenizer: null,
    vocabularySize: 0,
    tensors: 1,
    hasChatTemplate: true,
    canInfill: false,
  });
});

t.test('reads headers longer than its first bite', async (t) => {
  const tokens = Array.from({ length: 200_000 }, (_, at) => `token number ${at}`);
  const metadata: GgufFile['metadata'] = {
    ...tiny.metadata,
    'tokenizer.ggml.tokens': { type: 'strings', value: tokens },
  };
  const bytes = ggufBytes({ ...tiny, metadata });
  t.ok(bytes.length > 3 * 1024 * 1024);
  t.equal((await read(bytes)).vocabularySize, 200_000);
});

t.test('refuses a wrong file with a sentence that names it', async (t) => {
  const good = ggufBytes(tiny);
  const bigEndian = Buffer.from(good);
  bigEndian.writeUInt32BE(3, 4);
  const silly = Buffer.from(good);
  silly.writeBigUInt64LE(2n ** 60n, 24);
  const unknown = ggufBytes({ metadata: { a: { type: 'uint32', value: 1 } }, tensors: tiny.tensors! });
  unknown.writeUInt32LE(77, 24 + 8 + 1);
  const cases: readonly [string, Buffer, RegExp][] = [
    ['empty', Buffer.alloc(0), /it does not begin with GGUF$/],
    ['text', Buffer.from('{"model": "x"}'), /it does not begin with GGUF$/],
    ['another version', ggufBytes({ ...tiny, version: 1 }), /its GGUF version is 1$/],
    ['big endian', bigEndian, /it is big-endian, which is not supported$/],
    ['cut in the header', good.subarray(0, 500), /it ends within its header$/],
    ['cut in the data', good.subarray(0, good.length - 10_000), /it ends before its tensors do$/],
    ['a length that makes no sense', silly, /a number in its header is out of range$/],
    ['a value of no type', unknown, /unknown type 77$/],
    ['no architecture', ggufBytes({ metadata: {}, tensors: tiny.tensors! }), /it does not name its architecture$/],
    ['no tensors', ggufBytes({ metadata: tiny.metadata }), /it has no tensors$/],
  ];
  for (const [name, bytes, message] of cases) {
    await t.rejects(read(bytes), { message }, name);
    await t.rejects(read(bytes), { message: /^\/.*\.gguf cannot be loaded as a model: / }, name);
  }
  await t.rejects(readGgufHeader('/nowhere/x.gguf'), { message: 'there is no file /nowhere/x.gguf' });
  await t.rejects(readGgufHeader(folder), { message: /cannot be read|cannot be loaded as a model/ });
});
