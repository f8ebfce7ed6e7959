// Decides from the last bytes of a stream whether it ended as its dialect demands. Called by the dialect files, once
// per stream. Patterns run over one char per byte; quotes inside JSON strings are escaped, so text that a model wrote
// can never look like a member name or like a line of its own.

/** An error that the CRN itself reported: the client has been told, nothing may follow. */
const REPORTED_ERROR = /^event:[ \t]*error[ \t]*$|^data:[ \t]*\{\s*(?:"type"\s*:\s*"error"|"error"\s*:\s*[{"])/m;

/** The tail begins where an event begins, so no event is cut. */
const STARTS_AT_FIELD = /^(?:event|data|id|retry)?:/;
const BLANK_LINE = /\n\r?\n|\r\r/;
const LINE_END = /[\r\n]$/;

/**
 * Whether `tail` shows the end that `complete` describes, or an error event.
 * @param complete pattern of a complete answer, tolerant of JSON white space
 */
export function showsEnd(tail: Buffer, complete: RegExp): boolean {
  const text = tail.toString('latin1');
  return complete.test(text) || REPORTED_ERROR.test(text);
}

/** Whether the first thing that a stream says is an error: comments before it say nothing. */
export function beginsInError(first: Buffer): boolean {
  const text = first.toString('latin1');
  const at = text.search(REPORTED_ERROR);
  return at >= 0 && !/^data:/m.test(text.slice(0, at));
}

/**
 * Whether the last event is longer than `tail`, so that what it is cannot be seen. Where every other event is small,
 * only the closing one, which repeats the prompt or the whole answer, gets that long.
 */
export function endsInLongEvent(tail: Buffer): boolean {
  const text = tail.toString('latin1');
  return LINE_END.test(text) && !STARTS_AT_FIELD.test(text) && !BLANK_LINE.test(text.trimEnd());
}
