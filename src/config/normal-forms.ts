// Texts of known forms in their normal form: host names, and codes of countries and languages.

/** A host name or address as in URLs, in lower case and ASCII; undefined for any other text, such as one with a port. */
export function hostNameOf(text: string): string | undefined {
  if (text.length > 253 || /[\s/?#@\\%:]/.test(text)) return undefined;
  const hostname = URL.parse(`http://${text}/`)?.hostname.replace(/\.$/, '');
  return hostname !== undefined && /^[a-z\d_-]+(?:\.[a-z\d_-]+)*$/.test(hostname) ? hostname : undefined;
}

const LANGUAGES = new Intl.DisplayNames(['en'], { type: 'language', fallback: 'none' });
const COUNTRIES = new Intl.DisplayNames(['en'], { type: 'region', fallback: 'none' });

/** Codes that name no country: unions of countries, outlying islands, and what tests and unknown places use. */
const NO_COUNTRIES: ReadonlySet<string> = new Set(['EU', 'EZ', 'UN', 'QO', 'XA', 'XB', 'ZZ']);

/** A country of ISO 3166-1 in upper case, also by `UK` and codes that were withdrawn; undefined for any other text. */
export function countryCodeOf(text: string): string | undefined {
  if (!/^[a-z]{2}$/i.test(text) || COUNTRIES.of(text.toUpperCase()) === undefined) return undefined;
  const [, code = ''] = canonical(`und-${text}`).split('-');
  return NO_COUNTRIES.has(code) ? undefined : code;
}

/** A language of ISO 639-1 in lower case, also by codes that were withdrawn, such as `iw`; undefined for any other text. */
export function languageCodeOf(text: string): string | undefined {
  if (!/^[a-z]{2}$/i.test(text) || LANGUAGES.of(text) === undefined) return undefined;
  const [code = ''] = canonical(text).split('-');
  // `tl` becomes `fil`, which ISO 639-1 does not have.
  return code.length === 2 ? code : text.toLowerCase();
}

function canonical(tag: string): string {
  return Intl.getCanonicalLocales(tag)[0] ?? tag;
}
