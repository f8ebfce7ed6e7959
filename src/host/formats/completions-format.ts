// POST /v1/completions. An array of texts, or of arrays of tokens, is several prompts; choices are ordered by prompt. With
// `suffix` the text is generated between prompt and suffix.
import { invalidOption } from '../completion-options.ts';
import type { Prompt, TokenLogProbs } from '../model-engine.ts';
import type { Choice } from './choice.ts';
import { type PromptSpec, plainPrompt, schemaOf } from './conversation.ts';
import {
  type ApiFormat,
  type Frames,
  type Json,
  type RequestFields,
  choicesOf,
  closingFrames,
  completionUsage,
  dataFrame,
  limitOf,
  listedOf,
  openaiProblem,
  stopsOf,
  TEXT_ONLY,
  textOf,
  wantsUsage,
} from './format.ts';
/** The completions dialect of the OpenAI API. */
export const completionsFormat: ApiFormat = { read, readPrompts, answer, frames, problem: openaiProblem };

function read(body: Json): RequestFields {
  const { best_of: best, echo, logprobs } = body;
  const choices = choicesOf(body);
  if ((best ?? choices) !== choices) throw invalidOption('best_of', 'this host does not choose among answers');
  if ((echo ?? false) !== false) throw invalidOption('echo', 'this host does not repeat the prompt');
  return {
    prompt: textOf(body['prompt']),
    maxTokens: limitOf(body, 'max_tokens'),
    stops: stopsOf(body, 'stop'),
    stream: body['stream'] === true,
    includeUsage: wantsUsage(body),
    choices,
    logProbs: logprobs === undefined || logprobs === null ? null : listedOf('logprobs', logprobs),
  };
}

function readPrompts(body: Json): PromptSpec {
  const { prompt, response_format: format, suffix } = body;
  const prompts = promptsOf(prompt).map((each) =>
    typeof suffix === 'string' ? between(each, suffix) : plainPrompt(each),
  );
  return { prompts, offered: [], tools: [], schema: schemaOf(format) };
}

/** Texts and tokens that are mixed are one prompt, as on the llama-style paths. */
function promptsOf(prompt: unknown): readonly unknown[] {
  if (!Array.isArray(prompt) || prompt.length === 0) return [prompt];
  const isMany = prompt.every((part) => typeof part === 'string') || prompt.every((part) => Array.isArray(part));
  return isMany ? prompt : [prompt];
}

function between(prefix: unknown, suffix: string): Prompt {
  if (typeof prefix !== 'string') throw invalidOption('suffix', 'the prompt must be a text');
  return { kind: 'infill', prefix, suffix };
}

function headOf(choice: Choice): Json {
  const { id, created, model } = choice.parts;
  return { id: `cmpl-${id}`, object: 'text_completion', created, model };
}

/** The shape of log probabilities in this dialect; `from` is the place of the first token, in characters. */
function logprobsOf(listed: readonly TokenLogProbs[], from: number): Json {
  let offset = from;
  return {
    tokens: listed.map(({ token }) => token),
    token_logprobs: listed.map(({ logprob }) => logprob),
    top_logprobs: listed.map((one) =>
      Object.fromEntries([...one.top_logprobs, one].map(({ token, logprob }) => [token, logprob])),
    ),
    text_offset: listed.map((one) => {
      const at = offset;
      offset += charactersOf(one);
      return at;
    }),
  };
}

/** Characters that begin within a token. */
function charactersOf({ bytes }: TokenLogProbs): number {
  return bytes.filter((byte) => (byte & 0xc0) !== 0x80).length;
}

function answer(choice: Choice): Json {
  const choices = choice.siblings.map(({ finish, index, logProbs, pieces }) => ({
    index,
    text: pieces.join(''),
    logprobs: logProbs === null ? null : logprobsOf(logProbs, 0),
    finish_reason: finish,
  }));
  return { ...headOf(choice), choices, usage: completionUsage(choice) };
}

function frames(choice: Choice): Frames {
  const head = headOf(choice);
  const { index } = choice;
  let offset = 0;
  const before = `data: ${JSON.stringify(head).slice(0, -1)},"choices":[{"index":${index},"text":`;
  const end = `,"finish_reason":null}]${choice.parts.fields.includeUsage ? ',"usage":null' : ''}}\n\n`;
  const after = `,"logprobs":null${end}`;
  return {
    opening: () => [],
    token(piece, _, listed) {
      if (listed === undefined) return `${before}${JSON.stringify(piece)}${after}`;
      const logprobs = JSON.stringify(logprobsOf(listed, offset));
      for (const one of listed) offset += charactersOf(one);
      return `${before}${JSON.stringify(piece)},"logprobs":${logprobs}${end}`;
    },
    ...TEXT_ONLY,
    closing: () => closingFrames(choice, head, { index, text: '', logprobs: null, finish_reason: choice.finish }),
    failure: (message) => dataFrame(openaiProblem(500, message, 'server_error')),
  };
}
