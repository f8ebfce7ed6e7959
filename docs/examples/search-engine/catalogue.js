// A search engine of your own, as a module: a catalogue that answers `GET /find?q=…&limit=…&from=…` with
// `{ "items": [{ "name", "link", "about", "date" }] }`. Copy it, and change what is different at your service.

/** @satisfies {import('headrace').EngineModule['options']} */
export const options = {
  url: { type: 'url', required: true },
  apiKey: { type: 'string' },
  pageSize: { type: 'integer', min: 1, max: 50 },
};

/**
 * @param {{ url: string, apiKey?: string, pageSize?: number }} options
 * @param {import('headrace').EngineTools} tools
 * @returns {import('headrace').HttpEngine}
 */
export function createEngine({ url, apiKey, pageSize = 20 }, { EngineError }) {
  return {
    kind: 'catalogue',
    documentation: 'https://catalogue.example/api',
    types: ['web', 'news'],
    rates: [{ requests: 10, perMs: 1000 }],

    // `state` is undefined for the first page, then what `parse` returned as `next`.
    request({ query, maxResults }, state) {
      const from = typeof state === 'number' ? state : 0;
      const parameters = new URLSearchParams({
        q: query,
        limit: String(Math.min(maxResults, pageSize)),
        from: String(from),
      });
      return {
        method: 'GET',
        url: `${url}/find?${parameters}`,
        headers: { accept: 'application/json', ...(apiKey ? { authorization: `Bearer ${apiKey}` } : {}) },
      };
    },

    parse({ status, body }, { query, state, collected }) {
      if (status === 401 || status === 403) throw new EngineError('denied');
      if (status === 429) throw new EngineError('rate limited');
      if (status !== 200) throw new EngineError('http', { status });
      /** @type {{ items: { name: string, link: string, about: string, date?: string }[] }} */
      const { items } = JSON.parse(body.toString());
      const hits = items.map(({ name, link, about, date }) => ({
        title: name,
        url: link,
        snippet: about,
        ...(date === undefined ? {} : { publishedAt: date }),
      }));
      const isFull = items.length === Math.min(query.maxResults, pageSize);
      if (!isFull || collected + hits.length >= query.maxResults) return { hits };
      return { hits, next: (typeof state === 'number' ? state : 0) + items.length };
    },
  };
}
