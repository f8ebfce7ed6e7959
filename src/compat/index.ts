// Public surface of the interfaces of other products.
export { errorAnswer, type ErrorAnswer, type Product, productOf } from './errors.ts';
export { renamedMistakes } from './fields.ts';
export {
  printFirecrawlScrape,
  printFirecrawlSearch,
  readFirecrawlScrape,
  readFirecrawlSearch,
  type FirecrawlSearch,
  type FirecrawlVersion,
} from './firecrawl.ts';
export type { ForeignPages, ForeignSearch, PageOutcome as ForeignPageOutcome } from './foreign.ts';
export { type JinaPage, printJinaJson, printJinaText, readJina } from './jina.ts';
export { basicKey, printSearxng, readSearxng } from './searxng.ts';
export {
  printTavilyExtract,
  printTavilySearch,
  readTavilyExtract,
  readTavilySearch,
  type TavilyExtract,
  tavilyKey,
  type TavilySearch,
} from './tavily.ts';
