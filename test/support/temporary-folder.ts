// A folder for what a test opens and closes. tap removes its own (`t.testdir()`) before the teardowns of the test run: a gateway that is
// closed there finds its store gone, and tries for ten seconds to settle its accounts.

import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Test } from 'tap';

/** Makes an empty folder, which is removed behind all teardowns that are added later. */
export function temporaryFolder(t: Pick<Test, 'teardown'>): string {
  const folder = mkdtempSync(join(tmpdir(), 'headrace-test-'));
  t.teardown(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}
