// What views of requests share: phases and failures in words, links, and files of rows.

import type { VNode } from 'preact';
import type { LoggedRequest } from '../../telemetry/request-log.ts';
import { printCsv } from '../table-format.ts';
import { CopyButton } from './components/copy-button.tsx';
import { NONE } from './format.ts';
import { href } from './router.ts';

/** Phases of a request under way, in the words of the table. */
export const PHASES: Readonly<Record<string, string>> = {
  reading: 'reading the body',
  waiting: 'waiting for a CRN',
  connecting: 'connecting',
  sent: 'sent, no answer yet',
  begun: 'answer has begun',
  streaming: 'streaming',
  draining: 'client reads slowly',
  running: 'at work',
};

/** Why the first CRN was chosen. */
export const AFFINITIES: Readonly<Record<string, string>> = {
  response: 'it has the response that the request continues',
  cookie: 'the affinity cookie names it',
  cache: 'it holds the beginning of the prompt',
  prior: 'the same prompts go to it, where nothing is known',
  moved: 'the CRN of the affinity cookie was passed over',
  spilled: 'a CRN that holds more of the prompt was passed over',
  none: 'by load',
};

/** What came of a request, in a word or a code. */
export function Outcome({ request }: { readonly request: LoggedRequest }): VNode {
  const { aborted, code, status } = request;
  const isBad = status >= 500 || (code !== null && status < 400);
  return (
    <>
      <span class={isBad ? 'bad' : status >= 400 || aborted ? 'warn' : ''}>{status}</span>
      {(code !== null || aborted) && <small>{aborted ? 'client left' : <code>{code}</code>}</small>}
    </>
  );
}

/** Ids that the gateway makes. Their first digits tell rows apart. */
const UUID = /^[\da-f]{8}-[\da-f]{4}-[\da-f]{4}-[\da-f]{4}-[\da-f]{12}$/;

export interface RequestIdProps {
  readonly id: string;
  /** Address of the request. */
  readonly to?: string;
  /** Only the beginning of a UUID is shown. */
  readonly short?: boolean;
}

/** A request id with its button. */
export function RequestId({ id, short = false, to }: RequestIdProps): VNode {
  const code = <code title={id}>{short && UUID.test(id) ? `${id.slice(0, 8)}…` : id}</code>;
  return (
    <span class={short ? 'request-id' : ''}>
      {to === undefined ? code : <a href={to}>{code}</a>} <CopyButton text={id} what={`request id ${id}`} />
    </span>
  );
}

export interface CrnLinkProps {
  readonly crn: string | null;
  /** Without the scheme. */
  readonly short?: boolean;
}

export function CrnLink({ crn, short = false }: CrnLinkProps): VNode {
  if (crn === null) return <>{NONE}</>;
  return (
    <a href={href(`/crns/${encodeURIComponent(crn)}`)} title={crn}>
      {short ? crn.replace(/^https?:\/\//, '') : crn}
    </a>
  );
}

export function ModelLink({ alias, model }: { readonly model: string | null; readonly alias: string | null }): VNode {
  return (
    <>
      {model === null ? (
        alias === null ? (
          NONE
        ) : null
      ) : (
        <a href={href(`/models/${encodeURIComponent(model)}`)}>{model}</a>
      )}
      {alias !== null && <small>{model === null ? `unknown: ${alias}` : `as ${alias}`}</small>}
    </>
  );
}

/** Rows as CSV, with a header. */
export function csv(rows: readonly LoggedRequest[]): string {
  const names = Object.keys(rows[0] ?? {}) as (keyof LoggedRequest)[];
  const columns = names.map((name) => ({
    head: name,
    cell: ({ [name]: value }: LoggedRequest) =>
      typeof value === 'object' && value !== null ? JSON.stringify(value) : (value as string | number | boolean | null),
    ...{ isNumber: true, csvOnly: true },
  }));
  return printCsv(columns, rows);
}

/** Has the browser save a text as a file. */
export function download(name: string, type: string, text: string): void {
  const url = URL.createObjectURL(new Blob([text], { type }));
  const link = document.createElement('a');
  link.href = url;
  link.download = name;
  link.click();
  URL.revokeObjectURL(url);
}
