// Texts in percent-encoding (RFC 3986, section 2.1).

/** The text that is encoded; the text as it is where its escapes are malformed or not UTF-8. */
export function percentDecoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
