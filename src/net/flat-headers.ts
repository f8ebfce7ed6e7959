// Headers as flat lists: the name of each in lower case, then its value.

/** First value of a header. A value may be the name of another header. */
export function headerOf(headers: readonly string[], name: string): string | undefined {
  for (let i = 0; i < headers.length; i += 2) if (headers[i] === name) return headers[i + 1];
  return undefined;
}

/** The headers whose names are wanted. */
export function chosenHeaders(headers: readonly string[], isWanted: (name: string) => boolean): string[] {
  const chosen: string[] = [];
  for (let i = 0; i < headers.length; i += 2) {
    const name = headers[i] as string;
    if (isWanted(name)) chosen.push(name, headers[i + 1] as string);
  }
  return chosen;
}

/** The headers by name; the values of one that repeats as one list. */
export function headersByName(headers: readonly string[]): Record<string, string> {
  const byName: Record<string, string> = {};
  for (let i = 0; i < headers.length; i += 2) {
    const [name, value] = [headers[i] as string, headers[i + 1] as string];
    byName[name] = Object.hasOwn(byName, name) ? `${byName[name]}, ${value}` : value;
  }
  return byName;
}
