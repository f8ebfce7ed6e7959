// `npm run docs`: writes the generated parts of the pages in docs/, the manual page, and the JSON Schemas of the
// configuration file and of the values of the Helm chart.

import { writeFileSync } from 'node:fs';
import { settingsJsonSchema } from '../../src/config/json-schema.ts';
import { GENERATED_PAGES, renew, renewedManPage } from './generate.ts';
import { helmValuesSchema } from './helm-values.ts';
import { readDocument, ROOT } from './markdown.ts';

for (const page of GENERATED_PAGES) writeFileSync(`${ROOT}${page}`, await renew(page, readDocument(page)));
writeFileSync(`${ROOT}headrace.schema.json`, settingsJsonSchema());
writeFileSync(`${ROOT}ops/helm/headrace/values.schema.json`, helmValuesSchema());
writeFileSync(`${ROOT}man/headrace.1`, await renewedManPage());
