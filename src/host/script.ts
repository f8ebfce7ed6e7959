// Scripted answers of a simulated model: which step of a script answers a conversation, and the text that the engine generates
// for it. The conversation alone decides, so that a request that is sent again gets the same answer.
import { type ObjectSchema, type Schema, unknownMembers, validate } from '../api/schema.ts';
import type { PromptSpec } from './formats/conversation.ts';
import type { Turn } from './model-engine.ts';

/** When a step answers: all that is given must hold. */
export interface ScriptCondition {
  /** Turns of the assistant so far; consecutive ones count once. */
  readonly turns?: number;
  /** Tool results so far. */
  readonly results?: number;
  /** Regular expression that the text of the last user turn matches. */
  readonly user?: string;
  /** Regular expression that the last tool result matches. */
  readonly result?: string;
}

export interface ScriptCall {
  readonly name: string;
  /** Texts in it may hold values, as all texts of a step: `{{file}}`. */
  readonly arguments: unknown;
}

/** One answer: reasoning, then text, then tool calls. */
export interface ScriptStep {
  /** Default: as many turns of the assistant as there are steps before this one. */
  readonly when?: ScriptCondition;
  readonly reasoning?: string;
  readonly text?: string;
  readonly calls?: readonly ScriptCall[];
}

export interface Script {
  /** The first step that fits answers. */
  readonly steps: readonly ScriptStep[];
  /** Values by name: the first group of the last match of this regular expression in the conversation; '' without a match. */
  readonly values?: Readonly<Record<string, string>>;
  /** Answer to a request that no step fits, or that does not offer every tool of the script. Default `Done.`. */
  readonly otherwise?: string;
}

/** A part of a scripted answer. */
export type ScriptPart =
  | { readonly kind: 'reasoning' | 'text'; readonly text: string }
  | { readonly kind: 'call'; readonly name: string; readonly text: string };

const COUNT: Schema = { type: 'integer', minimum: 0 };
const TEXT: Schema = { type: 'string' };

const CONDITION: ObjectSchema<ScriptCondition> = {
  type: 'object',
  fields: { turns: COUNT, results: COUNT, user: TEXT, result: TEXT },
};

const CALL: ObjectSchema<ScriptCall> = {
  type: 'object',
  fields: { name: { type: 'string', minLength: 1, required: true }, arguments: { type: 'any', required: true } },
};

const STEP: ObjectSchema<ScriptStep> = {
  type: 'object',
  fields: { when: CONDITION, reasoning: TEXT, text: TEXT, calls: { type: 'array', items: CALL } },
};

const SCRIPT: ObjectSchema<Script> = {
  type: 'object',
  fields: {
    steps: { type: 'array', items: STEP, minItems: 1, required: true },
    values: { type: 'map', values: TEXT },
    otherwise: TEXT,
  },
};

/** Reads a script. Throws an Error that names every mistake by its path. */
export function parseScript(value: unknown): Script {
  const checked = validate(SCRIPT, value, []);
  const mistakes = unknownMembers(SCRIPT, value);
  if ('errors' in checked)
    mistakes.push(...checked.errors.map(({ loc, msg }) => `${loc.join('.') || 'script'}: ${msg}`));
  else mistakes.push(...wrongPatterns(checked.value));
  if ('errors' in checked || mistakes.length > 0) throw new Error(mistakes.join('; '));
  return checked.value;
}

function wrongPatterns({ steps, values = {} }: Script): string[] {
  const patterns = [
    ...Object.entries(values).map(([name, pattern]) => [`values.${name}`, pattern] as const),
    ...steps.flatMap(({ when }, at) => [
      [`steps.${at}.when.user`, when?.user] as const,
      [`steps.${at}.when.result`, when?.result] as const,
    ]),
  ];
  return patterns.flatMap(([path, pattern]) => {
    try {
      void new RegExp(pattern ?? '');
      return [];
    } catch (error) {
      return [`${path}: ${(error as Error).message}`];
    }
  });
}

/**
 * The answer of a script to a conversation. Undefined where the engine has to answer: prompts that are no conversation, and
 * answers with a schema that no step fits.
 */
export function scriptedParts(script: Script, spec: PromptSpec): readonly ScriptPart[] | undefined {
  const [prompt] = spec.prompts;
  if (prompt?.kind !== 'chat') return undefined;
  const partial = prompt.continues === true ? prompt.turns.at(-1)!.text : undefined;
  const turns = partial === undefined ? prompt.turns : prompt.turns.slice(0, -1);
  const step = stepOf(script, spec.offered, turns);
  if (step === undefined) return spec.schema === undefined ? textPart(script.otherwise ?? 'Done.') : undefined;
  const parts = partsOf(step, valuesOf(script, turns));
  return partial === undefined ? parts : restOf(parts, partial);
}

function stepOf({ steps }: Script, offered: readonly string[], turns: readonly Turn[]): ScriptStep | undefined {
  const called = steps.flatMap(({ calls = [] }) => calls.map(({ name }) => name));
  if (!called.every((name) => offered.includes(name))) return undefined;
  const assistantTurns = turns.filter(({ role }, at) => role === 'assistant' && turns[at - 1]?.role !== role).length;
  const results = turns.filter(({ role }) => role === 'tool').length;
  return steps.find((step, at) => {
    const when: ScriptCondition = step.when ?? { turns: at };
    return (
      (when.turns ?? assistantTurns) === assistantTurns &&
      (when.results ?? results) === results &&
      matches(when.user, lastOf(turns, 'user')) &&
      matches(when.result, lastOf(turns, 'tool'))
    );
  });
}

function lastOf(turns: readonly Turn[], role: Turn['role']): string | undefined {
  return turns.findLast((turn) => turn.role === role)?.text;
}

function matches(pattern: string | undefined, text: string | undefined): boolean {
  return pattern === undefined || (text !== undefined && new RegExp(pattern).test(text));
}

function valuesOf({ values = {} }: Script, turns: readonly Turn[]): ReadonlyMap<string, string> {
  const text = turns.map((turn) => turn.text).join('\n');
  return new Map(
    Object.entries(values).map(([name, pattern]) => [
      name,
      [...text.matchAll(new RegExp(pattern, 'g'))].at(-1)?.[1] ?? '',
    ]),
  );
}

function partsOf(
  { reasoning = '', text = '', calls = [] }: ScriptStep,
  values: ReadonlyMap<string, string>,
): ScriptPart[] {
  return [
    ...(reasoning === '' ? [] : [{ kind: 'reasoning', text: filled(reasoning, values) } as const]),
    ...textPart(filled(text, values)),
    ...calls.map(({ name, arguments: given }) => {
      const text = JSON.stringify(given, (_, value: unknown) =>
        typeof value === 'string' ? filled(value, values) : value,
      );
      return { kind: 'call', name, text } as const;
    }),
  ];
}

function textPart(text: string): ScriptPart[] {
  return text === '' ? [] : [{ kind: 'text', text }];
}

/** The text with values in place of their names; names without a value stay. */
function filled(text: string, values: ReadonlyMap<string, string>): string {
  return text.replaceAll(/\{\{(\w+)\}\}/g, (mark, name: string) => values.get(name) ?? mark);
}

/** What follows the beginning of the text that the conversation has already. */
function restOf(parts: readonly ScriptPart[], partial: string): readonly ScriptPart[] {
  const at = parts.findIndex(({ kind, text }) => kind === 'text' && text.startsWith(partial));
  return at === -1 ? parts : [...textPart(parts[at]!.text.slice(partial.length)), ...parts.slice(at + 1)];
}

/** What an engine generates for an answer: its parts as a model writes them, one under another. */
export function generatedText(parts: readonly ScriptPart[]): string {
  return parts.map((part) => (part.kind === 'call' ? `${headOf(part.name)}${part.text}}` : part.text)).join('\n');
}

function headOf(name: string): string {
  return `{"name":${JSON.stringify(name)},"arguments":`;
}

/** Takes the parts of a scripted answer while it is generated. */
export interface PartSink {
  /** A part begins; its text follows. */
  begin(part: ScriptPart): void;
  /** More of the part that began last. */
  more(part: ScriptPart, text: string): void;
}

/** Finds the parts in the text of `generatedText` while it is generated. */
export class PartReader {
  readonly #sink: PartSink;
  /** Where each part's own text is in the whole. */
  readonly #places: readonly { readonly part: ScriptPart; readonly start: number; readonly end: number }[];
  #at = 0;
  #next = 0;

  constructor(parts: readonly ScriptPart[], sink: PartSink) {
    let start = 0;
    this.#sink = sink;
    this.#places = parts.map((part) => {
      const own = start + (part.kind === 'call' ? headOf(part.name).length : 0);
      const end = own + part.text.length;
      start = end + (part.kind === 'call' ? 2 : 1);
      return { part, start: own, end };
    });
  }

  /** There is nothing that waits for the end of the text. */
  end(): void {}

  push(text: string): void {
    const from = this.#at;
    this.#at += text.length;
    for (const place of this.#places.slice(Math.max(0, this.#next - 1))) {
      if (place.start > this.#at) return;
      if (place === this.#places[this.#next]) {
        this.#next++;
        this.#sink.begin(place.part);
      }
      const more = text.slice(Math.max(0, place.start - from), Math.max(0, place.end - from));
      if (more !== '') this.#sink.more(place.part, more);
    }
  }
}
