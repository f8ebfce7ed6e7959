// Paths of model servers without a dialect that pass through the gateway: the table of docs/other-paths.md, each row of which is sent
// through a gateway by a test.

/** One row. */
export interface OtherPath {
  readonly paths: readonly string[];
  readonly body: 'JSON' | 'form';
  /** What the request does, and what of it the gateway reads. */
  readonly note: string;
}

export const OTHER_PATHS: readonly OtherPath[] = [
  { paths: ['/v1/embeddings', '/api/embed', '/api/embeddings', '/embed'], body: 'JSON', note: 'embeddings' },
  {
    paths: ['/v1/rerank', '/rerank', '/v2/rerank', '/v1/score', '/score'],
    body: 'JSON',
    note: 'rankings; `documents`, `texts` and `text_2` count once more for each document in the bound of the prompt',
  },
  {
    paths: ['/v1/classify', '/classify', '/v1/pooling', '/pooling', '/v1/moderations'],
    body: 'JSON',
    note: 'classes and vectors',
  },
  {
    paths: ['/tokenize', '/detokenize', '/apply-template'],
    body: 'JSON',
    note: 'tokens, without generation',
  },
  {
    paths: ['/infill'],
    body: 'JSON',
    note: 'fill-in-the-middle, with the dialect llama; `suffix` of `/v1/completions` passes too',
  },
  {
    paths: ['/api/generate', '/api/chat', '/generate', '/generate_stream'],
    body: 'JSON',
    note: 'own APIs of Ollama, TGI and SGLang; see accounts',
  },
  { paths: ['/v1/audio/speech'], body: 'JSON', note: 'speech; the answer is sound, whole or in pieces' },
  { paths: ['/v1/images/generations'], body: 'JSON', note: 'images' },
  {
    paths: ['/v1/audio/transcriptions', '/v1/audio/translations'],
    body: 'form',
    note: 'text of speech, whole or as a stream',
  },
  { paths: ['/v1/images/edits', '/v1/images/variations'], body: 'form', note: 'images made from images' },
];
