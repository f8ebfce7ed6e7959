// `headrace init`: writes a commented configuration from at most three answers or from flags, asks the named servers for their
// models, and says how to start and try the gateway.

import { randomBytes } from 'node:crypto';
import { existsSync } from 'node:fs';
import { chmod, writeFile } from 'node:fs/promises';
import { createInterface } from 'node:readline/promises';
import type { Command } from 'commander';
import { stringify } from 'yaml';
import { visible } from '../admin/index.ts';
import { loadConfigText } from '../config/load.ts';
import type { Settings } from '../config/settings.ts';
import { httpUrl, parseAddress, printAddress } from '../config/units.ts';
import { messageOf } from '../errors.ts';
import { KeyRefused, recogniseEngine } from '../host/index.ts';
import { type CliIo, UsageError } from './io.ts';
import { sentenceOf, yesOrNo } from './options.ts';

const FILE = 'headrace.yaml';
const LISTEN = '127.0.0.1:8080';

/** A server answers its list of models at once or is not there. */
const QUESTION_MS = 3000;

/** As long as keys of `headrace keys create`. */
const KEY_BYTES = 32;

const DESCRIPTION = `Writes a commented configuration. Asks for the model servers, for the address of clients and whether they need a
key; what a flag names is not asked, and --yes asks nothing. Servers are asked for their models and context sizes.
The file is readable by its owner only, because it holds the key. One that exists is kept, unless --force is given.`;

interface InitOptions {
  readonly config: string;
  readonly server?: string;
  readonly listen?: string;
  readonly key?: boolean;
  readonly yes?: boolean;
  readonly force?: boolean;
}

interface Answers {
  readonly servers: readonly string[];
  readonly listen: string;
  /** Null: clients need none. */
  readonly key: string | null;
}

/** What was found out about one server. */
interface Finding {
  readonly url: string;
  readonly models: readonly { readonly id: string; readonly contextTokens: number | null }[];
  /** One sentence, without its full stop. */
  readonly sentence: string;
}

export function configureInit(command: Command, io: CliIo): void {
  command
    .description(DESCRIPTION)
    .option('-c, --config <file>', 'the file to write', FILE)
    .option('--server <urls>', 'URLs of model servers, separated by commas; "" for none')
    .option('--listen <host:port>', `address that clients connect to; default ${LISTEN}`)
    .option('--key <boolean>', 'whether clients need a key; default true', yesOrNo)
    .option('--yes', 'asks nothing: what no flag names has its default')
    .option('--force', 'replaces a file that exists')
    .addHelpText('after', '\nFor example\n  headrace init --yes --server http://10.0.0.1:8000,http://10.0.0.2:8000')
    .action(async (options: InitOptions) => init(options, io));
}

async function init(options: InitOptions, io: CliIo): Promise<void> {
  // Said before anything is asked.
  if (options.force !== true && existsSync(options.config)) throw exists(options.config);
  const answers = await ask(options, io);
  const findings = await Promise.all(answers.servers.map(examine));
  const { leftOut, models } = modelsOf(findings);
  const text = configurationText(answers, models);
  const resolution = loadConfigText(text, options.config, {});
  if ('mistakes' in resolution) throw new UsageError(sentenceOf(resolution.mistakes));
  await write(options.config, text, options.force ?? false);
  for (const sentence of [...findings.map((finding) => finding.sentence), ...leftOut])
    io.stdout.write(`${visible(sentence)}.\n`);
  io.stdout.write(nextSteps(options.config, resolution.settings, answers.key));
}

async function ask(options: InitOptions, io: CliIo): Promise<Answers> {
  const { key, listen, server, yes = false } = options;
  const isAsking = !yes && [key, listen, server].includes(undefined);
  if (isAsking && io.stdin.isTTY !== true)
    throw new UsageError('standard input is no terminal to ask questions at: use --yes, and flags for the answers');
  const terminal = isAsking ? createInterface({ input: io.stdin, output: io.stdout, terminal: false }) : null;
  const ended = new AbortController();
  terminal?.once('close', () => ended.abort());
  const answerTo = async (question: string, given: string | undefined, standard: string): Promise<string> => {
    if (given !== undefined || terminal === null) return given ?? standard;
    const answer = await terminal.question(question, { signal: ended.signal }).catch(() => {
      throw new UsageError('the questions were not answered: nothing is written');
    });
    return answer.trim() || standard;
  };
  try {
    const urls = await answerTo('Model servers, URLs separated by commas (none yet: just Enter): ', server, '');
    const servers = urls
      .split(/[\s,]+/)
      .filter((url) => url !== '')
      .map(serverUrl);
    const address = await answerTo(`Address for clients, HOST:PORT (${LISTEN}): `, listen, LISTEN);
    if (parseAddress(address, '') === undefined) throw new UsageError(`listen: must be HOST:PORT, such as ${LISTEN}`);
    const needed = await answerTo(
      'Do clients need a key, yes or no (yes): ',
      key === undefined ? key : String(key),
      'yes',
    );
    return {
      servers: [...new Set(servers)],
      listen: address,
      key: /^(n|no|false)$/i.test(needed) ? null : `hr_${randomBytes(KEY_BYTES).toString('base64url')}`,
    };
  } finally {
    terminal?.close();
  }
}

/** The address of a server as the configuration takes it: a base URL of clients ends with a `/v1` too many. */
function serverUrl(text: string): string {
  const url = httpUrl(/^[a-z][a-z\d+.-]*:\/\//i.test(text) ? text : `http://${text}`);
  if (url === null) throw new UsageError(`${text} is not the URL of a server`);
  if (url.username !== '' || url.password !== '') throw new UsageError('the URL of a server must not hold a password');
  return `${url.origin}${url.pathname}`.replace(/(\/v1)?\/*$/, '');
}

async function examine(url: string): Promise<Finding> {
  try {
    const { kind, models, version } = await recogniseEngine(url, QUESTION_MS);
    const name = { 'llama-server': 'llama-server', vllm: 'vLLM', ollama: 'Ollama', openai: 'a server' }[kind];
    const ids = models.map(({ id }) => id).join(', ');
    return { url, models, sentence: `${url} is ${name}${version === null ? '' : ` ${version}`} with ${ids}` };
  } catch (error) {
    const reason =
      error instanceof KeyRefused
        ? `it needs a key (${error.status}), which is \`apiKey\` of a model`
        : messageOf(error).replace(/\.$/, '');
    return { url, models: [], sentence: `${url} did not say its models: ${reason}. It is in the file as "my-model"` };
  }
}

/** A model of the file. */
interface FileModel {
  readonly servers: Set<string>;
  contextTokens: number | null;
}

const UNKNOWN_MODELS: Finding['models'] = [{ id: 'my-model', contextTokens: null }];

/** The models of the file by their ids, and a sentence about each that cannot be one of them. */
function modelsOf(findings: readonly Finding[]): {
  readonly models: ReadonlyMap<string, FileModel>;
  readonly leftOut: readonly string[];
} {
  // The line to paste asks for the first model: one that a server has said.
  const known = findings.toSorted((one, other) => Math.sign(other.models.length) - Math.sign(one.models.length));
  const models = new Map<string, FileModel>();
  const ids = new Map<string, string>();
  const leftOut: string[] = [];
  for (const { models: found, url } of known) {
    for (const { contextTokens, id } of found.length > 0 ? found : UNKNOWN_MODELS) {
      const first = ids.get(id.toLowerCase()) ?? id;
      if (first !== id || !isWritable(id)) {
        const reason = first === id ? 'a file cannot name it' : `it has ${first}; upper and lower case are the same`;
        leftOut.push(`${JSON.stringify(id)} of ${url} is not in the file: ${reason}`);
        continue;
      }
      ids.set(id.toLowerCase(), id);
      const model = models.get(id) ?? { servers: new Set<string>(), contextTokens: null };
      models.set(id, model);
      model.servers.add(url);
      // The least: a request may go to any of the servers. Some say 0 for one that they do not know.
      if (contextTokens !== null && Number.isSafeInteger(contextTokens) && contextTokens > 0)
        model.contextTokens = Math.min(model.contextTokens ?? Infinity, contextTokens);
    }
  }
  return { models, leftOut };
}

/** Whether the configuration takes it for the id of a model, on one line. */
function isWritable(id: string): boolean {
  return id.trim() !== '' && id !== '__proto__' && !id.includes('${') && !/[\p{Cc}\p{Zl}\p{Zp}]/u.test(id);
}

function configurationText({ key, listen }: Answers, models: ReadonlyMap<string, FileModel>): string {
  const entries = [...models].map(
    ([id, { contextTokens, servers }]) => `  ${word(id)}:
    servers: [${Array.from(servers, word).join(', ')}]
${contextTokens === null ? '    # context_length: 131072 # tokens' : `    context_length: ${contextTokens} # tokens`}
    # pricing: { prompt: '0.25', completion: '1.50' } # USD per million tokens
`,
  );
  return `# Configuration of headrace. A running gateway reads a change at once; some settings need a restart. A broken file changes nothing.
# Every setting: headrace serve --help, and docs/configuration.md. Check this file: headrace check --config FILE
# In strings, a dollar sign with a NAME in braces stands for the environment variable NAME.

# Where clients connect. 127.0.0.1 is this machine only, 0.0.0.0 every interface.
listen: ${word(listen)}

# Metrics, status and dashboard, without a password: keep it on this machine or in a private network.
admin: 127.0.0.1:9090

# Models and the servers that run them. With several servers, requests go where the least work is, and to the next one
# when a server fails.
${
  entries.length === 0
    ? `models:
#  atlas-27b:
#    servers: [http://10.0.0.1:8000, http://10.0.0.2:8000]
#    context_length: 131072
`
    : `models:
${entries.join('')}`
}
# Who may call. Keys with limits and budgets are made by: headrace keys create --account NAME
keys:
  required: ${key !== null}
${
  key === null
    ? '  static: []'
    : `  static:
    - { key: ${word(key)}, account: default }`
}

# Keys, credit and usage. postgres://USER@HOST/NAME shares them between gateways; null keeps none.
store: sqlite:./headrace.db

# POST /search asks these engines at once. The kinds are in docs/search-engines.md.
# search:
#   engines:
#     engine_a: { kind: wikipedia, language: en }
`;
}

/** A string as YAML writes it, between brackets too. */
function word(text: string): string {
  if (/[[\]{},]/.test(text)) return JSON.stringify(text);
  return stringify(text, { lineWidth: 0 }).trimEnd();
}

function exists(file: string): UsageError {
  return new UsageError(`${file} exists: --force replaces it, --config FILE writes another one`);
}

async function write(file: string, text: string, isForced: boolean): Promise<void> {
  try {
    await writeFile(file, text, { mode: 0o600, flag: isForced ? 'w' : 'wx' });
    // One that existed has kept its mode.
    if (isForced) await chmod(file, 0o600);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'EEXIST') throw exists(file);
    throw new UsageError(`${file} cannot be written (${code ?? messageOf(error)})`);
  }
}

function nextSteps(file: string, { listen, models }: Settings, key: string | null): string {
  const model = Object.keys(models)[0];
  const host = listen.host === '0.0.0.0' || listen.host === '::' ? '127.0.0.1' : listen.host;
  const url = `http://${printAddress({ ...listen, host })}`;
  const auth = key === null ? '' : ` -H 'authorization: Bearer ${key}'`;
  const body = JSON.stringify({ model, messages: [{ role: 'user', content: 'Hello' }] }).replaceAll(
    "'",
    String.raw`'\''`,
  );
  const curl =
    model === undefined
      ? `curl ${url}/v1/models${auth}`
      : `curl ${url}/v1/chat/completions${auth} -H 'content-type: application/json' -d '${body}'`;
  return `Wrote ${file}${model === undefined ? ', without models: name your servers in it' : ''}.
${key === null ? '' : `The key of clients: ${key}\n`}
Start the gateway:
  headrace serve --config ${file}
and ask it from another terminal:
  ${curl}
`;
}
