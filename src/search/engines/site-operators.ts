// Domains of a search as the operators `site:` and `-site:`, for services that document them.

import type { SearchFilters } from '../filters.ts';

/** The query with the operators behind it. */
export function withSites(query: string, { excludeDomains = [], includeDomains = [] }: SearchFilters): string {
  const included = includeDomains.map((domain) => `site:${domain}`).join(' OR ');
  const group = includeDomains.length > 1 ? `(${included})` : included;
  const excluded = excludeDomains.map((domain) => `-site:${domain}`);
  return [query, group, ...excluded].filter((part) => part !== '').join(' ');
}
