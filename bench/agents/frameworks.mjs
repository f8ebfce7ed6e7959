// Agent frameworks as the check runs them: examples/ holds a program for each, which asks for a sum with a tool, whole and streamed.

import { copyFileSync, existsSync, mkdtempSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const EXAMPLES = fileURLToPath(new URL('examples/', import.meta.url));

export const SUM = 'The sum is 5.';

/** What the simulated model says to all of them. */
export const SUM_STEPS = [
  {
    when: { results: 0 },
    reasoning: 'A tool adds.',
    text: 'I add.',
    calls: [{ name: 'add', arguments: { a: 2, b: 3 } }],
  },
  { when: { result: '5' }, text: SUM },
];

/** `package` names the version that is printed; Node.js packages are in DIR/frameworks, Python's in DIR/python. */
export const FRAMEWORKS = {
  ai: { title: 'Vercel ai', file: 'ai.mjs', package: 'ai', dialects: ['chat', 'responses', 'messages'] },
  langchain: {
    title: 'LangChain',
    file: 'langchain.mjs',
    package: 'langchain',
    dialects: ['chat', 'responses', 'messages'],
  },
  'openai-agents': {
    title: 'OpenAI Agents',
    file: 'openai-agents.mjs',
    package: '@openai/agents',
    dialects: ['responses', 'chat'],
  },
  'langchain-python': {
    title: 'LangChain (Python)',
    file: 'langchain.py',
    package: 'langchain',
    dialects: ['chat', 'responses', 'messages'],
  },
  'openai-agents-python': {
    title: 'OpenAI Agents (Python)',
    file: 'openai-agents.py',
    package: 'openai-agents',
    dialects: ['responses', 'chat'],
  },
};

const isPython = ({ file }) => file.endsWith('.py');

/** The program that runs the example; undefined where it is not installed. */
export function interpreterOf(framework, tools) {
  if (isPython(framework)) {
    const python = join(tools, 'python/bin/python');
    return existsSync(python) ? python : undefined;
  }
  return existsSync(join(tools, 'frameworks/node_modules', framework.package)) ? process.execPath : undefined;
}

/** Copies the example to where its packages are found, and says where it is and how to remove it. */
export function placeExample({ file }, tools) {
  const folder = mkdtempSync(join(tools, file.endsWith('.py') ? 'python' : 'frameworks', 'run-'));
  const path = join(folder, file);
  copyFileSync(join(EXAMPLES, file), path);
  return { path, remove: () => rmSync(folder, { recursive: true, force: true }) };
}

/** Arguments that print the version of its package. */
export function versionArguments(framework) {
  const { package: name } = framework;
  if (isPython(framework)) return ['-c', `import importlib.metadata as m; print(m.version("${name}"))`];
  return ['-p', `JSON.parse(require("fs").readFileSync("node_modules/${name}/package.json")).version`];
}
