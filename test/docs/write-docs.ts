// `npm run docs`: writes the generated parts of the pages in docs/, and the JSON Schema of the configuration file.

import { writeFileSync } from 'node:fs';
import { settingsJsonSchema } from '../../src/config/json-schema.ts';
import { GENERATED_PAGES, renew } from './generate.ts';
import { readDocument, ROOT } from './markdown.ts';

for (const page of GENERATED_PAGES) writeFileSync(`${ROOT}${page}`, await renew(page, readDocument(page)));
writeFileSync(`${ROOT}headrace.schema.json`, settingsJsonSchema());
