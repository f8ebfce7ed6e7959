// Tells prose from labels, settings and addresses among the strings of a page's data.

/** Shorter strings are labels and settings. */
const MIN_PROSE_CHARACTERS = 80;

const INSPECTED_CHARACTERS = 400;

/** Whether a string is text in sentences, plain or as HTML. Scripts without spaces count. */
export function isProse(text: string): boolean {
  if (text.length < MIN_PROSE_CHARACTERS) return false;
  const start = text.slice(0, INSPECTED_CHARACTERS);
  const spaces = start.split(/\s/).length - 1;
  return (
    !/^(?:https?:|data:|[{[.#@]|function\b|var\b|\(function|import\b)/.test(start) &&
    (spaces * 12 >= start.length || /[\u3040-\u9fff\uac00-\ud7af]{8}/.test(start))
  );
}
