// An `AdminService` that records every act in the log of acts: before it is carried out with the state of its subject, and
// afterwards with how it ended. An act that cannot be recorded is not carried out. One whose end cannot be recorded has been: its answer,
// which may be a new key, is not lost, and the log has no outcome of it.

import type { AdminActor, Ledger } from '../billing/index.ts';
import { LedgerError } from '../billing/main-thread.ts';
import { HeadraceError, messageOf } from '../errors.ts';
import type { Log } from '../telemetry/log.ts';
import type { Fields } from './admin-requests.ts';
import type { AdminService, StoreService } from './admin-service.ts';
import { type Act, type Call, callOf, serviceOf } from './operations.ts';

type Acts = Pick<Ledger['adminActs'], 'begin' | 'end'>;

/** Where acts are recorded. */
export interface ActRecord {
  readonly acts: Acts;
  /** The end of an act could not be recorded. */
  readonly onLost: (error: unknown) => void;
}

/** The record of a listener that has a log. */
export function actRecord(acts: Acts, log: Pick<Log, 'error'>): ActRecord {
  return {
    acts,
    onLost: (error) => log.error({ err: error }, 'an act was carried out, and its end could not be recorded'),
  };
}

/** Records the acts of an actor. */
export function recordedService(service: StoreService, record: ActRecord, actor: AdminActor): AdminService {
  return serviceOf((name, { act }) => {
    const call = callOf(service, name);
    return act === null ? call : (...args) => carryOut(service, record, actor, act, call, args);
  });
}

async function carryOut(
  service: StoreService,
  record: ActRecord,
  actor: AdminActor,
  { action, before, makesKey, subjectField }: Act,
  call: Call,
  args: readonly unknown[],
): Promise<object> {
  const fields = args.find((arg): arg is Fields => typeof arg === 'object') ?? {};
  const named = subjectField === undefined ? args[0] : fields[subjectField];
  // An act that will be refused for its subject is recorded too, and no text of PostgreSQL holds NUL.
  const subject = typeof named === 'string' && !named.includes('\0') ? named : '';
  const state = await stateBefore(service, before, subject, fields).catch(() => null);
  const begun = { actor, action, subject, request: fields, before: state };
  return await recordAct(record, begun, () => call(...args), undefined, makesKey === true ? withoutKey : undefined);
}

/** Null where nothing is recorded. Rejects where the subject does not exist; an act is refused for it then, or makes it. */
async function stateBefore(
  service: StoreService,
  before: Act['before'],
  subject: string,
  fields: Fields,
): Promise<object | null> {
  if (before === 'budgetBefore') return await service.budgetBefore(fields);
  return before === undefined || subject === '' ? null : await service[before](subject);
}

function withoutKey({ key: _secret, ...rest }: Readonly<Record<string, unknown>>): object {
  return rest;
}

/**
 * Carries an act out between the record of its beginning and that of its end. `refusalOf`: why a result says that nothing was done.
 * `shown`: what the log has of a result.
 */
export async function recordAct<Result extends object>(
  { acts, onLost }: ActRecord,
  act: Parameters<Acts['begin']>[0],
  carryOut: () => Promise<Result>,
  refusalOf: (result: Result) => string | null = () => null,
  shown: (result: Readonly<Record<string, unknown>>) => object = (result) => result,
): Promise<Result> {
  const id = await acts.begin({ ...act, request: bounded(act.request) });
  const end = (outcome: 'done' | 'refused', after: object): Promise<void> =>
    acts.end(id, outcome, after).catch((error: unknown) => onLost(error));
  let result: Result;
  try {
    result = await carryOut();
  } catch (error) {
    // A store that failed may have done it: nobody knows.
    if (isRefusal(error)) await end('refused', { reason: reasonOf(error) });
    throw error;
  }
  const refusal = refusalOf(result);
  await (refusal === null
    ? end('done', shown(result as Readonly<Record<string, unknown>>))
    : end('refused', { reason: refusal }));
  return result;
}

function isRefusal(error: unknown): boolean {
  return error instanceof HeadraceError || error instanceof LedgerError;
}

/** Most characters of what was asked for that are kept: a refused request may hold anything. */
const MAX_REQUEST = 4096;

function bounded(request: object): object {
  const text = JSON.stringify(request);
  return text.length <= MAX_REQUEST ? request : { cut: text.slice(0, MAX_REQUEST) };
}

function reasonOf(error: unknown): string {
  if (error instanceof HeadraceError && error.validation !== undefined)
    return error.validation.map(({ loc, msg }) => `${loc.join('.')} ${msg}`).join('; ');
  return messageOf(error);
}
