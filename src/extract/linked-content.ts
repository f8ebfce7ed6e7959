// Renders items of linked data as HTML, one template for each kind: products, jobs, events, recipes, instructions, questions,
// discussions, lists and articles. A template writes only what the item has.

import { decodeHTML, escapeText } from 'entities';
import { isItem, type LinkedItem, nameOf, stringOf, typeOf } from './structured.ts';

/** Entries of a list, and parts of a page. */
const MAX_ENTRIES = 500;
const MAX_DEPTH = 8;

/** A kind of items with its template. */
interface Template {
  readonly types: RegExp;
  /** Whether the item is a document of its own, which is added to a page that does not show it. */
  readonly isDocument: boolean;
  /** Items of the kind that are written. */
  readonly limit: number;
  readonly render: (item: LinkedItem) => readonly string[];
}

/** By weight: the first kind that a page has is what the page is about. */
const TEMPLATES: readonly Template[] = [
  { types: /^JobPosting$/, isDocument: true, limit: 1, render: job },
  { types: /^Recipe$/, isDocument: true, limit: 1, render: recipe },
  { types: /^HowTo$/, isDocument: true, limit: 1, render: instructions },
  { types: /^(?!Broadcast|Publication|Delivery)(?:[A-Z][a-z]+)?(?:Event|Festival)$/, isDocument: true, limit: MAX_ENTRIES, render: event },
  { types: /^(?:Product|ProductGroup|IndividualProduct|Book|SoftwareApplication|MobileApplication)$/, isDocument: false, limit: 1, render: product },
  { types: /^(?:QAPage|FAQPage)$/, isDocument: false, limit: MAX_ENTRIES, render: questions },
  { types: /^(?:DiscussionForumPosting|SocialMediaPosting)$/, isDocument: false, limit: MAX_ENTRIES, render: discussion },
  { types: /(?:Article|BlogPosting|Report|Review)$/, isDocument: false, limit: MAX_ENTRIES, render: article },
  { types: /^(?:ItemList|CollectionPage)$/, isDocument: false, limit: MAX_ENTRIES, render: list },
]; // oxfmt-ignore

/** Types that may be documents; a quick test before the templates'. */
const DOCUMENTS = /\b(?:JobPosting|Recipe|HowTo)\b|Event|Festival/;

/** The content of the kind of items that the page is about, as HTML; empty when it has none. */
export function linkedContentOf(items: readonly LinkedItem[]): string {
  for (const template of TEMPLATES) {
    const html = partsOf(items, template).join('');
    if (html !== '') return html;
  }
  return '';
}

/** Parts of the documents whose name `title` contains, as HTML: a job, an event, a recipe or instructions. */
export function documentsOf(items: readonly LinkedItem[], title: string): string[] {
  const documents = items.filter((item) => DOCUMENTS.test(typeOf(item)));
  if (documents.length === 0) return [];
  const shown = lettersOf(title);
  const named = documents.filter((item) => {
    const name = lettersOf(plain(stringOf(item['title']) || stringOf(item['name'])));
    return name !== '' && shown.includes(name);
  });
  return TEMPLATES.flatMap((template) => (template.isDocument ? partsOf(named, template) : []));
}

function partsOf(items: readonly LinkedItem[], { types, limit, render }: Template): string[] {
  const matching = items.filter((item) =>
    typeOf(item)
      .split(' ')
      .some((type) => types.test(type)),
  );
  const parts = matching.slice(0, limit).flatMap(render);
  return [...new Set(parts)].filter((part) => part !== '').slice(0, MAX_ENTRIES);
}

function product(item: LinkedItem): string[] {
  const [offer] = many(item['offers']).filter(isItem);
  return [
    heading(1, item['name']),
    text(item['description']),
    facts([
      ['Brand', nameOf(item['brand']) || nameOf(item['manufacturer'])],
      ['Price', priceOf(offer)],
      ['Availability', wordOf(offer?.['availability'])],
      ['Rating', ratingOf(item['aggregateRating'])],
      ['Color', stringOf(item['color'])],
      ['Material', stringOf(item['material'])],
      ...many(item['additionalProperty']).filter(isItem).map((each) => [stringOf(each['name']), valueOf(each)] as const),
    ]),
  ]; // oxfmt-ignore
}

function job(item: LinkedItem): string[] {
  return [
    heading(1, item['title'] ?? item['name']),
    facts([
      ['Company', nameOf(item['hiringOrganization'])],
      ['Location', many(item['jobLocation']).map(placeOf).filter(Boolean).join('; ')],
      ['Type', many(item['employmentType']).map(stringOf).filter(Boolean).join(', ')],
      ['Salary', salaryOf(item['baseSalary'])],
      ['Posted', stringOf(item['datePosted'])],
      ['Apply until', stringOf(item['validThrough'])],
    ]),
    text(item['description']),
    ...titled([
      ['Responsibilities', item['responsibilities']],
      ['Qualifications', item['qualifications']],
      ['Skills', item['skills']],
      ['Benefits', item['jobBenefits']],
    ]),
  ];
}

function event(item: LinkedItem): string[] {
  return [
    heading(2, item['name']),
    facts([
      ['Start', stringOf(item['startDate'])],
      ['End', stringOf(item['endDate'])],
      ['Location', many(item['location']).map(placeOf).filter(Boolean).join('; ')],
      ['Organizer', nameOf(item['organizer'])],
      ['Performer', nameOf(item['performer'])],
      ['Price', priceOf(many(item['offers']).find(isItem))],
    ]),
    text(item['description']),
  ];
}

function recipe(item: LinkedItem): string[] {
  const ingredients = bullets(many(item['recipeIngredient'] ?? item['ingredients']).map(stringOf));
  const method = steps(item['recipeInstructions']);
  if (ingredients === '' && method === '') return [];
  const nutrition = isItem(item['nutrition']) ? item['nutrition'] : {};
  return [
    heading(1, item['name']),
    text(item['description']),
    facts([
      ['Yield', many(item['recipeYield']).map(valueText).at(-1) ?? ''],
      ['Preparation', durationOf(item['prepTime'])],
      ['Cooking', durationOf(item['cookTime'])],
      ['Total time', durationOf(item['totalTime'])],
      ['Calories', stringOf(nutrition['calories'])],
      ['Rating', ratingOf(item['aggregateRating'])],
    ]),
    ...section('Ingredients', ingredients),
    ...section('Instructions', method),
  ];
}

function instructions(item: LinkedItem): string[] {
  const method = steps(item['step']);
  if (method === '') return [];
  const names = (value: unknown): string => bullets(many(value).map(nameOf));
  return [
    heading(1, item['name']),
    text(item['description']),
    facts([['Total time', durationOf(item['totalTime'])]]),
    ...section('Supplies', names(item['supply'])),
    ...section('Tools', names(item['tool'])),
    ...section('Steps', method),
  ];
}

/** Each question with its answers, the accepted one first. */
function questions(item: LinkedItem): string[] {
  return many(item['mainEntity'])
    .filter(isItem)
    .map((question) => {
      const answers = [...many(question['acceptedAnswer']), ...many(question['suggestedAnswer'])].filter(isItem);
      const asked = stringOf(question['text']);
      const name = stringOf(question['name']);
      return [
        heading(2, name || asked),
        name === '' || asked === name ? '' : text(asked),
        ...answers.map((answer) => text(answer['text'])),
      ].join('');
    });
}

function discussion(item: LinkedItem): string[] {
  return [heading(1, item['headline'] ?? item['name']), ...posts(item, 0)];
}

function posts(item: LinkedItem, depth: number): string[] {
  if (depth > MAX_DEPTH) return [];
  const own = text(item['articleBody'] ?? item['text']);
  return [
    own,
    ...many(item['comment'])
      .filter(isItem)
      .flatMap((comment) => posts(comment, depth + 1)),
  ];
}

function article(item: LinkedItem): string[] {
  const body = text(item['articleBody'] ?? item['reviewBody']);
  return body === '' ? [] : [heading(1, item['headline'] ?? item['name']), body];
}

function list(item: LinkedItem): string[] {
  const main = isItem(item['mainEntity']) ? item['mainEntity'] : {};
  const entries = many(item['itemListElement'] ?? main['itemListElement']).map((entry) => {
    const target = isItem(entry) && isItem(entry['item']) ? entry['item'] : entry;
    if (!isItem(target) || typeOf(target) === 'SiteNavigationElement') return '';
    const price = priceOf(many(target['offers']).find(isItem));
    const name = nameOf(target) || (isItem(entry) ? nameOf(entry) : '');
    return [name, price, stringOf(target['description'])].filter((part) => part !== '').join(': ');
  });
  return [bullets(entries)];
}

/** Steps and sections of steps with their names, in any of the shapes that pages use. */
function steps(value: unknown): string {
  if (typeof value === 'string') return text(value);
  const parts: string[] = [];
  const items: string[] = [];
  let written = 0;
  const endList = (): void => {
    const list = items.slice(written).map((item) => `<li>${item}</li>`);
    if (list.length > 0) parts.push(`<ol>${list.join('')}</ol>`);
    written = items.length;
  };
  const walk = (inner: unknown, depth: number): void => {
    for (const each of many(inner)) {
      if (depth > MAX_DEPTH || items.length > MAX_ENTRIES) return;
      if (typeof each === 'string') items.push(plain(each));
      if (!isItem(each)) continue;
      const own = stringOf(each['text']) || stringOf(each['name']);
      const nested = each['itemListElement'];
      if (nested === undefined || typeOf(each) === 'HowToStep') {
        items.push(plain(own));
        continue;
      }
      const name = stringOf(each['name']);
      if (name !== '') {
        endList();
        parts.push(`<h3>${plain(name)}</h3>`);
      }
      walk(nested, depth + 1);
      if (name !== '') endList();
    }
  };
  walk(value, 0);
  endList();
  return items.length === 0 ? '' : parts.join('');
}

function many(value: unknown): readonly unknown[] {
  if (value === undefined || value === null) return [];
  return Array.isArray(value) ? value.slice(0, MAX_ENTRIES) : [value];
}

function section(title: string, html: string): string[] {
  return html === '' ? [] : [`<h2>${title}</h2>${html}`];
}

function titled(sections: readonly (readonly [string, unknown])[]): string[] {
  return sections.flatMap(([title, value]) => section(title, many(value).map(text).join('')));
}

function heading(level: 1 | 2, value: unknown): string {
  const name = stringOf(value);
  return name === '' ? '' : `<h${level}>${plain(name)}</h${level}>`;
}

/** Label and value of each fact that the item has. */
function facts(entries: readonly (readonly [string, string])[]): string {
  const given = entries.filter(([label, value]) => label !== '' && value !== '');
  return given.length === 0
    ? ''
    : `<ul>${given.map(([label, value]) => `<li>${plain(label)}: ${plain(value)}</li>`).join('')}</ul>`;
}

function bullets(entries: readonly string[]): string {
  const given = entries.filter((entry) => entry !== '');
  return given.length === 0 ? '' : `<ul>${given.map((entry) => `<li>${plain(entry)}</li>`).join('')}</ul>`;
}

/** Text with paragraphs, or HTML as the item has it. */
function text(value: unknown): string {
  const written = stringOf(value);
  return written === '' ? '' : htmlOfText(written);
}

/** Elements whose text is not divided by line ends. */
const BLOCKS = /<(?:p|div|br|ul|ol|dl|li|table|pre|blockquote|h[1-6]|section|article|figure)[\s/>]/i;

/** HTML of a text that may be HTML, or have character references. Beside inline elements alone, line ends are those of the text. */
export function htmlOfText(written: string): string {
  const decoded = /<[a-z/]/i.test(written) ? written : decodeHTML(written);
  if (BLOCKS.test(decoded)) return `<div>${decoded}</div>`;
  const asHtml = /<\/?[a-z]/i.test(decoded) ? (line: string): string => line : escapeText;
  const paragraphs = decoded.split(/\n\s*\n|\r\n\s*\r\n/).filter((paragraph) => paragraph.trim() !== '');
  return paragraphs.map((each) => `<p>${each.trim().split(/\r?\n/).map(asHtml).join('<br>')}</p>`).join('');
}

/** One line of text without markup. */
function plain(written: string): string {
  const decoded = decodeHTML(written);
  return escapeText(/<[a-z/]/i.test(decoded) ? decoded.replaceAll(/<[^<>]*>/g, ' ') : decoded);
}

function valueText(value: unknown): string {
  return typeof value === 'number' ? String(value) : stringOf(value);
}

function valueOf(item: LinkedItem): string {
  const value = item['value'];
  return typeof value === 'boolean' ? (value ? 'yes' : 'no') : valueText(value);
}

function priceOf(offer: LinkedItem | undefined): string {
  if (offer === undefined) return '';
  const details = many(offer['priceSpecification']).find(isItem) ?? {};
  const [low, high] = [valueText(offer['lowPrice']), valueText(offer['highPrice'])];
  const range = low !== '' && high !== '' && low !== high ? `${low} to ${high}` : low;
  const price = valueText(offer['price']) || range || valueText(details['price']);
  const currency = stringOf(offer['priceCurrency']) || stringOf(details['priceCurrency']);
  return price === '' ? '' : `${price} ${currency}`.trim();
}

function ratingOf(value: unknown): string {
  if (!isItem(value)) return '';
  const rating = valueText(value['ratingValue']);
  const best = valueText(value['bestRating']) || '5';
  const count = valueText(value['ratingCount']) || valueText(value['reviewCount']);
  return rating === '' ? '' : `${rating} of ${best}${count === '' ? '' : ` (${count})`}`;
}

function salaryOf(value: unknown): string {
  if (!isItem(value)) return valueText(value);
  const amount = isItem(value['value']) ? value['value'] : value;
  const [low, high] = [valueText(amount['minValue']), valueText(amount['maxValue'])];
  const range = low !== '' && high !== '' ? `${low} to ${high}` : valueText(amount['value']) || low || high;
  const unit = stringOf(amount['unitText']).toLowerCase();
  return range === '' ? '' : `${range} ${stringOf(value['currency'])}${unit === '' ? '' : ` per ${unit}`}`.trim();
}

function placeOf(value: unknown): string {
  if (!isItem(value)) return stringOf(value);
  const address = value['address'];
  const parts = isItem(address)
    ? ['streetAddress', 'addressLocality', 'addressRegion', 'postalCode', 'addressCountry'].map((name) => nameOf(address[name]))
    : [stringOf(address)]; // oxfmt-ignore
  return [...new Set([stringOf(value['name']), ...parts])].filter((part) => part !== '').join(', ');
}

/** The last part of a schema.org address, such as `InStock`, in words. */
function wordOf(value: unknown): string {
  const word = stringOf(value);
  return word.slice(word.lastIndexOf('/') + 1).replaceAll(/(?<=[a-z])(?=[A-Z])/g, ' ');
}

/** An ISO 8601 duration in words; empty when it is none or zero. */
function durationOf(value: unknown): string {
  const found = /^P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+)(?:\.\d+)?S)?)?$/i.exec(stringOf(value));
  if (found === null) return '';
  const [, days, hours, minutes, seconds] = found;
  const parts = [
    [days, 'd'],
    [hours, 'h'],
    [minutes, 'min'],
    [seconds, 's'],
  ] as const;
  return parts
    .filter(([amount]) => Number(amount ?? 0) > 0)
    .map(([amount, unit]) => `${Number(amount)} ${unit}`)
    .join(' ');
}

/** Letters and digits only, to compare texts. */
export function lettersOf(text: string): string {
  return text.replaceAll(/[^\p{L}\p{N}]+/gu, '').toLowerCase();
}
