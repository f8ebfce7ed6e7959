// HTML elements as small numbers, and their traits for parsing and layout. A trait is one table lookup.

const NAMES = [
  '#text', 'a', 'abbr', 'address', 'article', 'aside', 'audio', 'b', 'base', 'big', 'blockquote', 'body', 'br', 'button',
  'canvas', 'caption', 'center', 'cite', 'code', 'col', 'colgroup', 'data', 'datalist', 'dd', 'del', 'details', 'dfn',
  'dialog', 'dir', 'div', 'dl', 'dt', 'em', 'embed', 'fieldset', 'figcaption', 'figure', 'font', 'footer', 'form', 'frame',
  'frameset', 'h1', 'h2', 'h3', 'h4', 'h5', 'h6', 'head', 'header', 'hgroup', 'hr', 'html', 'i', 'iframe', 'img', 'input',
  'ins', 'kbd', 'label', 'legend', 'li', 'link', 'listing', 'main', 'map', 'mark', 'marquee', 'math', 'menu', 'meta',
  'meter', 'nav', 'noembed', 'noframes', 'noscript', 'object', 'ol', 'optgroup', 'option', 'output', 'p', 'param',
  'picture', 'plaintext', 'pre', 'progress', 'q', 'rp', 'rt', 'ruby', 's', 'samp', 'script', 'search', 'section', 'select',
  'small', 'source', 'span', 'strike', 'strong', 'style', 'sub', 'summary', 'sup', 'svg', 'table', 'tbody', 'td',
  'template', 'textarea', 'tfoot', 'th', 'thead', 'time', 'title', 'tr', 'track', 'tt', 'u', 'ul', 'var', 'video', 'wbr',
  'xmp', 'annotation', 'annotation-xml', 'menclose', 'merror', 'mfenced', 'mfrac', 'mi', 'mmultiscripts', 'mn', 'mo', 'mover', 'mpadded',
  'mphantom', 'mprescripts', 'mroot', 'mrow', 'ms', 'mspace', 'msqrt', 'mstyle', 'msub', 'msubsup', 'msup', 'mtable', 'mtd', 'mtext', 'mtr',
  'munder', 'munderover', 'semantics', '#tex',
] as const; // oxfmt-ignore

export type TagName = (typeof NAMES)[number];

/** Number of each known element. */
export const TAG = Object.fromEntries(NAMES.map((name, id) => [name, id])) as Readonly<Record<TagName, number>>;

/** Unknown elements get numbers from here on, in order of appearance. */
export const FIRST_UNKNOWN: number = NAMES.length;

const LAST_ID = 0xffff;

/** Has no children. */
export const VOID = 1;
/** Begins and ends a line. */
export const BLOCK = 2;
/** Its start ends an open paragraph. */
export const ENDS_PARAGRAPH = 4;
/** End tags inside do not close elements outside. */
export const SCOPE = 8;
/** List items inside do not end items outside. */
export const LIST = 16;
/** Can be closed only while no block is open inside. */
export const FORMATTING = 32;
/** Its content is not text of the page. */
export const OPAQUE = 64;
export const HEADING = 128;

const TRAITS = new Uint8Array(LAST_ID + 1);

mark(VOID, 'base br col embed frame hr img input link meta param source track wbr');
mark(
  BLOCK,
  'address article aside blockquote body br caption center colgroup dd details dialog dir div dl dt fieldset',
);
mark(
  BLOCK,
  'figcaption figure footer form frameset h1 h2 h3 h4 h5 h6 header hgroup hr legend li listing main menu nav',
);
mark(
  BLOCK,
  'noscript ol optgroup option p plaintext pre search section select summary table tbody td tfoot th thead tr',
);
mark(BLOCK, 'ul xmp textarea video audio canvas object iframe');
mark(
  ENDS_PARAGRAPH,
  'address article aside blockquote center details dialog dir div dl dd dt fieldset figcaption figure',
);
mark(
  ENDS_PARAGRAPH,
  'footer form h1 h2 h3 h4 h5 h6 header hgroup hr li listing main menu nav ol p plaintext pre search',
);
mark(ENDS_PARAGRAPH, 'section summary table ul xmp');
mark(SCOPE, 'body caption marquee object table td th button');
mark(LIST, 'ul ol dl menu dir');
mark(
  FORMATTING,
  'a b big code em font i s small strike strong tt u span abbr cite del dfn ins kbd label mark q samp sub sup',
);
mark(FORMATTING, 'time var');
mark(
  OPAQUE,
  'audio canvas datalist embed frameset iframe noembed noframes object optgroup option progress meter rp script',
);
mark(OPAQUE, 'select style textarea title video annotation annotation-xml mphantom');
mark(HEADING, 'h1 h2 h3 h4 h5 h6');

/** The traits of an element, combined. Unknown elements are inline without traits. */
export function traits(tag: number): number {
  return TRAITS[tag] as number;
}

/** Numbers of known names. */
const IDS: ReadonlyMap<string, number> = new Map(NAMES.map((name, id) => [name, id]));

/** Numbers of the elements of one page. */
export class TagTable {
  /** Of names that are not known, and of known ones with capital letters. */
  readonly #ids = new Map<string, number>();
  /** Unknown names in lower case, by number from the first unknown one on. */
  readonly #names: string[] = [];

  /** The number of a name in any case. Beyond a limit, all new names share one. */
  idOf(name: string): number {
    const known = IDS.get(name) ?? this.#ids.get(name);
    if (known !== undefined) return known;
    const lower = name.toLowerCase();
    const id = IDS.get(lower) ?? this.#ids.get(lower) ?? Math.min(FIRST_UNKNOWN + this.#names.length, LAST_ID);
    if (id === LAST_ID) return id;
    if (id === FIRST_UNKNOWN + this.#names.length) this.#names.push(lower);
    this.#ids.set(name, id).set(lower, id);
    return id;
  }

  /** The name of an element in lower case; undefined where names share a number. */
  nameOf(id: number): string | undefined {
    return NAMES[id] ?? this.#names[id - FIRST_UNKNOWN];
  }
}

function mark(trait: number, names: string): void {
  for (const name of names.split(' ')) {
    const id = NAMES.indexOf(name as TagName);
    TRAITS[id] = (TRAITS[id] as number) | trait;
  }
}
