// Prometheus and promtool of this machine (Debian: apt-get install prometheus), for tests of what they make of our metrics.

import { spawn, spawnSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Test } from 'tap';
import { freePort } from './free-port.ts';
import { until } from './system.ts';
import { temporaryFolder } from './temporary-folder.ts';

export interface ToolResult {
  readonly status: number | null;
  readonly output: string;
}

/** Runs promtool; throws where it is not installed. */
export function promtool(args: readonly string[], input = ''): ToolResult {
  const { error, status, stderr, stdout } = spawnSync('promtool', args, { input, encoding: 'utf8', timeout: 30_000 });
  if (error !== undefined) throw new Error('promtool does not run: install the package prometheus', { cause: error });
  return { status, output: stdout + stderr };
}

interface Sample {
  readonly metric: Readonly<Record<string, string>>;
  readonly value: readonly [seconds: number, value: string];
}

export interface Prometheus {
  /** An instant query. */
  readonly query: (expression: string) => Promise<readonly Sample[]>;
}

/** Starts a server that scrapes `target` (host:port) every second. */
export async function startPrometheus(t: Test, target: string, features: readonly string[]): Promise<Prometheus> {
  const folder = temporaryFolder(t);
  const config = join(folder, 'prometheus.yml');
  writeFileSync(
    config,
    JSON.stringify({
      global: { scrape_interval: '1s', scrape_timeout: '1s' },
      scrape_configs: [{ job_name: 'headrace', static_configs: [{ targets: [target] }] }],
    }),
  );
  const port = await freePort();
  const server = spawn(
    'prometheus',
    [
      `--config.file=${config}`,
      `--storage.tsdb.path=${join(folder, 'data')}`,
      `--web.listen-address=127.0.0.1:${port}`,
      ...features.map((feature) => `--enable-feature=${feature}`),
    ],
    { stdio: 'ignore' },
  );
  const ended = new Promise<void>((resolve) => {
    server.on('exit', () => resolve());
    server.on('error', () => resolve());
  });
  t.teardown(async () => {
    server.kill('SIGKILL');
    await ended;
  });
  const url = `http://127.0.0.1:${port}`;
  await until('a Prometheus', async () => {
    if (server.exitCode !== null || server.pid === undefined) throw new Error('prometheus does not run: install it');
    return fetch(`${url}/-/ready`).then(
      ({ ok }) => ok,
      () => false,
    );
  });
  return {
    query: async (expression) => {
      const answer = await fetch(`${url}/api/v1/query?query=${encodeURIComponent(expression)}`);
      const { data, error } = (await answer.json()) as { data?: { result: readonly Sample[] }; error?: string };
      if (data === undefined) throw new Error(error);
      return data.result;
    },
  };
}
