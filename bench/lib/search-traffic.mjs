// Requests and responses of the search benchmark: the searches of the client and the hits of the five workers. Every search has
// a number, in its query and in every hit, so no search is answered from a cache or shares the engine calls of another.
// Everything else is the same for all searches, peers and rounds.

import { KEY } from './traffic.mjs';

export const ENGINES = ['engine_a', 'engine_b', 'engine_c', 'engine_d', 'engine_e'];
export const HITS = 10;
/** Different pages among the 50 hits of one search; neighbours in the list of engines share six of their ten. */
export const PAGES = 20;
const PAGES_BETWEEN_ENGINES = 4;

/** Digits at the beginning of a query: the number of the search. */
const NUMBER_DIGITS = 15;
const NUMBER_MARK = '@';

/** How each engine spells the address of a page: five texts, one page. */
const SPELLINGS = [
  (address) => `https://${address}`,
  (address) => `https://${address}/`,
  (address) => `http://${address}`,
  (address) => `https://${address}?utm_source=engine&utm_medium=web`,
  (address) => `https://www.${address}`,
];
const TITLES = ['Weirs and sluices', 'How a headrace is dug', 'Turbines for small heads', 'Gauging a river in flood'];
const SNIPPETS = [
  'The <b>headrace</b> brings water from the weir to the turbine; its fall should be slight &amp; even, or the head is lost on the way.',
  'A screen before the intake keeps out leaves and ice. It is raked by hand where the <b>channel</b> is narrow, otherwise by machine.',
  'Spill what the turbine cannot take: a side weir of 3 to 5 m keeps the <b>level</b> within a hand&#39;s breadth when the gate shuts.',
  'Records of forty years show the lowest <b>flow</b> in September. Plan the wheel for that month, and the tailrace for April.',
];

/** The hits of engine number `engine` (0 to 4), with a mark wherever the number of the search belongs. */
function hitsOf(engine) {
  return Array.from({ length: HITS }, (_, rank) => {
    const page = (engine * PAGES_BETWEEN_ENGINES + rank) % PAGES;
    return {
      title: `${TITLES[page % TITLES.length]}, part ${page} of ${NUMBER_MARK}`,
      url: SPELLINGS[engine](`site-${page % 7}.example/articles/${NUMBER_MARK}/part-${page}`),
      snippet: `${SNIPPETS[(page + engine) % SNIPPETS.length]} (${NUMBER_MARK})`,
    };
  });
}

const ANSWERS = Object.fromEntries(
  ENGINES.map((engine, index) => [engine, JSON.stringify({ results: hitsOf(index) }).split(NUMBER_MARK)]),
);

/** What the worker of `engine` answers to search `number`: about 3 KB of JSON. */
export function workerAnswer(engine, number) {
  return ANSWERS[engine].join(String(number));
}

/** The number of the search that a query belongs to. */
export function numberOf(query) {
  return Number(query.slice(0, NUMBER_DIGITS));
}

/**
 * Makes `(number) => text of a whole request` for `127.0.0.1:port`: a search over all engines, or with `direct` what
 * the gateway would send to the first worker.
 */
export function searchRequests({ port, direct }) {
  const rest = direct ? { max_results: HITS, search_type: 'web' } : { engines: ENGINES, max_results: HITS };
  const query = `${NUMBER_MARK} fall of a headrace`;
  const body = JSON.stringify(direct ? { engine: ENGINES[0], query, ...rest } : { query, ...rest });
  const head = [
    'POST /search HTTP/1.1',
    `Host: 127.0.0.1:${port}`,
    'Connection: keep-alive',
    'Accept: application/json',
    'Content-Type: application/json',
    `Authorization: Bearer ${KEY}`,
    `Content-Length: ${body.length - NUMBER_MARK.length + NUMBER_DIGITS}`,
  ];
  const [before, after] = `${head.join('\r\n')}\r\n\r\n${body}`.split(NUMBER_MARK);
  return (number) => before + String(number).padStart(NUMBER_DIGITS, '0') + after;
}
