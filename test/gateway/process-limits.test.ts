// What the system allows the process, and what that leaves for clients.
import { execFileSync } from 'node:child_process';
import { totalmem } from 'node:os';
import t from 'tap';
import { resolveSettings } from '../../src/config/load.ts';
import type { Settings, SettingsInput } from '../../src/config/settings.ts';
import { processLimits, withinProcess } from '../../src/gateway/process-limits.ts';

const MIB = 1024 * 1024;
const NONE = { files: Infinity, memoryBytes: Infinity };

function limitsOf(limits: SettingsInput['limits'] = {}): Settings['limits'] {
  const resolved = resolveSettings({ limits });
  if ('mistakes' in resolved) throw new Error(JSON.stringify(resolved.mistakes));
  return resolved.settings.limits;
}

t.test('the limits are those of the process', (t) => {
  const module = JSON.stringify(new URL('../../src/gateway/process-limits.js', import.meta.url));
  const script = `import(${module}).then(({ processLimits }) => console.log(processLimits().files))`;
  const limited = execFileSync('sh', ['-c', 'ulimit -n 123; exec "$0" "$@"', process.execPath, '-e', script]);
  t.equal(limited.toString().trim(), '123');
  const { files, memoryBytes } = processLimits();
  t.ok(files > 123);
  t.ok(memoryBytes > 64 * MIB && memoryBytes <= totalmem(), `${memoryBytes}`);
  t.end();
});

t.test('settings hold where the process has enough', (t) => {
  const limits = limitsOf();
  t.same(withinProcess(limits, NONE, 4), limits);
  t.same(withinProcess(limits, { files: 1_048_576, memoryBytes: 4096 * MIB }, 4), limits);
  const few = limitsOf({ connections: 100, bufferedBytes: '100MiB' });
  t.same(withinProcess(few, { files: 1024, memoryBytes: 512 * MIB }, 2), few);
  t.end();
});

t.test('every connection of a client leaves a descriptor for one to a server', (t) => {
  const limits = limitsOf();
  for (const threads of [1, 2, 4, 16]) {
    for (const files of [1024, 4096, 65_536, 524_288]) {
      const { connections } = withinProcess(limits, { ...NONE, files }, threads);
      t.ok(2 * connections * threads <= files - 64, `${connections} in each of ${threads} of ${files}`);
      t.ok(connections === 65_536 || 2 * (connections + 1) * threads > files - 64 - 32 * threads);
    }
  }
  t.equal(withinProcess(limits, { ...NONE, files: 100 }, 8).connections, 1, 'at least one');
  t.end();
});

t.test('bodies leave half of the memory', (t) => {
  const limits = limitsOf();
  const applied = (memoryMib: number): number[] => {
    const { bodyBytes, bufferedBytes } = withinProcess(limits, { ...NONE, memoryBytes: memoryMib * MIB }, 1);
    return [bufferedBytes / MIB, bodyBytes / MIB];
  };
  t.same(applied(2048), [896, 100]);
  t.same(applied(512), [128, 100]);
  t.same(applied(384), [64, 64], 'no body is longer than all of them may be');
  t.same(applied(128), [32, 32]);
  t.end();
});
