// Refusals of the public endpoints: the members that an error body has beside `detail`, and for which clients (setting `errorBodies`).
// `detail` itself and the headers are those of `ingress/respond.ts`. Below the paths of other products the whole body is
// in their shape. Nothing here runs for a request that succeeds.

import { errorAnswer, productOf } from '../compat/index.ts';
import type { Settings } from '../config/settings.ts';
import { type Dialect, dialectOf, DIALECTS, usualPath } from '../dialect/index.ts';
import { type ErrorCode, ERRORS, HeadraceError, validationText } from '../errors.ts';
import type { Exchange } from '../ingress/exchange.ts';
import { type ErrorDecorator, type ErrorShape, respondError } from '../ingress/respond.ts';
import { parseJson } from '../config/json-text.ts';

/** A header that only SDKs send, by name or by the beginning of its name. */
const SDK_HEADERS: readonly RegExp[] = [
  // Every SDK that Stainless generates: openai, anthropic and others, in all languages; AzureOpenAI; also in browsers, which keep their own user agent.
  /^x-stainless-/,
  // Required by the Messages API (platform.claude.com, "Versions"): Anthropic's SDKs, @ai-sdk/anthropic, Claude Code, LiteLLM.
  /^anthropic-version$/,
  // Codex: `codex_cli_rs`, `codex_exec`, `codex_vscode` (its documentation of model providers).
  /^originator$/,
];

/** Products in `User-Agent` (RFC 9110 §10.1.5) of clients that read an error object, and know nothing of `detail` or show all of the body. */
const SDK_AGENTS: readonly RegExp[] = [
  // `OpenAI/JS 6.49.0`, `AsyncOpenAI/Python 3.54.0`, `AzureOpenAI/JS`, `OpenAI/2.1.0 (.NET 9)`: seen of openai (npm, PyPI); NuGet by its source.
  /(?:Async)?(?:Azure)?OpenAI\//,
  // `Anthropic/JS 1.11.0`, `AsyncAnthropic/Python 2.12.0`: seen of @anthropic-ai/sdk (npm) and anthropic (PyPI).
  /(?:Async)?Anthropic\//,
  // `Agents/Python 0.24.0`, `Agents/JavaScript 0.20.0`: seen of openai-agents (PyPI) and @openai/agents (npm).
  /Agents\/(?:Python|JavaScript)/,
  // `ai/7.0.173 ai-sdk-provider-utils/5.0.81`, `ai-sdk-openai/4.0.118`, `ai-sdk/openai/3.0.1`: seen of the Vercel AI SDK, versions 5 to 7.
  /ai(?:-sdk[-/][a-z-]+)?\//,
  // `langchainjs-openai/1.0.0`, `langchain-anthropic/1.7.7`: seen of LangChain; `langchain4j-openai` of LangChain4j.
  /langchain[a-z0-9]*-[a-z]+(?:\/|$)/,
  // `litellm/1.81.10`: seen of LiteLLM where it calls without an SDK.
  /litellm\//,
  // `llama-index…`, `llama_index…`: by their source; LlamaIndex calls through the SDK of OpenAI otherwise.
  /llama[-_]index[a-z-]*\//,
  // `pydantic-ai/1.9.0`, `instructor/1.13.0`: by their source; both call through SDKs.
  /pydantic-ai\/|instructor\//,
  // `claude-cli/2.1.197 (external, cli)`: seen of Claude Code. `codex_exec/0.169.0`, `codex_cli_rs/…`: seen of Codex.
  /claude-(?:cli|code)\/|codex[_a-z]*\//,
  // `opencode/1.18.33`: seen. `aider/…`, `Cline/…`, `RooCode/…`, `Kilo-Code/…`, `QwenCode/…`, `Zed/…`, `continue/…`, `crush/…`, `goose/…`: by their source.
  /opencode\/|aider\/|Cline\/|RooCode\/|Kilo-Code\/|QwenCode\/|Zed\/|Continue\/|crush\/|goose\//,
  // Azure's SDKs: `azsdk-net-AI.OpenAI/2.1.0`, `azsdk-python-ai-inference/…` (azure.github.io/azure-sdk, "Telemetry policy").
  /azsdk-[a-z]+-/,
  // `Semantic-Kernel/…`, `HttpOpenAI/…`: by the source of Semantic Kernel.
  /Semantic-Kernel\/|semantic-kernel-/,
  // `ollama-js/0.6.4 (x64 linux …)`, `ollama-python/0.6.3 (x86_64 linux) …`: seen; `ollama/0.17.4 (…) Go/…` by its source.
  /ollama(?:-js|-python)?\//,
];

const SDK_AGENT = new RegExp(`(?:^|\\s)(?:${SDK_AGENTS.map(({ source }) => source).join('|')})`, 'i');

/** Whether a request has the marks of an SDK that reads an error object. */
export function hasSdkMark({ headers }: Pick<Exchange, 'headers'>): boolean {
  for (let i = 0; i < headers.length; i += 2) {
    const name = headers[i] as string;
    if (SDK_HEADERS.some((mark) => mark.test(name))) return true;
    if (name === 'user-agent' && SDK_AGENT.test(headers[i + 1] as string)) return true;
  }
  return false;
}

/** The dialect in which clients of a path read errors; undefined where they read `detail` alone. */
function errorDialect(exchange: Exchange): Dialect | undefined {
  const own = dialectOf(exchange.path);
  if (own !== undefined) return own;
  const path = usualPath(exchange.path);
  if (path !== '/v1' && !path.startsWith('/v1/')) return undefined;
  const isMessages = path.startsWith('/v1/messages/') || exchange.header('anthropic-version') !== undefined;
  return isMessages ? DIALECTS.messages : DIALECTS.responses;
}

/** The API of Ollama, whose clients read the sentence from the member `error`. */
const OLLAMA_PATH = /^\/api\/[a-z]+$/;

const decorate: ErrorDecorator = (exchange, { code, message, status, validation }) => {
  const text = validation === undefined ? message : validationText(validation);
  if (OLLAMA_PATH.test(exchange.path)) return { error: text };
  const member = validation?.[0]?.loc[1];
  const failure = { code, message: text, status, ...(typeof member === 'string' && { member }) };
  return errorDialect(exchange)?.errorMember(failure);
};

/** Clients of other products read their own errors, whatever `errorBodies` says; `tool` is theirs also at the root. */
const shapeOf: ErrorShape = (exchange, error) => {
  const product = productOf(exchange.path) ?? (exchange.tool === 'firecrawl' ? 'firecrawl' : undefined);
  return product === undefined ? undefined : errorAnswer(product, error);
};

/** Of the settings, what error bodies need. */
export type ErrorSettings = Pick<Settings, 'errorBodies'>;

/** The members that the setting puts beside `detail` for the sender of this request. */
export function decoratorFor(exchange: Exchange, { errorBodies }: ErrorSettings): ErrorDecorator | undefined {
  if (errorBodies === 'contract' || (errorBodies === 'auto' && !hasSdkMark(exchange))) return undefined;
  return decorate;
}

/** Answers with an error, in the form that the setting `errorBodies` asks for. */
export function refuse(exchange: Exchange, { settings }: { readonly settings: ErrorSettings }, thrown: unknown): void {
  // What another dialect cannot say is an answer to a client of this one.
  const isOfDialect = thrown instanceof HeadraceError && thrown.code === 'HR_REQUEST_UNTRANSLATABLE';
  respondError(exchange, thrown, isOfDialect ? decorate : decoratorFor(exchange, settings), shapeOf);
}

/** The body of an error of the gateway that a request behind this one was answered with, as the sender of this one reads it. */
export function refusedBody(
  exchange: Exchange,
  { settings }: { readonly settings: ErrorSettings },
  code: ErrorCode,
  body: Buffer,
): Buffer {
  const { detail } = parseJson(body.toString()) as Pick<HeadraceError, 'detail'>;
  const said = typeof detail === 'string' ? { message: detail } : { message: '', validation: detail };
  const error = { code, status: ERRORS[code].status, validation: undefined, ...said };
  const members = decoratorFor(exchange, settings)?.(exchange, error);
  return Buffer.from(JSON.stringify({ detail, ...members }));
}
