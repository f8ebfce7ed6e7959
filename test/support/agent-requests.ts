// Requests of coding agents as they were recorded (test/fixtures/agents), with neutral text in place of prose. A member that the file
// names under `same` is taken from the last request to the path that has it.

import { readFileSync } from 'node:fs';

export type Agent = 'claude-code' | 'codex' | 'opencode' | 'aider';

export interface RecordedRequest {
  readonly method: string;
  /** With its query. */
  readonly path: string;
  /** Without those of the connection and the credentials. */
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: Readonly<Record<string, unknown>>;
}

const FOLDER = new URL('../../../test/fixtures/agents/', import.meta.url);

/** The requests of one session in order. */
export function recordedRequests(agent: Agent): RecordedRequest[] {
  const { requests } = JSON.parse(readFileSync(new URL(`${agent}.json`, FOLDER), 'utf8')) as {
    requests: readonly (RecordedRequest & { readonly same?: readonly string[] })[];
  };
  const headersOf = new Map<string, RecordedRequest['headers']>();
  const members = new Map<string, Record<string, unknown>>();
  return requests.map(({ method, path, headers, body, same = [] }) => {
    const first = headersOf.get(path) ?? headers;
    headersOf.set(path, first);
    if (body === undefined) return { method, path, headers };
    const known = members.get(path) ?? {};
    const whole = { ...body, ...Object.fromEntries(same.map((name) => [name, known[name]])) };
    members.set(path, { ...known, ...body });
    return { method, path, headers: { ...first, ...headers }, body: whole };
  });
}
