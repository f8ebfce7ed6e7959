// Counts words exactly as `Intl.Segmenter` does, for any text. A scan handles characters whose rules (Unicode Standard Annex
// 29, section 4) are known here, since the segmenter is many times slower; it counts the rest.

const SEGMENTER = new Intl.Segmenter('en', { granularity: 'word' });

// Character classes.
const BREAK = 0;
const SPACE = 1;
const LETTER = 2;
const DIGIT = 3;
const UNDERSCORE = 4;
/** Joins two letters. */
const MID_LETTER = 5;
/** Joins two digits. */
const MID_NUMBER = 6;
/** Joins either. */
const MID_BOTH = 7;
/** Left to the segmenter. */
const UNKNOWN = 8;

const CLASSES: Uint8Array = buildClasses();

/** Known characters that are left to the segmenter rather than calling it again. */
const MAX_KNOWN_RUN = 32;

/** Words of `text` as `Intl.Segmenter` counts them (`isWordLike`). Linear; any text. */
export function countWords(text: string): number {
  const length = text.length;
  let words = 0;
  let at = 0;
  /** Where the segmenter would begin: the last white space, which no word spans. */
  let stretch = 0;
  let wordsBefore = 0;
  while (at < length) {
    const kind = CLASSES[text.charCodeAt(at)] as number;
    if (kind === SPACE) {
      stretch = at;
      wordsBefore = words;
      at++;
    } else if (kind === LETTER || kind === DIGIT || kind === UNDERSCORE) {
      const end = wordEnd(text, at);
      // A lone underscore is no word.
      if (kind !== UNDERSCORE || end > at + 1) words++;
      at = end;
    } else if (kind === UNKNOWN) {
      at = stretchEnd(text, at);
      words = wordsBefore + segmented(text.slice(stretch, at));
    } else {
      at++;
    }
  }
  return words;
}

/** Where the word that begins at `start` ends. */
function wordEnd(text: string, start: number): number {
  let at = start + 1;
  let last = CLASSES[text.charCodeAt(start)] as number;
  for (;;) {
    const kind = CLASSES[text.charCodeAt(at)] ?? BREAK;
    if (kind === LETTER || kind === DIGIT || kind === UNDERSCORE) {
      last = kind;
      at++;
    } else if (joins(kind, last) && CLASSES[text.charCodeAt(at + 1)] === last) {
      at += 2;
    } else {
      return at;
    }
  }
}

/** Whether a character of this kind joins two of the other kind. */
function joins(kind: number, sides: number): boolean {
  if (sides === LETTER) return kind === MID_LETTER || kind === MID_BOTH;
  return sides === DIGIT && (kind === MID_NUMBER || kind === MID_BOTH);
}

/** The end of the text for the segmenter: a space after a run of known characters, since calls are expensive. */
function stretchEnd(text: string, start: number): number {
  let unknown = start;
  for (let at = start + 1; at < text.length; at++) {
    const kind = CLASSES[text.charCodeAt(at)];
    if (kind === UNKNOWN) unknown = at;
    else if (kind === SPACE && at - unknown > MAX_KNOWN_RUN) return at;
  }
  return text.length;
}

function segmented(stretch: string): number {
  let words = 0;
  for (const { isWordLike } of SEGMENTER.segment(stretch)) if (isWordLike) words++;
  return words;
}

function buildClasses(): Uint8Array {
  const classes = new Uint8Array(0x10000).fill(UNKNOWN);
  const set = (kind: number, characters: string): void => {
    for (const character of characters) classes[character.charCodeAt(0)] = kind;
  };
  classes.fill(BREAK, 0, 0x80);
  set(SPACE, '\t\n\r ');
  set(DIGIT, '0123456789');
  set(UNDERSCORE, '_');
  set(MID_LETTER, ':');
  set(MID_NUMBER, ',;');
  set(MID_BOTH, ".'\u2018\u2019");
  for (let code = 0; code < 0x530; code++) {
    // European alphabets; combining marks stay unknown.
    if (/\p{L}/u.test(String.fromCharCode(code)) && code !== 0x37e) classes[code] = LETTER;
  }
  set(
    BREAK,
    '\u00a0¡¢£¤¥¦§¨©«¬®¯°±²³´¶¹»¼½¾¿×÷\u2010\u2013\u2014\u201c\u201d\u201e\u2020\u2021\u2022\u2026\u2030\u2039\u203a\u20ac\u2122\u2190\u2192',
  );
  return classes;
}
