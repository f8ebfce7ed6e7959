// Generates the HTML pages that the fetch and cleaning benchmarks use when no folder of real pages is given.

/** Page number `index`: an article of 20 to 120 kB with the navigation, sidebar and footer of a news site. */
export function article(index) {
  const links = (from) =>
    Array.from(
      { length: 40 },
      (_, at) => `<li class="menu-item"><a href="/${from + at}">Section ${from + at}</a></li>`,
    );
  const paragraphs = Array.from(
    { length: 20 + (index % 10) * 12 },
    (_, at) =>
      `<p>Paragraph ${at} of article ${index}: the <b>headrace</b> brings water from the weir to the turbine, and what the ` +
      'turbine cannot take is spilled at the side, where a <a href="/weir">weir of 3 to 5 m</a> keeps the level within a ' +
      'hand&#39;s breadth when the gate shuts. Records of forty years show the lowest flow in September.</p>',
  );
  return Buffer.from(`<!doctype html><html lang="en"><head><title>Article ${index} | The Millrace</title>
<meta property="og:title" content="Article ${index}"><style>${'.a{color:red}'.repeat(200)}</style>
<script>${'window.x=1;'.repeat(400)}</script></head><body><nav><ul>${links(0).join('')}</ul></nav>
<main><article><h1>Article ${index}</h1>${paragraphs.join('\n')}</article></main>
<aside><h2>Related</h2><ul>${links(100).join('')}</ul></aside><footer>${links(200).join('')}</footer></body></html>`);
}
