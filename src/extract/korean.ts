// EUC-KR as the Encoding Standard defines it, with the syllables that Windows (code page 949) has beside those of KS X 1001. The decoder of
// Node.js has KS X 1001 alone.

const FIRST_LEAD = 0x81;
const LAST_LEAD = 0xfe;
const FIRST_TRAIL = 0x41;
const LAST_TRAIL = 0xfe;
/** Lead and trail bytes of KS X 1001 begin here. */
const FIRST_OF_STANDARD = 0xa1;

/** Hangul syllables of Unicode: all that there can be in modern Korean, in the order of dictionaries. */
const FIRST_SYLLABLE = 0xac00;
const SYLLABLES = 11_172;

const REPLACEMENT = 0xfffd;
/** `String.fromCharCode` takes so many at once. */
const UNITS_AT_ONCE = 8192;

/** UTF-16 units by lead and trail byte; 0 where there is none. */
let table: Uint16Array | null = null;

function createTable(): Uint16Array {
  const units = new Uint16Array(0x1_00_00);
  const decoder = new TextDecoder('euc-kr');
  const standard = new Set<number>();
  for (let lead = FIRST_OF_STANDARD; lead <= LAST_LEAD; lead++) {
    for (let trail = FIRST_OF_STANDARD; trail <= LAST_TRAIL; trail++) {
      const unit = decoder.decode(Uint8Array.of(lead, trail)).charCodeAt(0);
      // The decoder has private characters for rows that the standard leaves to users.
      if (unit === REPLACEMENT || isPrivate(unit)) continue;
      units[256 * lead + trail] = unit;
      standard.add(unit);
    }
  }
  // Characters that were added to KS X 1001 in 1998.
  units[0xa2_e6] = 0x20ac;
  units[0xa2_e7] = 0xae;
  // Windows has put the other syllables, in their order, where no bytes of the standard are.
  const others = Array.from({ length: SYLLABLES }, (_, at) => FIRST_SYLLABLE + at).filter(
    (unit) => !standard.has(unit),
  );
  let next = 0;
  for (let lead = FIRST_LEAD; next < others.length; lead++)
    for (let trail = FIRST_TRAIL; trail <= LAST_TRAIL; trail++)
      if (isFree(lead, trail) && next < others.length) units[256 * lead + trail] = others[next++] as number;
  return units;
}

function isPrivate(unit: number): boolean {
  return unit >= 0xe000 && unit <= 0xf8ff;
}

function isFree(lead: number, trail: number): boolean {
  const isTrail = trail <= 0x5a || (trail >= 0x61 && trail <= 0x7a) || trail >= 0x81;
  return isTrail && (lead < FIRST_OF_STANDARD || trail < FIRST_OF_STANDARD);
}

/** The text of `bytes`; invalid ones become U+FFFD as by the Encoding Standard, section 11.2.1. */
export function decodeKorean(bytes: Uint8Array): string {
  table ??= createTable();
  const units = new Uint16Array(bytes.length);
  let length = 0;
  for (let at = 0; at < bytes.length; at++) {
    const lead = bytes[at] as number;
    const trail = bytes[at + 1] ?? 0;
    const unit = lead < 0x80 ? lead : table[256 * lead + trail] || REPLACEMENT;
    units[length++] = unit;
    const isLead = lead >= FIRST_LEAD && lead <= LAST_LEAD;
    if (isLead && (unit !== REPLACEMENT || trail >= 0x80)) at++;
  }
  let text = '';
  for (let from = 0; from < length; from += UNITS_AT_ONCE)
    text += String.fromCharCode(...units.subarray(from, Math.min(from + UNITS_AT_ONCE, length)));
  return text;
}
