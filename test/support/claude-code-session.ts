// A long session in the form of Claude Code's requests: its system blocks, of which the first changes with every request, its tools, and a
// conversation of tool calls and results. A simulated host plays the other side by `CLAUDE_CODE_SCRIPT`.

import Anthropic from '@anthropic-ai/sdk';
import { createHash } from 'node:crypto';
import type { Script } from '../../src/host/index.ts';
import { recordedRequests } from './agent-requests.ts';

/** Every so many turns the model answers without a call, and the user asks for something else. */
const TURNS_OF_A_TASK = 6;
const MOST_TURNS = 100;
/** Sizes of the recorded requests before their prose was replaced, in characters. */
const TOOL_CHARACTERS = 1900;
const SYSTEM_CHARACTERS = 5900;
const RESULT_CHARACTERS = 1600;

/** A host that plays it needs room for the whole conversation. */
export const CLAUDE_CODE_CONTEXT = 200_000;

export const CLAUDE_CODE_SCRIPT: Script = {
  steps: Array.from({ length: MOST_TURNS }, (_, turn) =>
    (turn + 1) % TURNS_OF_A_TASK === 0
      ? { text: `Part ${turn} is done. ${filler(`summary ${turn}`, 200)}` }
      : {
          reasoning: filler(`reasoning ${turn}`, 160),
          text: `I read part ${turn}.`,
          calls: [{ name: 'Read', arguments: { file_path: `/home/user/project/part-${turn}.mjs` } }],
        },
  ),
};

export interface SessionTarget {
  /** Base URL of the gateway. */
  readonly url: string;
  readonly key: string;
  readonly model: string;
  /** Tells sessions apart. */
  readonly name: string;
  readonly turns: number;
}

/** Prompt tokens of one turn as the client was told. */
export interface TurnUsage {
  readonly promptTokens: number;
  readonly cachedTokens: number;
}

/** Plays a session, one turn after the other. Rejects when an answer is not what the script says. */
export async function playClaudeCode({ url, key, model, name, turns }: SessionTarget): Promise<TurnUsage[]> {
  const { body, headers } = recordedRequests('claude-code').find((request) => request.body !== undefined)!;
  const client = new Anthropic({ baseURL: url, apiKey: null, authToken: key, maxRetries: 0 });
  const tools = (body!['tools'] as Anthropic.Tool[]).map((tool) => ({
    ...tool,
    description: filler(tool.name, TOOL_CHARACTERS),
  }));
  const messages: Anthropic.Beta.BetaMessageParam[] = [{ role: 'user', content: task(name, 0) }];
  const used: TurnUsage[] = [];
  for (let turn = 0; turn < turns; turn++) {
    const request = { ...body, model, system: systemOf(name, turn), tools, messages };
    const stream = client.beta.messages.stream(request as unknown as Anthropic.Beta.MessageCreateParamsNonStreaming, {
      headers,
    });
    const { content, usage } = await stream.finalMessage();
    const cachedTokens = usage.cache_read_input_tokens ?? 0;
    used.push({
      promptTokens: usage.input_tokens + cachedTokens + (usage.cache_creation_input_tokens ?? 0),
      cachedTokens,
    });
    messages.push({ role: 'assistant', content: content as Anthropic.Beta.BetaContentBlockParam[] });
    const calls = content.filter((block) => block.type === 'tool_use');
    if (calls.length === 0 && (turn + 1) % TURNS_OF_A_TASK !== 0) throw new Error(`turn ${turn} has no call`);
    messages.push({
      role: 'user',
      content: calls.length === 0 ? task(name, turn) : calls.map(({ id }) => result(id, turn)),
    });
  }
  return used;
}

/** Share of the prompt tokens of these turns that was cached. */
export function cachedShare(turns: readonly TurnUsage[]): number {
  const sum = (of: keyof TurnUsage): number => turns.reduce((total, turn) => total + turn[of], 0);
  return sum('cachedTokens') / sum('promptTokens');
}

function systemOf(name: string, turn: number): Anthropic.Beta.BetaTextBlockParam[] {
  const mark = createHash('sha256').update(`${name} ${turn}`).digest('hex').slice(0, 5);
  const cache_control = { type: 'ephemeral' } as const;
  return [
    {
      type: 'text',
      text: `x-anthropic-billing-header: cc_version=2.1.197.${mark.slice(0, 3)}; cc_entrypoint=cli; cch=${mark};`,
    },
    { type: 'text', text: 'Neutral text in place of an introduction.', cache_control },
    { type: 'text', text: filler('system', SYSTEM_CHARACTERS), cache_control },
  ];
}

function task(name: string, turn: number): string {
  return `Session ${name}: read the parts from ${turn} on.`;
}

function result(id: string, turn: number): Anthropic.Beta.BetaToolResultBlockParam {
  return { type: 'tool_result', tool_use_id: id, content: filler(`part ${turn}`, RESULT_CHARACTERS) };
}

/** Text of about so many characters that depends on its name. */
function filler(name: string, characters: number): string {
  const words: string[] = [];
  for (let length = 0, at = 0; length < characters; at++) {
    const word = `${name} word ${at}.`;
    words.push(word);
    length += word.length + 1;
  }
  return words.join(' ');
}
