// The command line of a load benchmark: one table of flags gives the parser and the help text.

import { parseArgs } from 'node:util';

/** Flags that every load benchmark has. */
export const COMMON = {
  rounds: { type: 'number', default: 5, help: 'rounds; every peer runs once per round' },
  seconds: { type: 'number', default: 6, help: 'measured seconds per run, after the warm-up' },
  peers: { type: 'words', default: ['nginx', 'headrace', 'direct'], help: 'peers to run, in order' },
  threads: { type: 'number', default: 1, help: 'ingress threads of the gateway' },
  nodeFlags: {
    type: 'words',
    default: [],
    help: 'flags of Node.js for the gateway, as --nodeFlags=--max-semi-space-size=32',
  },
  profile: {
    type: 'boolean',
    default: false,
    help: 'run the gateway under the CPU profiler and list where its time goes',
  },
};

/** Reads `argv` by `table`; prints the help and exits when asked to or when a flag is wrong. */
export function readFlags(name, sentence, table, argv = process.argv.slice(2)) {
  const options = { help: { type: 'boolean' } };
  for (const [flag, { type }] of Object.entries(table)) options[flag] = { type: type === 'boolean' ? type : 'string' };
  try {
    const { values } = parseArgs({ args: argv, options, strict: true });
    if (values.help) exitWithHelp(name, sentence, table, 0);
    return Object.fromEntries(
      Object.entries(table).map(([flag, row]) => [
        flag,
        flag in values ? valueOf(flag, row, values[flag]) : row.default,
      ]),
    );
  } catch (error) {
    process.stderr.write(`${error.message}\n`);
    return exitWithHelp(name, sentence, table, 1);
  }
}

function valueOf(flag, { type }, text) {
  if (type === 'boolean') return text;
  const words = text.split(',').filter((word) => word !== '');
  if (type === 'word') return text;
  if (type === 'words') return words;
  const numbers = words.map(Number);
  if (numbers.length === 0 || numbers.some((number) => !(number >= 0))) throw new Error(`--${flag} takes numbers`);
  return type === 'numbers' ? numbers : numbers[0];
}

function exitWithHelp(name, sentence, table, code) {
  const rows = Object.entries(table).map(([flag, { type, default: value, help }]) => {
    const given = Array.isArray(value) ? value.join(',') : value;
    return `  --${flag.padEnd(14)}${help}${type === 'boolean' || given === '' ? '' : ` (${given})`}`;
  });
  const text = `node bench/load/${name}.mjs [flags]\n\n${sentence}\n\n${rows.join('\n')}\n`;
  (code === 0 ? process.stdout : process.stderr).write(text);
  process.exit(code);
}
