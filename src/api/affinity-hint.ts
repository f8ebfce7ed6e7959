// What a request says about the CRN that it should go to: its prompt, its session, and the response that it continues.

import type { Settings } from '../config/settings.ts';
import {
  type Dialect,
  previousResponseId,
  promptBlocks,
  type PromptBlocks,
  type ScannedBody,
} from '../dialect/index.ts';
import type { Exchange } from '../ingress/exchange.ts';
import { hashText } from '../routing/index.ts';

/**
 * What the chain of a prompt's blocks begins with, before the prompt itself: the model, and the account where accounts share nothing.
 * A uint32 that is the same on every gateway.
 * @param account '' for clients without one, who share their prompts
 */
export function promptSeed(isolate: Settings['routing']['isolate'], model: string, account: string): number {
  return hashText(isolate === 'account' && account !== '' ? `${account} ${model}` : model);
}

/** The prompt of a request for a model. Scratch memory: valid until the next prompt is read. */
export function promptOf(
  { routing }: Settings,
  model: string,
  account: string,
  body: Buffer,
  scan: ScannedBody,
  dialect: Dialect | undefined,
): PromptBlocks {
  return promptBlocks(body, scan, dialect, promptSeed(routing.isolate, model, account));
}

/** Hash of the session that a header or the body names; 0 without one. */
export function sessionOf(exchange: Pick<Exchange, 'session'>, scan: ScannedBody): number {
  const session = exchange.session ?? scan.session;
  return session === undefined ? 0 : hashText(session) || 1;
}

/** How a response is named among those that CRNs have: only its own account finds it. */
export function heldName(id: string, account: string): string {
  return account === '' ? id : `${id} ${account}`;
}

/** Id of the response that a request continues. */
export function continuedResponse(dialect: Dialect | undefined, body: Buffer, scan: ScannedBody): string | undefined {
  return dialect?.name === 'responses' ? previousResponseId(body, scan) : undefined;
}
