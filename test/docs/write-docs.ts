// `npm run docs`: writes the generated parts of the pages in docs/, the manual page, and the JSON Schema of the configuration file.

import { writeFileSync } from 'node:fs';
import { settingsJsonSchema } from '../../src/config/json-schema.ts';
import { GENERATED_PAGES, renew, renewedManPage } from './generate.ts';
import { readDocument, ROOT } from './markdown.ts';

for (const page of GENERATED_PAGES) writeFileSync(`${ROOT}${page}`, await renew(page, readDocument(page)));
writeFileSync(`${ROOT}headrace.schema.json`, settingsJsonSchema());
writeFileSync(`${ROOT}man/headrace.1`, await renewedManPage());
