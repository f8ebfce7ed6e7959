// Command-line flags of the benchmarks: one table of flags gives the parser and the help text. A flag is spelled `--like-this`
// on the command line and `likeThis` in the tables. Several parts are parsed at once: each takes the given value or its
// own default.

import { parseArgs } from 'node:util';

/** Flags that every load benchmark has. */
export const COMMON = {
  rounds: { type: 'number', default: 5, least: 1, help: 'rounds; every peer runs once per round' },
  seconds: { type: 'number', default: 1.2, help: 'measured seconds per run, after the warm-up' },
  warmUp: { type: 'number', default: 0.5, help: 'seconds that each run goes before it counts' },
  threads: { type: 'number', default: 1, help: 'ingress threads of the gateway' },
  nodeFlags: { type: 'words', default: [], help: 'flags of Node.js for the gateway, as --node-flags=--trace-gc' },
  profile: {
    type: 'boolean',
    default: false,
    help: 'run the gateway under the CPU profiler; its figures do not count',
  },
};

/**
 * Reads `argv` against the flags of all `tables` (`{ PART: TABLE }`). Answers `{ values: { PART: { FLAG: VALUE } },
 * positionals }`. With `quick`, a flag that was not given takes its `quick` value where its row has one. A flag that
 * may be given more than once has `multiple` and is a list. `least` is the least number that a flag takes.
 */
export function parseFlags(tables, argv, quick = false) {
  const options = { help: { type: 'boolean' } };
  for (const table of Object.values(tables)) {
    for (const [flag, row] of Object.entries(table)) {
      options[flagName(flag)] = {
        type: row.type === 'boolean' ? 'boolean' : 'string',
        multiple: row.multiple ?? false,
      };
    }
  }
  const { values, positionals } = parseArgs({ args: argv, options, strict: true, allowPositionals: true });
  const read = (table) =>
    Object.fromEntries(
      Object.entries(table).map(([flag, row]) => {
        const given = values[flagName(flag)];
        if (given !== undefined) return [flag, valueOf(flag, row, given)];
        return [flag, quick && 'quick' in row ? row.quick : row.default];
      }),
    );
  const parts = Object.entries(tables).map(([part, table]) => [part, read(table)]);
  return { values: Object.fromEntries(parts), positionals, help: values.help === true };
}

/** Reads `argv` by `table`; prints the help and exits when asked to or when a flag is wrong. */
export function readFlags(name, sentence, table, argv = process.argv.slice(2)) {
  return readCommand(`node bench/load/${name}.mjs [flags]`, sentence, table, argv).values;
}

/** As `readFlags`, for a program of any name; answers `{ values, positionals }`. */
export function readCommand(usage, sentence, table, argv = process.argv.slice(2)) {
  const text = `${usage}\n\n${sentence}\n\n${flagLines(table)}\n`;
  try {
    const { values, positionals, help } = parseFlags({ own: table }, argv);
    if (!help) return { values: values.own, positionals };
    process.stdout.write(text);
  } catch (error) {
    process.stderr.write(`${error.message}\n${text}`);
    process.exit(1);
  }
  return process.exit(0);
}

/** One line of help for each flag. */
export function flagLines(table) {
  const rows = Object.entries(table).map(([flag, { type, default: value, help }]) => {
    const given = Array.isArray(value) ? value.join(',') : value;
    const name = `--${flagName(flag)}`;
    return `  ${name.padEnd(22)}${help}${type === 'boolean' || (given ?? '') === '' ? '' : ` (${given})`}`;
  });
  return rows.join('\n');
}

/** `--base-url litellm=http://127.0.0.1:4000/v1` as `{ name, url }`. */
export function readBaseUrl(text) {
  const at = text.indexOf('=');
  const name = text.slice(0, at);
  if (at < 1 || !/^[a-z0-9][a-z0-9-]*$/i.test(name)) throw new Error(`--base-url takes NAME=URL, not "${text}"`);
  const url = URL.canParse(text.slice(at + 1)) ? new URL(text.slice(at + 1)) : null;
  if (url?.protocol !== 'http:') throw new Error(`--base-url ${name}: an http:// address is wanted`);
  const path = url.pathname.replace(/\/+$/, '');
  return { name, host: url.hostname, port: Number(url.port || 80), path };
}

function flagName(flag) {
  return flag.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
}

function valueOf(flag, { type, multiple, least = 0 }, given) {
  if (type === 'boolean' || multiple || type === 'word') return given;
  const words = given.split(',').filter((word) => word !== '');
  if (type === 'words') return [...new Set(words)];
  const numbers = words.map(Number);
  if (numbers.length === 0 || numbers.some((number) => !(number >= least))) {
    const wanted = `${type === 'number' ? 'a number' : 'numbers'}${least > 0 ? ` of ${least} or more` : ''}`;
    throw new Error(`--${flagName(flag)} takes ${wanted}, not "${given}"`);
  }
  return type === 'numbers' ? numbers : numbers[0];
}
