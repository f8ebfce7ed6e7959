// Public surface of extraction, published as `headrace/clean`.

import '../node-version.ts';

export { clean } from './clean.ts';
export type {
  CleanJob,
  CleanOptions,
  CleanPage,
  PageExtra,
  PageFormat,
  PageImage,
  PageLink,
  PageMetadata,
} from './page.ts';
/** @internal */
export type { CleanExplanation } from './clean-trace.ts';
