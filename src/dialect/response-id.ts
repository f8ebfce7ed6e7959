// Ids of the responses dialect: of the response that a request continues, and of the one that an answer brings.

import { type ScannedBody, SPAN } from './body-scan.ts';
import { readString, scanMembers, skipSpace } from './json-scan.ts';
import { found, memberTable } from './member-table.ts';

const LF = 0x0a;
const CR = 0x0d;
const QUOTE = 0x22;
const OPEN_OBJECT = 0x7b;
/** Longer ids are nobody's. */
const MAX_ID_BYTES = 256;
const MAX_DEPTH = 256;
const DATA = Buffer.from('data:');

/** A response has an id; the first event of a stream has it in `response`. */
const ANSWER = memberTable(['id', 'response']);

/** `previous_response_id` of a request; undefined when it has none. */
export function previousResponseId(body: Buffer, { spans }: ScannedBody): string | undefined {
  return idAt(body, spans[SPAN.previous_response_id] as number, spans[SPAN.previous_response_id + 1] as number);
}

/** The id of the response that begins with `piece`: JSON, or the first events of a stream. Undefined when it is not there. */
export function responseIdOf(piece: Buffer, isStream: boolean): string | undefined {
  const start = isStream ? dataIn(piece) : 0;
  return start < 0 ? undefined : idIn(piece, skipSpace(piece, start, piece.length));
}

/** Behind the name of the first line of data; -1 when there is none. */
function dataIn(events: Buffer): number {
  let at = events.indexOf(DATA);
  while (at > 0 && events[at - 1] !== LF && events[at - 1] !== CR) at = events.indexOf(DATA, at + DATA.length);
  return at < 0 ? -1 : at + DATA.length;
}

function idIn(bytes: Buffer, start: number): string | undefined {
  if (bytes[start] !== OPEN_OBJECT) return undefined;
  const scan = found(ANSWER);
  const { spans } = scan;
  // Members before the place where the piece ends are found all the same.
  scanMembers(bytes, start, bytes.length, ANSWER, scan, MAX_DEPTH);
  const [idStart = -1, idEnd = -1, responseStart = -1] = spans;
  return responseStart >= 0 ? idIn(bytes, responseStart) : idAt(bytes, idStart, idEnd);
}

function idAt(bytes: Buffer, start: number, end: number): string | undefined {
  if (start < 0 || bytes[start] !== QUOTE || end - start > MAX_ID_BYTES) return undefined;
  return readString(bytes, start, end) || undefined;
}
