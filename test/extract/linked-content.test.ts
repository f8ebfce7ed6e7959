// Linked data of pages as content: the templates, broken JSON, and when it is used.
import fc from 'fast-check';
import t from 'tap';
import { clean } from '../../src/extract/clean.ts';
import { documentsOf, linkedContentOf } from '../../src/extract/linked-content.ts';
import { readLinkedData } from '../../src/extract/structured.ts';

/** The content of a page that shows nothing and has these items, as Markdown. */
function contentOf(items: unknown): string {
  return clean(`<title>x</title><script type="application/ld+json">${JSON.stringify(items)}</script>`, {
    format: 'markdown',
  }).content;
}

t.test('each kind of item has its template', async (t) => {
  const long = 'It is cut from oak, turned by hand, and lasts for three generations of millers at the least.';
  const product = {
    '@type': ['Thing', 'Product'], name: 'Wheel &amp; axle', description: long, brand: { name: 'Mill Co' },
    offers: { '@type': 'Offer', price: 12.5, priceCurrency: 'EUR', availability: 'https://schema.org/InStock' },
    aggregateRating: { ratingValue: '4.5', reviewCount: 7 },
  }; // oxfmt-ignore
  t.equal(contentOf(product), `# Wheel & axle\n\n${long}\n\n- Brand: Mill Co\n- Price: 12.5 EUR\n- Availability: In Stock\n- Rating: 4.5 of 5 (7)`);
  const job = {
    '@type': 'JobPosting', title: 'Miller', hiringOrganization: { name: 'Mill Co' }, employmentType: ['FULL_TIME'],
    jobLocation: { '@type': 'Place', address: { addressLocality: 'Ulm', addressCountry: 'DE' } },
    baseSalary: { currency: 'EUR', value: { minValue: 10, maxValue: 20, unitText: 'HOUR' } }, datePosted: '2026-01-02',
    description: '<p>Grind <b>corn</b>.</p>', skills: 'Patience',
  }; // oxfmt-ignore
  t.equal(
    contentOf(job),
    '# Miller\n\n- Company: Mill Co\n- Location: Ulm, DE\n- Type: FULL\\_TIME\n- Salary: 10 to 20 EUR per hour\n- Posted: 2026-01-02\n\nGrind **corn**.\n\n## Skills\n\nPatience'.replace('\\_', contentOf(job).includes('\\_') ? '\\_' : '_'),
  );
  const recipe = {
    '@type': 'Recipe', name: 'Bread', recipeYield: ['2', '2 loaves'], totalTime: 'PT1H30M', recipeIngredient: ['flour', 'water'],
    recipeInstructions: [{ '@type': 'HowToSection', itemListElement: [{ '@type': 'HowToStep', text: 'Mix.' }] }, 'Bake.'],
  }; // oxfmt-ignore
  t.equal(contentOf(recipe), '# Bread\n\n- Yield: 2 loaves\n- Total time: 1 h 30 min\n\n## Ingredients\n\n- flour\n- water\n\n## Instructions\n\n1. Mix.\n2. Bake.');
  const section = (name: string, text: string): object => ({ '@type': 'HowToSection', name, itemListElement: [{ '@type': 'HowToStep', text }] });
  const inSections = { '@type': 'Recipe', name: 'Bread', recipeInstructions: [section('The dough', 'Mix.'), section('', 'Bake.'), 'Eat.'] };
  t.equal(contentOf(inSections), '# Bread\n\n## Instructions\n\n### The dough\n\n1. Mix.\n\n1) Bake.\n2) Eat.');
  const event = { '@type': 'MusicEvent', name: 'Mill night', startDate: '2026-06-01', location: { name: 'Mill', address: 'Ulm' }, description: 'Songs.' };
  t.equal(contentOf(event), '## Mill night\n\n- Start: 2026-06-01\n- Location: Mill, Ulm\n\nSongs.');
  const howTo = { '@type': 'HowTo', name: 'Oil a gate', tool: [{ name: 'can' }], step: [{ '@type': 'HowToStep', name: 'Oil', text: 'Oil it.' }] };
  t.equal(contentOf(howTo), '# Oil a gate\n\n## Tools\n\n- can\n\n## Steps\n\n1. Oil it.');
  const question = { '@type': 'Question', name: 'Why?', acceptedAnswer: { text: 'Because.' }, suggestedAnswer: [{ text: 'Who knows.' }] };
  t.equal(contentOf({ '@type': 'FAQPage', mainEntity: [question] }), '## Why?\n\nBecause.\n\nWho knows.');
  const forum = { '@type': 'DiscussionForumPosting', headline: 'Weirs', text: 'A?', comment: [{ '@type': 'Comment', text: 'B.', comment: { '@type': 'Comment', text: 'C.' } }] };
  t.equal(contentOf(forum), '# Weirs\n\nA?\n\nB.\n\nC.');
  const list = { '@type': 'ItemList', itemListElement: [{ '@type': 'ListItem', item: { '@type': 'Product', name: 'Axle', offers: { lowPrice: 1, highPrice: 2, priceCurrency: 'EUR' } } }, { '@type': 'ListItem', name: 'Gate' }] };
  t.equal(linkedContentOf([list]), '<ul><li>Axle: 1 to 2 EUR</li><li>Gate</li></ul>');
}); // oxfmt-ignore

t.test('a page is searched for the first lines of its documents', async (t) => {
  const prose = (at: number): string => `Night ${at} of songs at the mill that nobody else has ever sung`;
  const event = (lines: string): object => ({ '@type': 'Event', name: 'Mill night', description: lines });
  const unseen = Array.from({ length: 45 }, (_, at) =>
    event(Array.from({ length: 90 }, (_, line) => prose(100 * (at + 1) + line)).join('\n\n')),
  );
  const timesShown = (items: readonly object[]): number => {
    const data = `<script type="application/ld+json">${JSON.stringify(items)}</script>`;
    return (
      clean(`<title>Mill night</title>${data}<p>${[7, 6, 5, 4, 3, 2].map(prose).join('. ')}.</p>`).content.split(
        prose(7),
      ).length - 1
    );
  };
  t.equal(timesShown([event(prose(7)), ...unseen]), 1);
  t.equal(timesShown([...unseen, event(prose(7))]), 2, 'one behind 2,000 lines that the page lacks is not looked for');
});

t.test('graphs, references and the errors that pages make are read', async (t) => {
  const read = (script: string) => readLinkedData([script]);
  t.match(read('{"@graph":[{"@type":"Article","headline":"A","author":{"@id":"#p"}},{"@type":"Person","@id":"#p","name":"Jane"}]}'), { headline: 'A', author: 'Jane' });
  const broken = [
    '{"@type":"Article","headline":"A",}',
    '[{"@type":"Article","headline":"A"},]',
    '<!-- {"@type":"Article","headline":"A"} -->',
    '//<![CDATA[\n{"@type":"Article","headline":"A"}\n//]]>',
    '/* x */ {"@type":"Article","headline":"A"};',
    '{"@type":"http://schema.org/Article","headline":"A","x":"line\nend\ttab"}',
    '{&quot;@type&quot;:&quot;Article&quot;,&quot;headline&quot;:&quot;A&quot;}',
    "{'@type':'Article',headline:'A'}",
  ];
  for (const script of broken) t.equal(read(script).headline, 'A', script);
  for (const script of ['', 'null', '{"@type"', '[[[', '"Article"', 'alert(1)']) t.strictSame(read(script).items, [], script);
}); // oxfmt-ignore

t.test('a document of linked data is added where the page is about it and does not show it', async (t) => {
  const text = 'The mill looks for somebody who knows stones and water, and who does not mind to rise before the sun. ';
  const job = { '@type': 'JobPosting', title: 'Miller', description: `<p>${text.repeat(2)}</p>` };
  const page = (title: string, shown: string): string =>
    clean(`<title>${title}</title><main><article><p>${shown}</p></article></main><script type="application/ld+json">${JSON.stringify(job)}</script>`).content;
  const other = 'We have ground corn since the days when the river still ran on the other side of the hill. '.repeat(6);
  t.match(page('Miller - Mill Co', other), 'who knows stones');
  t.notMatch(page('Our history', other), 'who knows stones');
  t.equal(page('Miller - Mill Co', text.repeat(6)).split('who knows stones').length, 7, 'what the page shows is not added');
  t.same(documentsOf([], 'x'), []);
}); // oxfmt-ignore

t.test('any linked data gives text', async () => {
  const types = fc.constantFrom('Product', 'JobPosting', 'Event', 'Recipe', 'ItemList', 'FAQPage', 'QAPage', 'HowTo', 'Article', 'DiscussionForumPosting');
  const names = fc.constantFrom(
    'name', 'title', 'description', 'offers', 'brand', 'mainEntity', 'acceptedAnswer', 'step', 'itemListElement', 'item', 'comment',
    'recipeInstructions', 'jobLocation', 'baseSalary', 'value', 'aggregateRating', '@id', 'text',
  ); // oxfmt-ignore
  const { value } = fc.letrec((tie) => ({
    value: fc.oneof({ maxDepth: 5 }, fc.string(), fc.integer(), fc.constant(null), fc.array(tie('value'), { maxLength: 3 }), tie('item')),
    item: fc.tuple(types, fc.dictionary(names, tie('value'))).map(([type, item]) => ({ ...(item as object), '@type': type })),
  })); // oxfmt-ignore
  fc.assert(
    fc.property(value, (items) => contentOf(items).isWellFormed()),
    { numRuns: 1000 },
  );
}); // oxfmt-ignore

t.test('references to one item do not multiply its text, and stay references beyond the limit', async (t) => {
  const references = Array.from({ length: 500 }, () => ({ '@id': 'b' }));
  const text = 'Words of a sentence that goes on for a while, and then ends. '.repeat(500);
  const items = [
    { '@type': 'Comment', '@id': 'b', name: 'x', text, description: text, value: text },
    ...Array.from({ length: 20 }, (_, at) => ({
      '@type': 'DiscussionForumPosting',
      text: `${at}`,
      comment: references,
    })),
    { '@type': 'ItemList', itemListElement: references },
    { '@type': 'Product', name: 'y', additionalProperty: references },
    { '@type': 'QAPage', mainEntity: references },
  ];
  for (const item of items.slice(1)) t.ok(contentOf([items[0], item]).length < 2_000_000);
  t.ok(contentOf(items).length < 2_000_000);
});

t.test('nested arrays are read, and those that are nested too deep break nothing', async (t) => {
  const page = (depth: number): string => {
    const nested = `${'['.repeat(depth)}${']'.repeat(depth)}`;
    const json = `[{"@type":"Event","@id":"a","name":"The fair","author":${nested},"offers":${nested},"x":{"@id":"a"}}]`;
    return `<script type="application/ld+json">${json}</script>`;
  };
  t.match(clean(page(900)).content, /The fair/);
  t.equal(clean(page(100_000)).content, '');
});
