// `headrace completion`: prints a script that completes commands, options and their values in bash, zsh or fish. Made from the
// commands themselves, so that it names what they take and nothing else.

import { Argument, type Command, type Option } from 'commander';
import { SETTINGS, type SettingRow } from '../config/settings.ts';
import type { CliIo } from './io.ts';

const SHELLS = ['bash', 'zsh', 'fish'] as const;
type Shell = (typeof SHELLS)[number];

/** Commands that take every setting as an option. */
const WITH_SETTINGS: readonly string[] = ['serve', 'check', 'demo', 'fetch', 'picker', 'mcp'];

const DESCRIPTION = `Prints a script that completes commands, options and values. Load it in the start file of the shell:
  bash  source <(headrace completion bash)                            in ~/.bashrc
  zsh   source <(headrace completion zsh)                             in ~/.zshrc, after compinit
  fish  headrace completion fish > ~/.config/fish/completions/headrace.fish`;

export function configureCompletion(command: Command, io: CliIo): void {
  command
    .description(DESCRIPTION)
    .addArgument(new Argument('<shell>', 'bash, zsh or fish').choices(SHELLS))
    .action((shell: Shell) => {
      io.stdout.write(completionScript(command.parent ?? command, shell));
    });
}

/** What can follow a command: `path` is its words, empty for the program. */
interface Level {
  readonly path: string;
  readonly words: readonly Word[];
  readonly options: readonly CompletedOption[];
}

interface Word {
  readonly name: string;
  readonly summary: string;
}

interface CompletedOption {
  /** `-c` and `--config`. */
  readonly names: readonly string[];
  readonly summary: string;
  /** What its value may be; null for an option without a value. */
  readonly value: 'file' | 'any' | readonly string[] | null;
}

/** The script for a shell. Every command of the program must have its options. */
export function completionScript(program: Command, shell: Shell): string {
  const levels = levelsOf(program, '');
  return { bash, zsh, fish }[shell](levels);
}

function levelsOf(command: Command, path: string): Level[] {
  const commands = command.commands.map((child) => ({ name: child.name(), summary: summaryOf(child) }));
  const choices = command.registeredArguments.flatMap(({ argChoices }) => argChoices ?? []);
  const words = [...commands, ...choices.map((name) => ({ name, summary: '' }))];
  const options = command.options.filter(({ hidden }) => !hidden).map(completed);
  options.push({ names: ['-h', '--help'], summary: 'print help', value: null });
  if (WITH_SETTINGS.includes(path)) {
    for (const { flag, setting } of SETTINGS)
      options.push({ names: [flag], summary: setting.sentence, value: valueOf(setting) });
  }
  const below = command.commands.flatMap((child) => levelsOf(child, `${path} ${child.name()}`.trim()));
  return [{ path, words, options }, ...below];
}

function summaryOf(command: Command): string {
  return (command.summary() || command.description()).split('\n', 1)[0] ?? '';
}

function completed({ argChoices, description, flags, long, required, short }: Option): CompletedOption {
  const names = [short, long].filter((name) => name !== undefined);
  const value = argChoices ?? (/<(file|path)>/.test(flags) ? 'file' : 'any');
  return { names, summary: description.split('\n', 1)[0] ?? '', value: required ? value : null };
}

function valueOf({ kind, words }: SettingRow['setting']): 'any' | readonly string[] {
  if (kind === 'boolean') return ['true', 'false'];
  return kind === 'enum' ? (words ?? 'any') : 'any';
}

/** A word in single quotes, as bash and zsh read it. */
function quoted(text: string): string {
  return `'${text.replaceAll("'", String.raw`'\''`)}'`;
}

/** Statements of bash and zsh that find `at`, the command of the words before the cursor. */
function findPath(levels: readonly Level[], words: string, first: number, last: string): string {
  const paths = levels.map(({ path }) => quoted(path)).slice(1);
  return `  local at='' i next
  for ((i = ${first}; i < ${last}; i++)); do
    next="\${at:+$at }\${${words}[i]}"
    case $next in
      ${paths.join(' | ')}) at=$next ;;
    esac
  done`;
}

/** The branches of a `case` over "COMMAND OPTION" for options with a value. */
function valueCases(levels: readonly Level[], files: string, words: (values: readonly string[]) => string): string {
  const patterns = new Map<string, string[]>();
  for (const { options, path } of levels) {
    for (const { names, value } of options) {
      if (value === null) continue;
      const action = value === 'file' ? files : value === 'any' ? ':' : words(value);
      const of = patterns.get(action) ?? [];
      patterns.set(action, of);
      of.push(...names.map((name) => quoted(`${path} ${name}`)));
    }
  }
  return [...patterns].map(([action, of]) => `    ${of.join(' | ')}) ${action}; return ;;`).join('\n');
}

function bash(levels: readonly Level[]): string {
  const offers = levels.map(({ options, path, words }) => {
    const names = [...words.map(({ name }) => name), ...options.flatMap(({ names }) => names)];
    return `    ${quoted(path)}) words=${quoted(names.join(' '))} ;;`;
  });
  const choose = (values: readonly string[]): string =>
    `COMPREPLY=($(compgen -W ${quoted(values.join(' '))} -- "$cur"))`;
  return `# Completion of headrace for bash.
_headrace() {
  local cur=\${COMP_WORDS[COMP_CWORD]} prev=\${COMP_WORDS[COMP_CWORD-1]} words=''
${findPath(levels, 'COMP_WORDS', 1, 'COMP_CWORD')}
  COMPREPLY=()
  case "$at $prev" in
${valueCases(levels, 'compopt -o filenames 2>/dev/null; COMPREPLY=($(compgen -f -- "$cur"))', choose)}
  esac
  case $at in
${offers.join('\n')}
  esac
  COMPREPLY=($(compgen -W "$words" -- "$cur"))
}
complete -F _headrace headrace
`;
}

function zsh(levels: readonly Level[]): string {
  const described = (name: string, summary: string): string =>
    quoted(summary === '' ? name : `${name.replaceAll(':', String.raw`\:`)}:${summary}`);
  const offers = levels.map(({ options, path, words }) => {
    const lines = [
      ...words.map(({ name, summary }) => described(name, summary)),
      ...options.flatMap(({ names, summary }) => names.map((name) => described(name, summary))),
    ];
    return `    ${quoted(path)}) offers=(${lines.join(' ')}) ;;`;
  });
  return `#compdef headrace
# Completion of headrace for zsh.
_headrace() {
  local -a offers
${findPath(levels, 'words', 2, 'CURRENT')}
  case "$at \${words[CURRENT-1]}" in
${valueCases(levels, '_files', (values) => `compadd -- ${values.map(quoted).join(' ')}`)}
  esac
  case $at in
${offers.join('\n')}
  esac
  _describe 'headrace' offers
}
if [[ \${funcstack[1]} = _headrace ]]; then _headrace "$@"; else compdef _headrace headrace; fi
`;
}

function fish(levels: readonly Level[]): string {
  const text = (value: string): string => `'${value.replaceAll(/[\\']/g, String.raw`\$&`)}'`;
  const paths = levels.map(({ path }) => text(path)).slice(1);
  const lines = levels.flatMap(({ options, path, words }) => {
    const start = `complete -c headrace -n ${text(`__headrace_at ${text(path)}`)}`;
    return [
      ...words.map(({ name, summary }) => `${start} -f -a ${text(name)} -d ${text(summary)}`),
      ...options.map(({ names, summary, value }) => {
        const spelled = names.map((name) => (name.startsWith('--') ? `-l ${name.slice(2)}` : `-s ${name.slice(1)}`));
        const takes = value === null ? '' : value === 'file' ? ' -r -F' : ' -x';
        const values = Array.isArray(value) ? ` -a ${text(value.join(' '))}` : '';
        return `${start} ${spelled.join(' ')}${takes}${values} -d ${text(summary)}`;
      }),
    ];
  });
  return `# Completion of headrace for fish.
function __headrace_at --description 'Whether the command before the cursor is this one'
  set -l path
  for word in (commandline -opc)[2..-1]
    set -l next (string join -- ' ' $path $word)
    contains -- "$next" ${paths.join(' ')}
    and set path "$next"
  end
  test "$path" = "$argv[1]"
end
complete -c headrace -f
${lines.join('\n')}
`;
}
