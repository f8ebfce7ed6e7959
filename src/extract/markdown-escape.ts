// Keeps text from being read as marks. Used by the Markdown writer and its parts.

/** Text within a line. Underscores inside of words mean nothing and stay. */
export function escaped(text: string): string {
  if (!/[\\`*_[\]<&|~]/.test(text)) return text;
  return text
    .replaceAll(/[\\`*[\]]|<(?=[a-z/!?])|&(?=#?\w{1,31};)|~(?=~)/gi, '\\$&')
    .replaceAll(/(?<![\p{L}\p{N}])_|_(?![\p{L}\p{N}])/gu, '\\_');
}

/** Text, escaped already, that begins a line. */
export function escapedStart(text: string): string {
  if (/^(?:#{1,6}|[-+])(?:\s|$)|^>|^(?:-{3,}|={3,})$/.test(text)) return `\\${text}`;
  return text.replace(/^(\d{1,9})([.)])(?=\s|$)/, '$1\\$2');
}
