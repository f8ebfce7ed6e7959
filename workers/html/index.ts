// What is published as `headrace/clean`.

export { clean } from './clean.ts';
export type { CleanOptions, CleanPage, PageExtra, PageFormat, PageLink, PageMetadata } from '../../src/fetch/page.ts';
