// Coding agents as the check runs them: where their program is, how it is pointed at a gateway, and the script that a simulated model
// plays to it: read sum.mjs, correct it, run check.mjs, answer.

import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

const BEFORE = 'export const sum = (a, b) => a - b;';
export const AFTER = 'export const sum = (a, b) => a + b;';
export const ANSWER = 'The function adds now, and the check passes.';
export const TASK = 'Correct the function in sum.mjs and run check.mjs.';
const COMMAND = 'node check.mjs';

/** Files of the project that an agent works on. `check.mjs` leaves a line for each of its runs. */
export const FILES = {
  'sum.mjs': `// Adds two numbers.\n${BEFORE}\n`,
  // Claude Code asks for the tokens of a file of this size before it reads it.
  'notes.txt': Array.from(
    { length: 600 },
    (_, line) => `Line ${line} of notes that nobody needs, but that are long.\n`,
  ).join(''),
  'check.mjs': [
    "import { appendFileSync } from 'node:fs';",
    "import { sum } from './sum.mjs';",
    "const result = sum(2, 3) === 5 ? 'passed' : 'failed';",
    "appendFileSync('checks.log', `${result}\\n`);",
    'console.log(result);',
    "if (result === 'failed') process.exit(1);",
    '',
  ].join('\n'),
};

const REASONING = 'The file has to be read before it is changed.';

/**
 * The steps of a session by the results of tools, not by the number of turns: an agent may keep a call in its conversation whose stream
 * broke off, and results of calls that ran side by side come in any order.
 */
function sessionOf(reads, edit, run) {
  return [
    { when: { results: 0 }, reasoning: REASONING, text: 'I read the file.', calls: reads },
    { when: { result: 'passed' }, text: ANSWER },
    { when: { result: 'failed' }, text: 'The check fails.' },
    { when: { results: reads.length }, calls: [edit] },
    { when: { result: '' }, calls: [run] },
  ];
}

/** Whether a request has so many results of calls. */
const hasResults = (count, mark) => (body) => body.split(mark).length === count + 1;

/** `isBeforeEdit` knows the request that is answered with the edit, by its body. `prepare` writes what the agent needs into its home and its project, and returns its arguments and its environment. */
export const AGENTS = {
  claude: {
    title: 'Claude Code',
    dialect: 'messages',
    program: (tools) => join(tools, 'node_modules/.bin/claude'),
    isBeforeEdit: hasResults(2, '"type":"tool_result"'),
    script: (project) => {
      const file_path = join(project, 'sum.mjs');
      return sessionOf(
        [
          { name: 'Read', arguments: { file_path: join(project, 'notes.txt') } },
          { name: 'Read', arguments: { file_path } },
        ],
        { name: 'Edit', arguments: { file_path, old_string: BEFORE, new_string: AFTER } },
        { name: 'Bash', arguments: { command: COMMAND, description: 'Run the check' } },
      );
    },
    prepare: ({ url, key, model }) => ({
      args: [
        ...['-p', TASK, '--output-format', 'stream-json', '--verbose'],
        ...['--permission-mode', 'acceptEdits', '--allowedTools', 'Read,Edit,Bash'],
      ],
      env: {
        ANTHROPIC_BASE_URL: url,
        ANTHROPIC_AUTH_TOKEN: key,
        ANTHROPIC_MODEL: model,
        CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: '1',
      },
    }),
  },
  codex: {
    title: 'Codex',
    dialect: 'responses',
    program: (tools) => join(tools, 'node_modules/.bin/codex'),
    isBeforeEdit: hasResults(1, '"type":"function_call_output"'),
    script: () => {
      const patch = ['*** Begin Patch', '*** Update File: sum.mjs', '@@', `-${BEFORE}`, `+${AFTER}`, '*** End Patch'];
      const run = (cmd) => ({ name: 'exec_command', arguments: { cmd } });
      return sessionOf([run('cat sum.mjs')], run(`apply_patch <<'EOF'\n${patch.join('\n')}\nEOF`), run(COMMAND));
    },
    prepare({ url, key, model, home, supportsWebSockets = false }) {
      mkdirSync(join(home, '.codex'));
      const lines = [
        `model = "${model}"`,
        'model_provider = "headrace"',
        // With its sandbox off it offers a search of the live web, which is refused where it has to be translated.
        'web_search = "disabled"',
        '[model_providers.headrace]',
        'name = "Headrace"',
        `base_url = "${url}/v1"`,
        'env_key = "HEADRACE_API_KEY"',
        'wire_api = "responses"',
        `supports_websockets = ${supportsWebSockets}`,
      ];
      writeFileSync(join(home, '.codex', 'config.toml'), `${lines.join('\n')}\n`);
      return {
        // The commands are those of the script, and its own sandbox does not start in every container.
        args: ['exec', '--json', '--skip-git-repo-check', '--dangerously-bypass-approvals-and-sandbox', TASK],
        env: { HEADRACE_API_KEY: key },
      };
    },
  },
  'codex-websocket': {
    title: 'Codex (WebSocket)',
    dialect: 'responses',
    // Frames pass unread: the request with the edit is the second one that the host answers.
    breaksRequest: 2,
    supportsWebSockets: true,
  },
  opencode: {
    title: 'opencode',
    dialect: 'chat',
    program: (tools) => join(tools, 'node_modules/.bin/opencode'),
    isBeforeEdit: hasResults(1, '"role":"tool"'),
    script: (project) => {
      const filePath = join(project, 'sum.mjs');
      return sessionOf(
        [{ name: 'read', arguments: { filePath } }],
        { name: 'edit', arguments: { filePath, oldString: BEFORE, newString: AFTER } },
        { name: 'bash', arguments: { command: COMMAND, description: 'Run the check' } },
      );
    },
    provider: '@ai-sdk/openai-compatible',
    prepare({ url, key, model, home, provider: npm }) {
      const config = join(home, 'opencode.json');
      const models = { [model]: { limit: { context: 200_000, output: 8192 } } };
      const provider = { npm, options: { baseURL: `${url}/v1`, apiKey: key }, models };
      writeFileSync(
        config,
        JSON.stringify({
          autoupdate: false,
          share: 'disabled',
          model: `headrace/${model}`,
          provider: { headrace: provider },
        }),
      );
      return { args: ['run', '--format', 'json', TASK], env: { OPENCODE_CONFIG: config } };
    },
  },
  'opencode-messages': {
    title: 'opencode (messages)',
    dialect: 'messages',
    provider: '@ai-sdk/anthropic',
    // Its client does not repeat a request whose stream ends with an error.
    endsWhenBroken: true,
    isBeforeEdit: hasResults(1, '"type":"tool_result"'),
  },
  'opencode-responses': {
    title: 'opencode (responses)',
    dialect: 'responses',
    provider: '@ai-sdk/openai',
    isBeforeEdit: hasResults(1, '"type":"function_call_output"'),
  },
  aider: {
    title: 'aider',
    dialect: 'chat',
    program: (tools) => join(tools, 'aider/bin/aider'),
    needsGit: true,
    isBeforeEdit: (body) => /I added (this file|these files) to the chat/.test(body),
    // Has no tools: it reads files and edits from the text of an answer, and its own conversations begin with turns of the assistant.
    script: () => [
      {
        when: { user: 'added (this file|these files) to the chat' },
        text: ['sum.mjs', '```', '<<<<<<< SEARCH', BEFORE, '=======', AFTER, '>>>>>>> REPLACE', '```', '', ANSWER].join(
          '\n',
        ),
      },
      { when: { user: 'Correct the sum' }, text: 'Please add sum.mjs to the chat.' },
    ],
    prepare: ({ url, key, model }) => ({
      args: [
        ...['--model', `openai/${model}`, '--edit-format', 'diff', '--message', 'Correct the sum of numbers.'],
        ...[
          '--yes-always',
          '--auto-test',
          '--test-cmd',
          COMMAND,
          '--no-auto-commits',
          '--no-gitignore',
          '--map-tokens',
          '0',
        ],
        ...[
          '--no-check-update',
          '--no-show-release-notes',
          '--analytics-disable',
          '--no-show-model-warnings',
          '--no-pretty',
        ],
      ],
      env: { OPENAI_API_BASE: `${url}/v1`, OPENAI_API_KEY: key, LITELLM_LOCAL_MODEL_COST_MAP: 'True' },
    }),
  },
};

/** Agents that are like another one but for some members. */
const LIKE = { 'codex-websocket': 'codex', 'opencode-messages': 'opencode', 'opencode-responses': 'opencode' };
for (const [name, other] of Object.entries(LIKE)) AGENTS[name] = { ...AGENTS[other], ...AGENTS[name] };

/** Whether the program of an agent is there. */
export function isInstalled(agent, tools) {
  return existsSync(agent.program(tools));
}
