// Text of a wanted length for synthetic prompts. A word stands for a token: common words are one in most vocabularies, so
// lengths are near, and what the server counted stands in the report. Used by the workloads.

const WORDS: readonly string[] =
  `the water river wheel mill gate stone grain bridge channel morning winter summer village miller long short high low
old new first second last open close turn hold carry wait stand fall rise keep give take find look work rest one two three
many few some all every no more less under over behind before after near far with without from into light dark cold warm
good great small large clear strong white black green red house road field hill tree wind rain snow sun day night year hour
hand head foot word name line side end part place time way world people child father mother friend king book letter`.split(
    /\s+/,
  );

/** So many words; the same numbers of `random` give the same text. */
export function words(count: number, random: () => number): string {
  let text = '';
  for (let at = 0; at < count; at++) text += `${at === 0 ? '' : ' '}${WORDS[Math.floor(random() * WORDS.length)]}`;
  return text;
}

/** The words a text would have if it were English prose: four characters to a token. */
export function tokensOf(text: string): number {
  return Math.max(1, Math.round(text.length / 4));
}
