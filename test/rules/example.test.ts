// The embed example of the README, run as it stands there but for the address of the server it names.

import { execFile } from 'node:child_process';
import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import t from 'tap';
import { createHost } from '../../src/testkit.ts';

const root = new URL('../../../', import.meta.url);
const EXAMPLE = /<!-- example:embed -->\s*```ts\n([\s\S]*?)```\s*<!-- \/example:embed -->/;

t.test('the embed example of the README works', async (t) => {
  const source = EXAMPLE.exec(readFileSync(new URL('README.md', root), 'utf8'))?.[1];
  if (source === undefined) throw new Error('the README has no embed example');
  t.match(source, "from 'headrace'");
  t.match(source, '127.0.0.1:9001');

  const host = createHost({ models: ['atlas-27b'], timeToFirstTokenMs: 0, interTokenMs: 0 });
  const address = new URL(await host.listen()).host;
  t.teardown(() => host.close());

  // Inside the package, so that the name resolves to it as it would in node_modules.
  const file = fileURLToPath(new URL(`dist/readme-example-${process.pid}.mjs`, root));
  writeFileSync(file, source.replaceAll('127.0.0.1:9001', address));
  t.teardown(() => rmSync(file));
  const { stdout } = await promisify(execFile)(process.execPath, [file]);
  t.match(stdout, /^http:\/\/127\.0\.0\.1:\d+ 200 /);
  t.match(stdout, 'chat.completion');
});
