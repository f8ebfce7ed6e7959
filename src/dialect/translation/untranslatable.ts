// The error of a request that cannot be carried: it names the value because of which.

import { HeadraceError } from '../../errors.ts';
import { nameId } from '../json-names.ts';
import type { JsonTape } from '../json-tape.ts';

const TYPE = nameId('type');

/** A longer type is cut in the error about it. */
const MOST_TYPE_CHARS = 64;

/** The error of a request that cannot be carried because of the value at `node`. */
export function untranslatable(tape: JsonTape, node: number, note: string): HeadraceError {
  const path = tape.path(node);
  return new HeadraceError('HR_REQUEST_UNTRANSLATABLE', {
    subject: `${path.join('.')}: ${note}`,
    validation: [{ loc: ['body', ...path], msg: note, type: 'untranslatable' }],
  });
}

/** The error of a request that cannot be carried because of the type of the object at `node`. */
export function untranslatableType(tape: JsonTape, node: number, note: string): HeadraceError {
  const type = tape.member(node, TYPE);
  if (type < 0) return untranslatable(tape, node, note);
  return untranslatable(tape, type, `${tape.string(type)?.slice(0, MOST_TYPE_CHARS) ?? ''}: ${note}`);
}
