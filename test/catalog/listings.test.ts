// The published model lists, compared entry by entry.
import t from 'tap';
import {
  aggregatorList,
  anthropicEntry,
  anthropicList,
  discoveryMap,
  openAiEntry,
  openAiList,
} from '../../src/catalog/listings.ts';
import type { CatalogModel } from '../../src/catalog/models.ts';

const atlas: CatalogModel = {
  id: 'Atlas-27b',
  servers: ['http://one/', 'http://two'],
  contextLength: 131_072,
  huggingFaceId: 'acme/Atlas-27B',
  tee: true,
  name: 'Atlas 27B',
  capabilities: ['chat', 'vision', 'tools'],
  pricing: { prompt: '0.25', completion: '1.50', cachedPrompt: '0.05' },
  quantization: 'FP8',
};
const bare: CatalogModel = { id: 'bare', servers: ['http://three'], tee: false };
const created = 1_760_000_000;

t.test('the discovery map shows every server without trailing slash and only once', (t) => {
  const models = [
    atlas,
    { ...bare, servers: ['http://three//', 'http://three'] },
    { ...bare, id: '__proto__', servers: ['http://four'] },
    { ...bare, id: 'gone', servers: [] },
  ];
  t.equal(
    JSON.stringify(discoveryMap(models)),
    '{"Atlas-27b":{"servers":["http://one","http://two"]},"bare":{"servers":["http://three"]},"__proto__":{"servers":["http://four"]}}',
  );
  t.end();
});

t.test('the OpenAI list adds known fields and leaves unknown ones out', (t) => {
  const listing = { created, ownedBy: 'headrace' };
  t.strictSame(openAiList([atlas, bare], listing), {
    object: 'list',
    data: [
      {
        id: 'Atlas-27b',
        object: 'model',
        created,
        owned_by: 'headrace',
        context_length: 131_072,
        hugging_face_id: 'acme/Atlas-27B',
        tee: true,
        pricing: { prompt: '0.00000025', completion: '0.0000015' },
      },
      { id: 'bare', object: 'model', created, owned_by: 'headrace' },
    ],
  });
  t.equal(openAiEntry({ ...bare, created: 5 }, listing).created, 5);
  t.end();
});

t.test('the messages dialect has one page of models with all members that its SDKs require', (t) => {
  const usual = { lifecycle: 'active', deprecated_at: null, retires_at: null, line: null, capabilities: null };
  t.strictSame(anthropicList([atlas, bare], { created }), {
    data: [
      {
        ...{ type: 'model', id: 'Atlas-27b', display_name: 'Atlas 27B', created_at: '2025-10-09T08:53:20Z' },
        ...{ ...usual, max_input_tokens: atlas.contextLength, max_tokens: atlas.maxOutputLength ?? null },
      },
      {
        ...{ type: 'model', id: 'bare', display_name: 'bare', created_at: '2025-10-09T08:53:20Z' },
        ...{ ...usual, max_input_tokens: null, max_tokens: null },
      },
    ],
    has_more: false,
    first_id: 'Atlas-27b',
    last_id: 'bare',
  });
  t.match(anthropicList([], { created }), { data: [], first_id: null, last_id: null });
  t.equal(anthropicEntry({ ...bare, created: 0 }, { created }).created_at, '1970-01-01T00:00:00Z');
  t.end();
});

t.test('the aggregator list describes a chat model in schema 2.4', (t) => {
  const [entry] = aggregatorList([atlas], { created }).data;
  const { supported_parameters: parameters, ...output } = entry?.output_modalities[0] ?? { supported_parameters: {} };
  const prompt = { type: 'prompt', unit: 'token', cost_usd: '0.00000025' };
  t.strictSame(
    { ...entry, output_modalities: [output] },
    {
      schema_version: '2.4',
      id: 'Atlas-27b',
      name: 'Atlas 27B',
      created,
      hugging_face_id: 'acme/Atlas-27B',
      quantization: 'fp8',
      input_modalities: [
        {
          type: 'text',
          supported_inputs: { max_context_length: { value: 131_072, unit: 'token' } },
          pricing: [prompt, { type: 'cached_prompt', unit: 'token', cost_usd: '0.00000005' }],
        },
        { type: 'image', pricing: [prompt] },
      ],
      output_modalities: [
        {
          type: 'text',
          streaming: true,
          max_length: { value: 131_072, unit: 'token' },
          pricing: [{ type: 'completion', unit: 'token', cost_usd: '0.0000015' }],
        },
      ],
    },
  );
  t.match(parameters, {
    temperature: { type: 'range', min: 0, max: 2 },
    max_tokens: { type: 'integer', min: 1, max: 131_072, unit: 'token' },
    tools: { type: 'boolean' },
  });
  t.notOk('reasoning' in parameters);
  t.end();
});

t.test('the aggregator list holds priced chat models only', (t) => {
  const pricing = { prompt: '1', completion: '2' };
  const list = aggregatorList(
    [
      bare,
      { ...bare, capabilities: ['chat'] },
      { ...bare, id: 'vectors', capabilities: ['embedding'], pricing },
      { ...bare, id: 'plain', pricing, quantization: 'q4_k_m' },
    ],
    { created },
  );
  t.strictSame(
    list.data.map(({ id }) => id),
    ['plain'],
  );
  t.notOk('quantization' in (list.data[0] ?? {}), 'a format the aggregator does not know is left out');
  t.match(list.data[0]?.output_modalities[0]?.supported_parameters['max_tokens'], { type: 'unknown' });
  t.strictSame(aggregatorList([], { created }), { data: [] });
  t.end();
});

t.test('a model without cost is marked free instead of carrying zero prices', (t) => {
  const [entry] = aggregatorList([{ ...bare, pricing: { prompt: '0.00', completion: '0' } }], { created }).data;
  t.equal(entry?.is_free, true);
  t.notMatch(JSON.stringify(entry), /cost_usd/);
  t.end();
});

t.test('the longest answer may differ from the context length', (t) => {
  const [entry] = aggregatorList([{ ...atlas, maxOutputLength: 8192 }], { created }).data;
  t.strictSame(entry?.output_modalities[0]?.max_length, { value: 8192, unit: 'token' });
  t.end();
});
