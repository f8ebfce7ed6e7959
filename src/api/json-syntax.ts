// Finds the position of a syntax error in JSON text, for the 422 entry of a broken body. Positions are those of Python's `json`
// module, in code points. Nesting is kept in a list, so that no input can exhaust the stack.

const SCALAR = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null/y;
const FOUR_HEX_DIGITS = /[\da-fA-F]{4}/y;

/** Offset of the first mistake in `text`, in code points; the length of the text when it has none. */
export function jsonMistakeOffset(text: string): number {
  const at = firstMistake(text);
  let offset = at;
  for (let i = 0; i < at; i++) {
    if ((text.codePointAt(i) as number) > 0xffff) {
      offset--;
      i++;
    }
  }
  return offset;
}

/** The same place in UTF-16 units. One turn of the loop reads one value, after its key when it stands in an object. */
function firstMistake(text: string): number {
  const open: ('}' | ']')[] = [];
  let at = skipSpace(text, 0);
  for (;;) {
    if (open.at(-1) === '}') {
      if (text[at] !== '"') return at;
      const key = readString(text, at);
      if (key.mistake) return key.at;
      at = skipSpace(text, key.at);
      if (text[at] !== ':') return at;
      at = skipSpace(text, at + 1);
    }
    if (text[at] === '{' || text[at] === '[') {
      const close = text[at] === '{' ? '}' : ']';
      open.push(close);
      at = skipSpace(text, at + 1);
      if (text[at] !== close) continue;
    } else {
      const value = text[at] === '"' ? readString(text, at) : readScalar(text, at);
      if (value.mistake) return value.at;
      at = skipSpace(text, value.at);
    }
    while (open.length > 0 && text[at] === open.at(-1)) {
      open.pop();
      at = skipSpace(text, at + 1);
    }
    if (open.length === 0 || text[at] !== ',') return at;
    at = skipSpace(text, at + 1);
  }
}

/** The place after a token, or the place of the mistake inside it. */
interface Token {
  readonly at: number;
  readonly mistake: boolean;
}

function readScalar(text: string, start: number): Token {
  SCALAR.lastIndex = start;
  return SCALAR.test(text) ? { at: SCALAR.lastIndex, mistake: false } : { at: start, mistake: true };
}

function readString(text: string, start: number): Token {
  for (let i = start + 1; i < text.length; i++) {
    const char = text[i] as string;
    if (char === '"') return { at: i + 1, mistake: false };
    if (char < ' ') return { at: i, mistake: true };
    if (char !== '\\' || i + 1 === text.length) continue;
    if (!'"\\/bfnrtu'.includes(text[i + 1] as string)) return { at: i, mistake: true };
    i++;
    FOUR_HEX_DIGITS.lastIndex = i + 1;
    if (text[i] === 'u' && !FOUR_HEX_DIGITS.test(text)) return { at: i, mistake: true };
  }
  return { at: start, mistake: true };
}

function skipSpace(text: string, start: number): number {
  let at = start;
  while (text[at] === ' ' || text[at] === '\n' || text[at] === '\r' || text[at] === '\t') at++;
  return at;
}
