// `npm run docs`: writes the generated parts of the pages in docs/.

import { writeFileSync } from 'node:fs';
import { GENERATED_PAGES, renew } from './generate.ts';
import { readDocument, ROOT } from './markdown.ts';

for (const page of GENERATED_PAGES) writeFileSync(`${ROOT}${page}`, await renew(page, readDocument(page)));
