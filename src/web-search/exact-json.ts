// JSON that is read and written again without loss: ids of tools have more digits than a double holds.

/** Text that may have such a number. */
const LONG = /\d{16}|\de\+?\d{3}/i;

type Revive = (key: string, value: unknown, context: { readonly source?: string }) => unknown;

/** From "JSON.parse source text access" (ECMAScript 2026), which the types do not have yet. */
const json = JSON as unknown as {
  readonly parse: (text: string, revive?: Revive) => unknown;
  readonly rawJSON: (text: string) => object;
};

/**
 * Parses valid JSON. A number of 16 digits or more, or beyond the largest double, becomes an object that `JSON.stringify` writes as it was
 * written.
 */
export function exactlyParsed(text: string): unknown {
  if (!LONG.test(text)) return json.parse(text);
  return json.parse(text, (_, value, { source = '' }) =>
    typeof value === 'number' && LONG.test(source) ? json.rawJSON(source) : value,
  );
}
