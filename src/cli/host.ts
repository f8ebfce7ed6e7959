// `headrace host`: a simulated model host on the command line.

import { environment } from '../config/env.ts';
import { loadConfigFile } from '../config/load.ts';
import { createHost } from '../host/index.ts';
import { takeFlags, UsageError } from './args.ts';
import { closeOnSignal } from './shutdown.ts';

const FLAGS = ['model', 'port', 'listen', 'engine', 'name', 'ttft', 'itl', 'tokens', 'config', 'control'] as const;

function number(name: string, text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  const value = Number(text);
  if (!Number.isFinite(value) || value < 0) throw new UsageError(`--${name} takes a number of 0 or more, not ${text}`);
  return value;
}

/** Keys a host asks for; undefined when it asks for none. */
async function keysOf(file: string | undefined): Promise<string[] | undefined> {
  if (file === undefined) return undefined;
  const resolution = await loadConfigFile(file, environment());
  if ('mistakes' in resolution) {
    const [first] = resolution.mistakes;
    throw new UsageError(`${file} is wrong, first at ${first?.path}: ${first?.message}; see headrace check`);
  }
  const { required, static: keys } = resolution.settings.keys;
  return required ? keys.map(({ key }) => key) : undefined;
}

/** Runs until a signal comes. */
export async function host(flags: Readonly<Record<string, string>>): Promise<number | undefined> {
  const { own, rest } = takeFlags(flags, FLAGS);
  const [unknown] = Object.keys(rest);
  if (unknown !== undefined) throw new UsageError(`headrace host has no flag --${unknown}`);
  if (own.model === undefined) throw new UsageError('--model NAME is missing');
  if (own.engine !== undefined && own.engine !== 'simulated') {
    throw new UsageError(`this version has the engine "simulated" only, not ${own.engine}`);
  }
  const timeToFirstTokenMs = number('ttft', own.ttft);
  const interTokenMs = number('itl', own.itl);
  const maxTokens = number('tokens', own.tokens);
  const keys = await keysOf(own.config);
  const running = createHost({
    models: own.model.split(','),
    listen: own.listen ?? `127.0.0.1:${number('port', own.port) ?? 9001}`,
    control: own.control === 'true',
    ...(own.name === undefined ? {} : { name: own.name }),
    ...(timeToFirstTokenMs === undefined ? {} : { timeToFirstTokenMs }),
    ...(interTokenMs === undefined ? {} : { interTokenMs }),
    ...(maxTokens === undefined ? {} : { maxTokens }),
    ...(keys === undefined ? {} : { keys }),
  });
  process.stdout.write(`host of ${own.model} listening on ${await running.listen()}\n`);
  closeOnSignal({ close: () => running.close() });
  return undefined;
}
