// Countries and languages by their English names, as some products have them, beside their ISO codes.

/** Names in use that CLDR does not have. */
const OTHER_COUNTRIES: ReadonlyMap<string, string> = new Map([
  ['usa', 'US'],
  ['united states of america', 'US'],
  ['great britain', 'GB'],
  ['czech republic', 'CZ'],
  ['turkey', 'TR'],
  ['ivory coast', 'CI'],
  ['cape verde', 'CV'],
  ['swaziland', 'SZ'],
  ['macedonia', 'MK'],
  ['hong kong', 'HK'],
  ['macau', 'MO'],
  ['macao', 'MO'],
  ['palestine', 'PS'],
  ['burma', 'MM'],
  ['congo', 'CG'],
  ['holland', 'NL'],
]);

let countries: ReadonlyMap<string, string> | null = null;
let languages: ReadonlyMap<string, string> | null = null;

/** Longer texts are no name, and would be slow to compare. */
const MOST_CHARACTERS = 100;

/** ISO 3166-1 code of a country; undefined for an unknown name. Codes are not checked. */
export function countryOf(name: string): string | undefined {
  if (/^[a-z]{2}$/i.test(name.trim())) return name.trim().toUpperCase();
  if (name.length > MOST_CHARACTERS) return undefined;
  countries ??= namesOf('region');
  const plain = plainName(name);
  return OTHER_COUNTRIES.get(plain) ?? countries.get(plain);
}

/** ISO 639-1 code of a language; undefined for an unknown name. Codes are not checked. */
export function languageOf(name: string): string | undefined {
  if (/^[a-z]{2}$/i.test(name.trim())) return name.trim().toLowerCase();
  if (name.length > MOST_CHARACTERS) return undefined;
  languages ??= namesOf('language');
  return languages.get(plainName(name));
}

/** A language tag, such as `en`, `en-US` or `zh-Hans-CN`; without members where it has no such parts. */
export function localeOf(tag: string): { readonly language?: string; readonly country?: string } {
  const match = /^([a-z]{2})(?:[-_][a-z]{4})?(?:[-_]([a-z]{2}))?$/i.exec(tag.trim());
  if (match === null) return {};
  const [, language = '', country] = match;
  return { language: language.toLowerCase(), ...(country !== undefined && { country: country.toUpperCase() }) };
}

function namesOf(type: 'region' | 'language'): ReadonlyMap<string, string> {
  const names = new Intl.DisplayNames(['en'], { type, fallback: 'none' });
  const letters = 'abcdefghijklmnopqrstuvwxyz';
  const found = new Map<string, string>();
  for (const first of letters) {
    for (const second of letters) {
      const code = type === 'region' ? (first + second).toUpperCase() : first + second;
      const tag = type === 'region' ? `und-${code}` : code;
      const name = names.of(code);
      // Codes that were given up have the names of those in their place.
      if (name !== undefined && Intl.getCanonicalLocales(tag)[0] === tag) found.set(plainName(name), code);
    }
  }
  return found;
}

/** Lower case, without accents, brackets and abbreviations. */
function plainName(name: string): string {
  return name
    .normalize('NFD')
    .replace(/\p{M}/gu, '')
    .replace(/ *\([^)]*\)/g, '')
    .replace(/&/g, 'and')
    .replace(/\bSt\./gi, 'saint')
    .replace(/[’']/g, '')
    .trim()
    .toLowerCase();
}
