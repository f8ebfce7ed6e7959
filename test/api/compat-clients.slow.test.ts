// The real clients of Tavily and Firecrawl, in JavaScript and Python, through a gateway. `bench/clients/search/run.mjs --install` puts
// them into `.search-clients`; without them nothing is tested, and the output says so.

import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import t from 'tap';

const TOOLS = '.search-clients';
const RUN = 'bench/clients/search/run.mjs';
const NEEDED = [`${TOOLS}/venv/bin/python`, `${TOOLS}/node_modules/@tavily/core`];

if (NEEDED.every((file) => existsSync(file))) {
  t.test('every case of every client works', async (t) => {
    // A clean environment: the test runner's loader is not for other programs.
    const env = { PATH: process.env['PATH'] };
    const { status, stderr, stdout } = spawnSync(process.execPath, [RUN, '--tools', TOOLS], { encoding: 'utf8', env });
    t.equal(status, 0, stdout + stderr);
    for (const client of ['@tavily/core', '@mendable/firecrawl-js', 'tavily-python', 'firecrawl-py']) {
      t.match(stdout, new RegExp(`\\| ${client} +\\| ok +\\| ok +\\| ok +\\|`));
    }
  });
} else {
  t.comment(`no clients of search and fetch: node ${RUN} --tools ${TOOLS} --install`);
  t.pass('nothing to test');
}
