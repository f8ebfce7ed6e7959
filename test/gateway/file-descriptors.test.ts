// How many connections of clients the file descriptors of a process allow.
import { execFileSync } from 'node:child_process';
import t from 'tap';
import { clientConnections, openFileLimit } from '../../src/gateway/file-descriptors.ts';

t.test('the limit of open files is that of the process', (t) => {
  const module = JSON.stringify(new URL('../../src/gateway/file-descriptors.js', import.meta.url));
  const script = `import(${module}).then(({ openFileLimit }) => console.log(openFileLimit()))`;
  const limited = execFileSync('sh', ['-c', 'ulimit -n 123; exec "$0" "$@"', process.execPath, '-e', script]);
  t.equal(limited.toString().trim(), '123');
  t.ok(openFileLimit() > 123);
  t.end();
});

t.test('every connection of a client leaves a descriptor for one to a server', (t) => {
  t.equal(clientConnections(65_536, Infinity, 4), 65_536);
  t.equal(clientConnections(65_536, 1_048_576, 4), 65_536);
  t.equal(clientConnections(100, 1024, 2), 100, 'fewer are wanted');
  for (const threads of [1, 2, 4, 16]) {
    for (const openFiles of [1024, 4096, 65_536, 524_288]) {
      const connections = clientConnections(65_536, openFiles, threads);
      t.ok(2 * connections * threads <= openFiles - 64, `${connections} in each of ${threads} of ${openFiles}`);
      t.ok(connections === 65_536 || 2 * (connections + 1) * threads > openFiles - 64 - 16 * threads);
    }
  }
  t.equal(clientConnections(65_536, 100, 8), 1, 'at least one');
  t.end();
});
