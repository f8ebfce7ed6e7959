// Schemas and examples of the dialects: each example fits its schema, and the schemas have what the translations carry.
import { Ajv2020 } from 'ajv/dist/2020.js';
import t from 'tap';
import { DIALECT_DOCS, exampleBody, type ExampleModel } from '../../src/api/dialect-docs.ts';
import { openapiDocument } from '../../src/api/openapi.ts';
import { ROUTES } from '../../src/api/routes.ts';
import type { Table } from '../../src/dialect/translation/field-table.ts';
import { MESSAGES_TABLES } from '../../src/dialect/translation/messages-request.ts';
import { RESPONSES_TABLES } from '../../src/dialect/translation/responses-request.ts';

const PREFIXES = { servicePrefix: 'svc', listingPrefix: 'aggregator' };
const MODELS: readonly ExampleModel[] = [
  { id: 'plain', capabilities: [] },
  { id: 'talker', capabilities: ['chat'] },
  { id: 'viewer', capabilities: ['chat', 'vision'] },
];

interface Media {
  readonly schema: { readonly $ref: string };
  readonly examples: Readonly<Record<string, { readonly summary: string; readonly value: { readonly model: string } }>>;
}

const document = JSON.parse(JSON.stringify(openapiDocument(ROUTES, PREFIXES, MODELS)));

function mediaOf(path: string): Media {
  return document.paths[path].post.requestBody.content['application/json'];
}

t.test('every example fits the schema of its dialect', (t) => {
  const ajv = new Ajv2020({ strict: false, allErrors: true });
  ajv.addSchema(document, 'openapi');
  for (const [path, { examples }] of Object.entries(DIALECT_DOCS)) {
    const media = mediaOf(path);
    t.same(Object.keys(media.examples), Object.keys(examples), path);
    const validate = ajv.compile({ $ref: `openapi${media.schema.$ref}` });
    for (const [name, { value }] of Object.entries(media.examples)) {
      t.ok(validate(value), `${path} ${name}: ${ajv.errorsText(validate.errors)}`);
      t.notOk(validate({ ...value, model: 7 }), `${path} ${name}: the model is a string`);
    }
  }
  t.end();
});

t.test('answers without a text or without usage fit the schemas', (t) => {
  const ajv = new Ajv2020({ strict: false });
  ajv.addSchema(document, 'openapi');
  const fits = (name: string, value: object): unknown =>
    ajv.validate({ $ref: `openapi#/components/schemas/${name}` }, value);
  const call = { id: 'call_1', type: 'function', function: { name: 'f', arguments: '{}' } };
  const message = { role: 'assistant', content: null, tool_calls: [call] };
  const choices = [{ index: 0, message, finish_reason: 'tool_calls' }];
  t.ok(fits('ChatCompletion', { id: '1', object: 'chat.completion', created: 1, model: 'm', choices }));
  t.ok(fits('ResponseObject', { id: '1', object: 'response', status: 'queued', output: [], usage: null }));
  t.end();
});

t.test('examples name a model that can serve them', (t) => {
  const { examples } = mediaOf('/v1/chat/completions');
  t.equal(examples['simple']?.value.model, 'talker');
  t.equal(examples['image']?.value.model, 'viewer');
  const needy = { summary: '', needs: 'audio', body: {} };
  t.same(exampleBody(needy, MODELS), { model: 'plain' }, 'the first one where none declares it');
  t.same(exampleBody(needy, []), { model: 'my-model' }, 'a placeholder where there is none');
  t.same(document.components.schemas.ModelId.examples, ['plain', 'talker', 'viewer']);
  t.end();
});

t.test('the schemas have every member that a translation carries or passes', (t) => {
  const names = (tables: readonly Table[]): string[] =>
    tables
      .filter(({ path, ofTypes }) => path === '' && !ofTypes)
      .flatMap(({ fields }) => fields.filter(({ action }) => ['carried', 'passed'].includes(action)))
      .map(({ name }) => name);
  for (const [component, tables] of [
    ['MessagesRequest', MESSAGES_TABLES],
    ['ResponseRequest', RESPONSES_TABLES],
  ] as const) {
    const carried = names(tables);
    t.ok(carried.length > 10, component);
    for (const name of carried) t.hasProp(document.components.schemas[component].properties, name, component);
  }
  t.end();
});

t.test('methods of SDKs are named for the dialects that have one', (t) => {
  t.same(document.paths['/v1/messages'].post['x-headrace-sdk'], { package: 'anthropic', method: 'messages.create' });
  t.equal(document.paths['/completions'].post['x-headrace-sdk'], undefined);
  t.end();
});

t.test('inference comes first', (t) => {
  t.same(
    document.tags.map(({ name }: { readonly name: string }) => name),
    ['Inference', 'Models', 'Search', 'Search as other products', 'Service', 'Account'],
  );
  t.end();
});
