import { chmodSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { startBrowser } from '../../src/cli/demo-browser.ts';
import { until } from '../support/system.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

t.test('a browser behind a script that stays in front of it ends with it', async (t) => {
  const program = join(temporaryFolder(t), 'browser');
  // The host is named after the process that prints it.
  writeFileSync(
    program,
    `#!/bin/sh
sh -c 'echo "DevTools listening on ws://$$.test/" >&2; exec sleep 60'
exit 0
`,
  );
  chmodSync(program, 0o755);
  const started = await startBrowser({ names: [program] });
  if (started === null) throw new Error('the browser does not start');
  const pid = Number.parseInt(new URL(started.url).hostname);
  t.not(pid, started.pid);
  t.ok(isAlive(pid));
  await started.close();
  // An orphan is gone when the first process of the system has read how it ended.
  await until('the browser has ended', () => !isAlive(pid));
  await started.close();
});

t.test('no browser is started where none is installed, or where none says that it listens', async (t) => {
  const program = join(temporaryFolder(t), 'browser');
  writeFileSync(program, '#!/bin/sh\necho "no display" >&2\nexit 1\n');
  chmodSync(program, 0o755);
  t.equal(await startBrowser({ names: [join(temporaryFolder(t), 'absent'), program] }), null);
});

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}
