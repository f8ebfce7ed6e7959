// HTML from the data that client-rendered pages carry in scripts: streamed React components, and the state of Next.js, Nuxt,
// Apollo, Redux and React Router. No code of the page is run. Scripts that cannot be read are skipped.

import { escapeText } from 'entities';
import type { Script } from '../parse.ts';
import { unflatten } from './devalue.ts';
import { parseFlight, renderFlight } from './flight.ts';
import { jsonOf, parseCall, parseLiteral } from './literal.ts';
import { isProse } from './prose.ts';
import { RichTextReader } from './rich-text.ts';

const MAX_SCRIPT_CHARACTERS = 5_000_000;
const MAX_VALUES = 50_000;
const MAX_HTML_CHARACTERS = 2_000_000;
const MAX_TITLE_CHARACTERS = 200;

/** Assignments and calls that are tried. */
const MAX_FAILURES = 20;
const MAX_CHUNKS = 50;

const FLIGHT = 'self.__next_f.push(';

/** Variables that hold state, as scripts assign them. */
const ASSIGNED =
  /(?:\bwindow|\bself|\bglobalThis)?(?:\.|\[["'])?\b(__NUXT__|__APOLLO_STATE__|__INITIAL_STATE__|__PRELOADED_STATE__|__INITIAL_DATA__|__PRELOADED_DATA__|__REDUX_STATE__|__remixContext|__NEXT_DATA__)(?:["']\])?\s*=(?!=)\s*/g;

/** Ids and targets of JSON scripts with state; others hold settings. */
const STATE =
  /^__NEXT_DATA__|^__(?:APOLLO|INITIAL|PRELOADED|REDUX)_?\w*__|^vike_pageContext|embeddedData$|preloaded-?state|initial-?state/i;

/** Lines that React Router and Remix add to the stream of their state. */
const STREAMED = /\.streamController\.enqueue\(/g;

/** Streamed components of the page as HTML, with the elements of the page; empty where it has none. For `prose` see `renderFlight`. */
export function flightOf(scripts: readonly Script[], prose: boolean): string {
  const chunks: string[] = [];
  let failures = 0;
  for (const { text } of scripts) {
    for (let at = text.indexOf(FLIGHT); at !== -1 && failures < MAX_FAILURES; at = text.indexOf(FLIGHT, at)) {
      const { value: pushed, end } = parseLiteral(text, at + FLIGHT.length);
      if (pushed === undefined) failures++;
      at = end;
      if (!Array.isArray(pushed) || typeof pushed[1] !== 'string') continue;
      if (pushed[0] === 1) chunks.push(pushed[1]);
      else if (pushed[0] === 3) chunks.push(Buffer.from(pushed[1], 'base64').toString());
    }
  }
  const stream = chunks.join('');
  return stream === '' || stream.length > MAX_SCRIPT_CHARACTERS ? '' : renderFlight(parseFlight(stream), prose);
}

/** Prose in the state of the page as HTML, in order, each text once. */
export function stateOf(scripts: readonly Script[]): string {
  const found = new StateText();
  for (const script of scripts) {
    if (script.text.length > MAX_SCRIPT_CHARACTERS) continue;
    for (const value of statesIn(script)) found.read(value);
  }
  return found.html();
}

function* statesIn({ id, type, target, text }: Script): Generator {
  if (id === '__NUXT_DATA__') yield unflatten(jsonOf(text));
  else if (STATE.test(`${id} ${target}`)) yield jsonOf(text);
  else if (type === '' || /javascript|module/.test(type)) yield* assignedIn(text);
}

function* assignedIn(text: string): Generator {
  if (!/__|\.streamController/.test(text)) return;
  let tried = 0;
  let from = 0;
  let end = 0;
  for (const { index, 0: start } of text.matchAll(ASSIGNED)) {
    // What stands inside of a literal is not read again; after `a=` there may be `b=` in its place.
    if (index > from && index < end) continue;
    if (++tried > MAX_FAILURES) return;
    from = index + start.length;
    const parse = text.startsWith('(function', from) || text.startsWith('function', from) ? parseCall : parseLiteral;
    const literal = parse(text, from);
    end = literal.end;
    yield typeof literal.value === 'string' ? jsonOf(literal.value) : literal.value;
  }
  let stream = '';
  let chunks = 0;
  end = 0;
  for (const { index, 0: start } of text.matchAll(STREAMED)) {
    if (index < end) continue;
    if (++chunks > MAX_CHUNKS) break;
    const chunk = parseLiteral(text, index + start.length);
    end = chunk.end;
    if (typeof chunk.value === 'string') stream += chunk.value;
  }
  // Later lines are values that were promised; the first holds the page.
  if (stream !== '') yield unflatten(jsonOf(stream.split('\n', 1)[0] ?? ''));
}

/** Names of members that hold texts of the program, not of the page. */
const PROGRAM =
  /^(?:_?i18n|translations?|locales?|localization|dictionary|intl|messages|labels|strings|consent|cookies?|gdpr|privacy|legal|footer|seo|meta|metadata|schema|jsonld|config|settings|env|features?|flags|experiments|errors?|scripts?|css|styles?|tracking|analytics|__typename)$/i;

const TITLES: readonly string[] = ['title', 'heading', 'headline', 'name', 'question'];

/** Collects prose from values, outer and earlier ones first. A value that is referred to many times is read once. */
class StateText {
  readonly #objects = new Set<object>();
  readonly #texts = new Set<string>();
  readonly #documents = new RichTextReader();
  readonly #parts: string[] = [];
  #characters = 0;

  html(): string {
    return this.#parts.join('\n');
  }

  read(root: unknown): void {
    const waiting: unknown[] = [root];
    for (let seen = 0; waiting.length > 0 && seen < MAX_VALUES && this.#characters < MAX_HTML_CHARACTERS; seen++) {
      const value = waiting.pop();
      if (typeof value === 'string') {
        if (this.#isNew(value) && isProse(value)) this.#add('', htmlOf(value));
      } else if (typeof value === 'object' && value !== null && !this.#objects.has(value)) {
        this.#objects.add(value);
        for (const inner of this.#inside(value).toReversed()) waiting.push(inner);
      }
    }
  }

  /** Adds the texts of a document or of an object; returns the values that are left to read. */
  #inside(value: object): readonly unknown[] {
    const document = this.#documents.read(value);
    if (document !== null) {
      if (this.#isNew(document)) this.#add('', document);
      return [];
    }
    if (Array.isArray(value)) return value;
    const entries = Object.entries(value).filter(([name]) => !PROGRAM.test(name));
    const texts = entries.flatMap(([, text]) =>
      typeof text === 'string' && this.#isNew(text) && isProse(text) ? [text] : [],
    );
    const title = texts.length === 0 ? '' : titleOf(value as Readonly<Record<string, unknown>>);
    texts.forEach((text, index) => this.#add(index === 0 ? title : '', htmlOf(text)));
    return entries.flatMap(([, inner]) => (typeof inner === 'object' && inner !== null ? [inner] : []));
  }

  #isNew(text: string): boolean {
    return this.#texts.size < this.#texts.add(text).size;
  }

  #add(title: string, html: string): void {
    const part = title === '' ? html : `<h3>${escapeText(title)}</h3>${html}`;
    this.#parts.push(part);
    this.#characters += part.length;
  }
}

function titleOf(object: Readonly<Record<string, unknown>>): string {
  for (const name of TITLES) {
    const title = Object.hasOwn(object, name) ? object[name] : undefined;
    if (typeof title === 'string' && title.length <= MAX_TITLE_CHARACTERS && !isProse(title)) return title;
  }
  return '';
}

function htmlOf(text: string): string {
  if (/<\/?[a-z]/i.test(text)) return `<div>${text}</div>`;
  return text
    .split(/\n{2,}/)
    .map((paragraph) => `<p>${escapeText(paragraph)}</p>`)
    .join('');
}
