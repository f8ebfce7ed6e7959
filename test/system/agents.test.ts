// Recorded sessions of coding agents, sent again to hosts that speak everything and to hosts that speak chat completions alone. The
// accumulators of the official SDKs read the answers.

import Anthropic from '@anthropic-ai/sdk';
import OpenAI from 'openai';
import t from 'tap';
import { type HostDialect, parseScript } from '../../src/host/index.ts';
import { type Agent, type RecordedRequest, recordedRequests } from '../support/agent-requests.ts';
import { KEY, startSystem, type System } from '../support/system.ts';

const FILE = '/home/user/project/sum.mjs';
const ANSWER = 'The function adds now, and the check passes.';
const TITLE = 'A short title';
const REASONING = 'The file has to be read before it is changed.';

type Call = readonly [name: string, args: Readonly<Record<string, unknown>>];

/** The calls that read files, edit one and run the check, in the words of each agent. */
const CALLS: Readonly<Record<Exclude<Agent, 'aider'>, readonly [readonly Call[], Call, Call]>> = {
  'claude-code': [
    [
      ['Read', { file_path: '/home/user/project/notes.txt' }],
      ['Read', { file_path: FILE }],
    ],
    ['Edit', { file_path: FILE, old_string: 'a - b', new_string: 'a + b', replace_all: false }],
    ['Bash', { command: 'node check.mjs', description: 'Run the "check"' }],
  ],
  codex: [
    [['exec_command', { cmd: 'cat sum.mjs' }]],
    ['exec_command', { cmd: "sed -i 's/a - b/a + b/' sum.mjs" }],
    ['exec_command', { cmd: 'node check.mjs' }],
  ],
  opencode: [
    [['read', { filePath: FILE }]],
    ['edit', { filePath: FILE, oldString: 'a - b', newString: 'a + b' }],
    ['bash', { command: 'node check.mjs', description: 'Run the check' }],
  ],
};

/** What the model says after so many results of tools. */
function answersOf(agent: Exclude<Agent, 'aider'>): ReadonlyMap<number, Pick<Said, 'reasoning' | 'text' | 'calls'>> {
  const [reads, edit, run] = CALLS[agent];
  return new Map([
    [0, { reasoning: REASONING, text: 'I read the file.', calls: reads }],
    [reads.length, { reasoning: '', text: '', calls: [edit] }],
    [reads.length + 1, { reasoning: '', text: 'I run the check.', calls: [run] }],
    [reads.length + 2, { reasoning: '', text: ANSWER, calls: [] }],
  ]);
}

function scriptOf(agent: Agent): unknown {
  if (agent === 'aider') return { steps: [{ when: { user: '.' }, text: ANSWER }] };
  const steps = Array.from(answersOf(agent), ([results, { calls, ...said }]) => ({
    ...said,
    when: { results },
    calls: calls.map(([name, args]) => ({ name, arguments: args })),
  }));
  return { steps, otherwise: TITLE };
}

/** What an answer says, whatever its dialect. */
interface Said {
  readonly reasoning: string;
  readonly text: string;
  readonly calls: readonly Call[];
  readonly hasEnded: boolean;
  readonly promptTokens: number;
  readonly generatedTokens: number;
}

async function askMessages({ url }: System, { body, headers }: RecordedRequest): Promise<Said> {
  const { messages } = new Anthropic({ baseURL: url, apiKey: null, authToken: KEY, maxRetries: 0 }).beta;
  const request = body as unknown as Anthropic.Beta.MessageCreateParamsNonStreaming;
  const { content, stop_reason, usage } =
    body!['stream'] === true
      ? await messages.stream(request, { headers }).finalMessage()
      : await messages.create(request, { headers, timeout: 60_000 });
  return {
    reasoning: content.map((block) => (block.type === 'thinking' ? block.thinking : '')).join(''),
    text: content.map((block) => (block.type === 'text' ? block.text : '')).join(''),
    calls: content.flatMap((block) => (block.type === 'tool_use' ? [[block.name, block.input as object] as Call] : [])),
    hasEnded: stop_reason === 'end_turn',
    promptTokens: usage.input_tokens + (usage.cache_read_input_tokens ?? 0),
    generatedTokens: usage.output_tokens,
  };
}

async function askResponses({ url }: System, { body, headers }: RecordedRequest): Promise<Said> {
  const { responses } = new OpenAI({ baseURL: `${url}/v1`, apiKey: KEY, maxRetries: 0 });
  const request = body as unknown as OpenAI.Responses.ResponseCreateParamsStreaming;
  const { output, output_text, status, usage } = await responses.stream(request, { headers }).finalResponse();
  const calls: Call[] = [];
  let reasoning = '';
  for (const item of output) {
    if (item.type === 'function_call') calls.push([item.name, JSON.parse(item.arguments) as object as Call[1]]);
    if (item.type === 'reasoning') reasoning += (item.content ?? []).map(({ text }) => text).join('');
  }
  return {
    reasoning,
    text: output_text,
    calls,
    hasEnded: status === 'completed' && calls.length === 0,
    promptTokens: usage!.input_tokens,
    generatedTokens: usage!.output_tokens,
  };
}

async function askChat({ url }: System, { body, headers }: RecordedRequest): Promise<Said> {
  const { completions } = new OpenAI({ baseURL: `${url}/v1`, apiKey: KEY, maxRetries: 0 }).chat;
  const request = { ...body, stream_options: { include_usage: true } };
  const stream = completions.stream(request as unknown as OpenAI.ChatCompletionCreateParamsStreaming, { headers });
  let reasoning = '';
  stream.on('chunk', ({ choices: [choice] }) => {
    reasoning += (choice?.delta as { reasoning_content?: string } | undefined)?.reasoning_content ?? '';
  });
  const { choices, usage } = await stream.finalChatCompletion();
  const { finish_reason: finish, message } = choices[0]!;
  const calls = (message.tool_calls ?? []) as OpenAI.ChatCompletionMessageFunctionToolCall[];
  return {
    reasoning,
    text: message.content ?? '',
    calls: calls.map(({ function: { name, arguments: text } }) => [name, JSON.parse(text) as Call[1]]),
    hasEnded: finish === 'stop',
    promptTokens: usage!.prompt_tokens,
    generatedTokens: usage!.completion_tokens,
  };
}

const ASK = {
  '/v1/messages?beta=true': askMessages,
  '/v1/responses': askResponses,
  '/v1/chat/completions': askChat,
} as const;

/** Tool results in a conversation, whatever its dialect. */
function resultsIn({ body }: RecordedRequest): number {
  return JSON.stringify(body).split(/"type":"tool_result"|"type":"function_call_output"|"role":"tool"/).length - 1;
}

/** What the script says to the request. */
function expected(agent: Agent, request: RecordedRequest): Pick<Said, 'reasoning' | 'text' | 'calls' | 'hasEnded'> {
  if (agent === 'aider') return { reasoning: '', text: ANSWER, calls: [], hasEnded: true };
  if (request.body!['tools'] === undefined) return { reasoning: '', text: TITLE, calls: [], hasEnded: true };
  const said = answersOf(agent).get(resultsIn(request))!;
  return { ...said, hasEnded: said.calls.length === 0 };
}

async function start(t: Parameters<typeof startSystem>[0], agent: Agent, dialects?: HostDialect[]): Promise<System> {
  const engine = { profile: '8b-h100', speed: 'virtual', contextTokens: 200_000 } as const;
  return startSystem(t, { hosts: [{ engine, dialects, script: parseScript(scriptOf(agent)) }] });
}

for (const agent of ['claude-code', 'codex', 'opencode', 'aider'] as const) {
  const requests = recordedRequests(agent).filter(({ path }) => path in ASK);

  t.test(`${agent}: its recorded session has the same answers on a server that speaks chat alone`, async (t) => {
    const systems = [await start(t, agent), await start(t, agent, ['chat'])];
    for (const [at, request] of requests.entries()) {
      const ask = ASK[request.path as keyof typeof ASK];
      const [passed, translated] = await Promise.all(systems.map((system) => ask(system, request)));
      const { promptTokens, generatedTokens, ...said } = passed!;
      t.same(said, expected(agent, request), `request ${at + 1}, passed`);
      const { promptTokens: itsPrompt, generatedTokens: itsGenerated, ...itsSaid } = translated!;
      t.same(itsSaid, said, `request ${at + 1}, translated`);
      t.ok(promptTokens > 0 && itsPrompt > 0, 'prompts are counted');
      t.equal(itsGenerated, generatedTokens, 'the same tokens are generated');
    }
    const asked = systems[1]!.host.requests.filter(({ method, status }) => method === 'POST' && status === 200);
    t.ok(asked.length >= requests.length);
    t.ok(asked.every(({ path }) => path === '/v1/chat/completions'));
  });
}

t.test(
  "codex: its vendor's web search is left out where it is offered unasked, and refused by name otherwise",
  async (t) => {
    const { url } = await start(t, 'codex', ['chat']);
    const { body, headers } = recordedRequests('codex')[0]!;
    const ask = (external: boolean): Promise<Response> => {
      const tools = [...(body!['tools'] as object[]), { type: 'web_search', external_web_access: external }];
      return fetch(`${url}/v1/responses`, {
        method: 'POST',
        headers: { ...headers, authorization: `Bearer ${KEY}` },
        body: JSON.stringify({ ...body, tools }),
      });
    };
    const answer = await ask(false);
    t.equal(answer.status, 200);
    t.match(await answer.text(), /^event: response\.completed$/m);
    const refused = await ask(true);
    t.equal(refused.status, 422);
    const at = (body!['tools'] as object[]).length;
    t.match(await refused.json(), { detail: [{ loc: ['body', 'tools', at, 'type'], msg: /^web_search: / }] });
  },
);

t.test('answers say that they are translated', async (t) => {
  for (const [agent, how] of [
    ['claude-code', 'messages-chat'],
    ['codex', 'responses-chat'],
    ['opencode', null],
  ] as const) {
    const { url } = await start(t, agent, ['chat']);
    const { body, headers, path } = recordedRequests(agent).find(({ path }) => path in ASK)!;
    const answer = await fetch(url + path, {
      method: 'POST',
      headers: { ...headers, authorization: `Bearer ${KEY}` },
      body: JSON.stringify(body),
    });
    await answer.text();
    t.equal(answer.headers.get('x-headrace-translated'), how, agent);
  }
});

t.test('claude-code: the tokens of a file are counted before it is read', async (t) => {
  const { path, headers, body } = recordedRequests('claude-code').find((request) => /count_tokens/.test(request.path))!;
  for (const dialects of [undefined, ['chat'] as HostDialect[]]) {
    const { url } = await start(t, 'claude-code', dialects);
    const answer = await fetch(url + path, {
      method: 'POST',
      headers: { ...headers, authorization: `Bearer ${KEY}` },
      body: JSON.stringify(body),
    });
    t.equal(answer.status, 200);
    const { input_tokens: tokens } = (await answer.json()) as { input_tokens: number };
    t.ok(tokens > 10 && tokens < 1000, String(tokens));
  }
});
