// Builds the model lists that the gateway publishes: discovery map, OpenAI list, Anthropic list and aggregator list
// (docs/interface.md, section 8). Models keep the given order, and unknown fields are left out, never null or zero. The field
// names of these formats appear in no other file of the catalog.
import type { CatalogModel, CatalogPricing } from './models.ts';
import { isChat, perToken } from './models.ts';

/** Values for models that do not set their own. */
export interface ListingDefaults {
  /** Unix time in seconds of models without their own; one value per process, so that lists stay equal. */
  readonly created: number;
}

export interface OpenAiListing extends ListingDefaults {
  /** The `owned_by` of every entry. */
  readonly ownedBy: string;
}

/** Model id to its servers, the answer of the discovery endpoint. */
export type DiscoveryMap = Record<string, { servers: string[] }>;

/** One entry of `GET /v1/models`. Prices are USD per token. */
export interface OpenAiModel {
  id: string;
  object: 'model';
  created: number;
  owned_by: string;
  context_length?: number;
  hugging_face_id?: string;
  tee?: true;
  pricing?: { prompt: string; completion: string };
}

export interface OpenAiModelList {
  object: 'list';
  data: OpenAiModel[];
}

/** One entry of the model list in the messages dialect. `created_at` is RFC 3339. */
export interface AnthropicModel {
  type: 'model';
  id: string;
  display_name: string;
  created_at: string;
  lifecycle: 'active';
  deprecated_at: null;
  retires_at: null;
  /** Only models of the vendor of the API have one. */
  line: null;
  /** What a server can do is not known. */
  capabilities: null;
  /** Null where it is not known. */
  max_input_tokens: number | null;
  max_tokens: number | null;
}

export interface AnthropicModelList {
  data: AnthropicModel[];
  has_more: false;
  first_id: string | null;
  last_id: string | null;
}

/** One price of an aggregator document: USD for one `unit`. */
export interface AggregatorPrice {
  type: 'prompt' | 'cached_prompt' | 'completion';
  unit: 'token';
  cost_usd: string;
}

/** Type and range of a request parameter, in the aggregator's schema. */
export type AggregatorParameter =
  | { type: 'range'; min: number; max: number }
  | { type: 'integer'; min: number; max: number; unit?: 'token' }
  | { type: 'boolean' | 'object' | 'unknown' }
  | { type: 'array'; max_items: number };

interface TokenLimit {
  value: number;
  unit: 'token';
}

/** One model in schema 2.4 of the aggregator. */
export interface AggregatorModel {
  schema_version: '2.4';
  id: string;
  name: string;
  created: number;
  hugging_face_id?: string;
  quantization?: string;
  input_modalities: {
    type: 'text' | 'image';
    supported_inputs?: { max_context_length: TokenLimit };
    pricing?: AggregatorPrice[];
  }[];
  output_modalities: {
    type: 'text';
    streaming: true;
    max_length?: TokenLimit;
    supported_parameters: Record<string, AggregatorParameter>;
    pricing?: AggregatorPrice[];
  }[];
  /** True when both prices are zero; the aggregator then reads no price. */
  is_free?: true;
}

export interface AggregatorModelList {
  data: AggregatorModel[];
}

/** Every model that has servers, with their base URLs, without trailing slash and without duplicates. */
export function discoveryMap(models: readonly CatalogModel[]): DiscoveryMap {
  // fromEntries defines own properties, so an id such as `__proto__` stays a plain key.
  return Object.fromEntries(
    models
      .filter(({ servers }) => servers.length > 0)
      .map(({ id, servers }) => [id, { servers: [...new Set(servers.map((url) => url.replace(/\/+$/, '')))] }]),
  );
}

/** The entry of one model; also the answer of `GET /v1/models/{id}`. Throws a `RangeError` on a malformed price. */
export function openAiEntry(model: CatalogModel, { created, ownedBy }: OpenAiListing): OpenAiModel {
  const { contextLength, huggingFaceId, pricing } = model;
  return {
    id: model.id,
    object: 'model',
    created: model.created ?? created,
    owned_by: ownedBy,
    ...(contextLength === undefined ? {} : { context_length: contextLength }),
    ...(huggingFaceId === undefined ? {} : { hugging_face_id: huggingFaceId }),
    ...(model.tee === true ? { tee: true } : {}),
    ...(pricing === undefined
      ? {}
      : { pricing: { prompt: perToken(pricing.prompt), completion: perToken(pricing.completion) } }),
  };
}

/** Every model in the OpenAI list format, priced or not. */
export function openAiList(models: readonly CatalogModel[], listing: OpenAiListing): OpenAiModelList {
  return { object: 'list', data: models.map((model) => openAiEntry(model, listing)) };
}

/** The entry of one model in the messages dialect, for requests that carry `anthropic-version`. */
export function anthropicEntry(model: CatalogModel, { created }: ListingDefaults): AnthropicModel {
  const seconds = model.created ?? created;
  return {
    type: 'model',
    id: model.id,
    display_name: model.name ?? model.id,
    created_at: new Date(seconds * 1000).toISOString().replace('.000Z', 'Z'),
    lifecycle: 'active',
    deprecated_at: null,
    retires_at: null,
    line: null,
    capabilities: null,
    max_input_tokens: model.contextLength ?? null,
    max_tokens: model.maxOutputLength ?? null,
  };
}

/** Every model in the messages dialect, as one page. */
export function anthropicList(models: readonly CatalogModel[], defaults: ListingDefaults): AnthropicModelList {
  const data = models.map((model) => anthropicEntry(model, defaults));
  return { data, has_more: false, first_id: data[0]?.id ?? null, last_id: data.at(-1)?.id ?? null };
}

/** The chat models that have prices, in the aggregator's schema 2.4. Throws a `RangeError` on a malformed price. */
export function aggregatorList(models: readonly CatalogModel[], defaults: ListingDefaults): AggregatorModelList {
  return {
    data: models.flatMap((model) =>
      model.pricing !== undefined && isChat(model) ? [aggregatorEntry(model, model.pricing, defaults)] : [],
    ),
  };
}

/** Quantization formats of the aggregator's schema; it rejects a document with any other. */
const QUANTIZATIONS: ReadonlySet<string> = new Set('int4 int8 fp4 mxfp4 nvfp4 fp6 fp8 mxfp8 fp16 bf16 fp32'.split(' '));

function aggregatorEntry(model: CatalogModel, pricing: CatalogPricing, defaults: ListingDefaults): AggregatorModel {
  const prompt = price('prompt', pricing.prompt);
  const completion = price('completion', pricing.completion);
  const cached = pricing.cachedPrompt === undefined ? [] : price('cached_prompt', pricing.cachedPrompt);
  const quantization = model.quantization?.toLowerCase();
  const { contextLength } = model;
  const maxLength = model.maxOutputLength ?? contextLength;
  return {
    schema_version: '2.4',
    id: model.id,
    name: model.name ?? model.id,
    created: model.created ?? defaults.created,
    ...(model.huggingFaceId === undefined ? {} : { hugging_face_id: model.huggingFaceId }),
    ...(quantization !== undefined && QUANTIZATIONS.has(quantization) ? { quantization } : {}),
    input_modalities: [
      {
        type: 'text',
        ...(contextLength === undefined ? {} : { supported_inputs: { max_context_length: tokens(contextLength) } }),
        ...priced([...prompt, ...cached]),
      },
      ...(has(model, 'vision') ? [{ type: 'image' as const, ...priced(prompt) }] : []),
    ],
    output_modalities: [
      {
        type: 'text',
        streaming: true,
        ...(maxLength === undefined ? {} : { max_length: tokens(maxLength) }),
        supported_parameters: supportedParameters(model, maxLength),
        ...priced(completion),
      },
    ],
    ...(prompt.length + completion.length === 0 ? { is_free: true } : {}),
  };
}

function supportedParameters(model: CatalogModel, maxLength: number | undefined): Record<string, AggregatorParameter> {
  return {
    temperature: { type: 'range', min: 0, max: 2 },
    top_p: { type: 'range', min: 0, max: 1 },
    top_k: { type: 'integer', min: 0, max: 500 },
    min_p: { type: 'range', min: 0, max: 1 },
    frequency_penalty: { type: 'range', min: -2, max: 2 },
    presence_penalty: { type: 'range', min: -2, max: 2 },
    repetition_penalty: { type: 'range', min: 0.01, max: 2 },
    stop: { type: 'array', max_items: 4 },
    seed: { type: 'integer', min: 0, max: 2_147_483_647 },
    logit_bias: { type: 'object' },
    max_tokens:
      maxLength === undefined ? { type: 'unknown' } : { type: 'integer', min: 1, max: maxLength, unit: 'token' },
    ...(has(model, 'tools') ? { tools: { type: 'boolean' } } : {}),
    ...(has(model, 'reasoning') ? { reasoning: { type: 'boolean' } } : {}),
  };
}

function has(model: CatalogModel, capability: string): boolean {
  return model.capabilities?.includes(capability) ?? false;
}

function tokens(value: number): TokenLimit {
  return { value, unit: 'token' };
}

/** A price as a list of one, or an empty list for zero: the schema has no price for what is not billed. */
function price(type: AggregatorPrice['type'], perMillion: string): AggregatorPrice[] {
  const cost = perToken(perMillion);
  return cost === '0' ? [] : [{ type, unit: 'token', cost_usd: cost }];
}

function priced(pricing: AggregatorPrice[]): { pricing?: AggregatorPrice[] } {
  return pricing.length === 0 ? {} : { pricing };
}
