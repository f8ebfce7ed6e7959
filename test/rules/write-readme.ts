// `npm run docs`: writes the generated parts of the README.

import { execFileSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { renew } from './readme.ts';

const file = new URL('../../../README.md', import.meta.url);
writeFileSync(file, renew(readFileSync(file, 'utf8')));
execFileSync('prettier', ['--write', file.pathname], { stdio: 'inherit' });
