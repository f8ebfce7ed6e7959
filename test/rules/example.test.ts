// The examples of the README that are programs, run as they stand there but for the address of a server they name.

import { execFile } from 'node:child_process';
import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import t from 'tap';
import { createHost } from '../../src/testkit.ts';
import { site } from '../support/site.ts';

type Tap = Pick<typeof t, 'teardown'>;

const root = new URL('../../../', import.meta.url);

/** The program between the markers of that name. */
function example(name: string): string {
  const pattern = new RegExp(`<!-- example:${name} -->\\s*\`\`\`ts\\n([\\s\\S]*?)\`\`\`\\s*<!-- /example:${name} -->`);
  const source = pattern.exec(readFileSync(new URL('README.md', root), 'utf8'))?.[1];
  if (source === undefined) throw new Error(`the README has no example ${name}`);
  return source;
}

/** Runs a program inside the package, so that the name resolves to it as it would in node_modules. */
async function run(t: Tap, source: string, extension: string, ...args: string[]): Promise<string> {
  const file = fileURLToPath(new URL(`dist/readme-example-${process.pid}.${extension}`, root));
  writeFileSync(file, source);
  t.teardown(() => rmSync(file));
  return (await promisify(execFile)(process.execPath, [file, ...args])).stdout;
}

t.test('the embed example of the README works', async (t) => {
  const source = example('embed');
  t.match(source, "from 'headrace'");
  t.match(source, '127.0.0.1:9001');

  const host = createHost({ models: ['atlas-27b'], timeToFirstTokenMs: 0, interTokenMs: 0 });
  const address = new URL(await host.listen()).host;
  t.teardown(() => host.close());

  const stdout = await run(t, source.replaceAll('127.0.0.1:9001', address), 'mjs');
  t.match(stdout, /^http:\/\/127\.0\.0\.1:\d+ 200 /);
  t.match(stdout, 'chat.completion');
});

t.test('the engine of the README works', async (t) => {
  const items = [{ name: 'Weirs', link: 'https://millrace.example/weirs', about: 'A low wall across a river.' }];
  const { asked, origin } = await site(t, {
    '/find': (_, response) => response.writeHead(200).end(JSON.stringify({ items })),
  });
  const stdout = await run(t, example('engine'), 'ts', origin);
  t.same(asked, ['/find?q=weir&limit=10']);
  t.match(JSON.parse(stdout), [{ title: 'Weirs', url: 'https://millrace.example/weirs', found_in: ['catalogue'] }]);
});

t.test('the cleaning of the README works', async (t) => {
  t.match(JSON.parse(await run(t, example('clean'), 'ts')), {
    title: 'Weirs',
    content: 'A weir is a low wall across a [river](https://millrace.example/river).',
    wordCount: Number,
  });
});
