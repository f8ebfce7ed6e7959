// Preloaded into every test process (`.taprc`). tap registers a module loader, for mocks and coverage, which runs in a thread
// of its own and takes half of the start-up time of every process and worker of a test. The tests use neither.

import Module from 'node:module';

Module.register = () => undefined;
// The option of `.taprc` is relative; processes that start in other folders inherit this one.
process.env['NODE_OPTIONS'] = `--import=${import.meta.url}`;
