// Other spellings of the interface's paths, and that no path of the contract is one.

import t from 'tap';
import { aliasedPath, PATH_ALIASES } from '../../src/api/path-aliases.ts';
import { ROUTES } from '../../src/api/routes.ts';

const of = (path: string, isSdk = false): string | undefined => aliasedPath(path, () => isSdk)?.path;

t.test('paths without a version, with two, and those of Azure', async (t) => {
  for (const path of ['chat/completions', 'messages', 'messages/count_tokens', 'responses', 'responses/r1/cancel']) {
    t.equal(of(`/${path}`), `/v1/${path}`);
    t.equal(of(`/v1/v1/${path}`), `/v1/${path}`);
    t.equal(of(`/openai/v1/${path}`), `/v1/${path}`);
  }
  const counted = ['messages/count_tokens', 'responses/input_tokens', 'chat/completions/input_tokens'];
  for (const path of ['chat/completions', 'messages', ...counted, 'responses', 'models']) {
    t.equal(of(`/v1/${path}/`), `/v1/${path}`);
    t.equal(of(`/v1/${path}//`), undefined);
  }
  t.equal(of('/v1/rerank/'), undefined);
  t.equal(of('/mcp/'), '/mcp');
  t.equal(of('/models'), '/v1/models');
  t.equal(of('/models/org/name'), '/v1/models/org/name');
  t.equal(of('/openai/models'), '/v1/models');
  t.equal(of('/openai/responses'), '/v1/responses');
  t.same(
    aliasedPath('/openai/deployments/atlas%2F27b/chat/completions', () => false),
    { path: '/v1/chat/completions', model: 'atlas/27b' },
  );
  t.same(
    aliasedPath('/openai/deployments/%zz/embeddings', () => false),
    { path: '/v1/embeddings', model: '%zz' },
  );
});

t.test('where servers have APIs of their own, only SDKs mean the other one', async (t) => {
  for (const path of ['/embeddings', '/moderations', '/audio/speech', '/images/generations']) {
    t.equal(of(path), undefined);
    t.equal(of(path, true), `/v1${path}`);
  }
});

t.test('no endpoint and no path of model servers is another spelling', async (t) => {
  for (const { path } of ROUTES) t.equal(of(path, true), undefined, path);
  for (const path of [
    '/completion',
    '/tokenize',
    '/infill',
    '/embed',
    '/rerank',
    '/api/chat',
    '/modelsx',
    '/openai/x',
  ]) {
    t.equal(of(path, true), undefined, path);
  }
  for (const { from } of PATH_ALIASES) t.equal(from.source[0], '^');
});
