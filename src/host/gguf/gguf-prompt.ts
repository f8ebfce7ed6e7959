// Builds the prompt tokens of a request for a model in this process, with its chat template and infill tokens.
import { type PromptPart, invalidOption, refuseUnknownTokens } from '../completion-options.ts';
import type { Prompt, Turn } from '../model-engine.ts';
import type { LlamaModel, LlamaModule, TemplateText, Token } from './binding.ts';
export interface GgufPromptDeps {
  readonly module: LlamaModule;
  readonly model: LlamaModel;
  readonly vocabularySize: number;
  /** The system prompt set for all slots; empty for none. */
  readonly system: string;
}

/** A prompt ready to be evaluated. */
export interface PromptTokens {
  /** At least one. */
  readonly tokens: Token[];
  /** Leading tokens that belong to the system prompt. */
  readonly systemTokens: number;
  /** Texts with which the model ends its turn, for those that have no token for it. */
  readonly turnEnds: readonly string[];
}

/** Throws InvalidOptions for numbers that are no tokens and infills by models that cannot. */
export function promptOf(prompt: Prompt, deps: GgufPromptDeps): PromptTokens {
  const { model, system } = deps;
  const begin = model.tokens.shouldPrependBosToken && model.tokens.bos !== null ? [model.tokens.bos] : [];
  const systemTokens = system === '' ? [] : [...begin, ...model.tokenize(system, true)];
  const first = systemTokens.length === 0 ? begin : [];
  let turnEnds: readonly string[] = [];
  let tokens: Token[];
  if (prompt.kind === 'infill') tokens = [...first, ...infillTokens(prompt, model)];
  else if (prompt.kind === 'chat') ({ tokens, turnEnds } = chatTokens(prompt.turns, deps));
  else tokens = [...(typeof prompt.parts[0] === 'number' ? [] : first), ...partTokens(prompt.parts, deps)];
  const all = [...systemTokens, ...tokens];
  if (all.length === 0) throw invalidOption('prompt', 'the model behind this host needs a token to begin with');
  return { tokens: all, systemTokens: systemTokens.length, turnEnds };
}

function partTokens(parts: readonly PromptPart[], { model, vocabularySize }: GgufPromptDeps): Token[] {
  refuseUnknownTokens('prompt', parts, vocabularySize);
  const tokens: Token[] = [];
  for (const [at, part] of parts.entries()) {
    if (typeof part === 'number') tokens.push(part);
    // Only the first text stands where the tokenizer expects a text to begin.
    else for (const token of model.tokenize(part, true, at === 0 ? undefined : 'trimLeadingSpace')) tokens.push(token);
  }
  return tokens;
}

function infillTokens(prompt: Extract<Prompt, { kind: 'infill' }>, model: LlamaModel): Token[] {
  const { extra = [], middle: begun = '' } = prompt;
  const { prefix, suffix, middle } = model.tokens.infill;
  if (prefix === null || suffix === null || middle === null) {
    throw invalidOption('input_prefix', 'the model behind this host cannot fill in');
  }
  const tokens = (text: string): Token[] => model.tokenize(text, false, 'trimLeadingSpace');
  return [
    ...extra.flatMap(({ filename, text }) => tokens(`${filename ?? 'filename'}\n${text}\n`)),
    prefix,
    ...tokens(prompt.prefix),
    suffix,
    ...tokens(prompt.suffix.replace(/^ /, '')),
    middle,
    ...tokens(begun),
  ];
}

/** A conversation by the template of the model. */
function chatTokens(
  turns: readonly Turn[],
  { module, model }: GgufPromptDeps,
): { tokens: Token[]; turnEnds: string[] } {
  const chatHistory = turns.map(({ role, text }) =>
    role === 'assistant' ? { type: 'model', response: [text] } : { type: role === 'system' ? 'system' : 'user', text },
  );
  const state = module.resolveChatWrapper(model).generateContextState({
    chatHistory: [...chatHistory, { type: 'model', response: [] }],
  });
  return {
    tokens: state.contextText.tokenize(model.tokenizer),
    turnEnds: state.stopGenerationTriggers.map(plainText).filter((text) => text !== ''),
  };
}

/** Special tokens end a generation by themselves; what is left are triggers that are nothing but text. */
function plainText({ values }: TemplateText): string {
  return values.every((value) => typeof value === 'string') ? values.join('') : '';
}
