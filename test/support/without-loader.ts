// Preloaded into every test process (`.taprc`) to switch off the module loader that tap registers for mocks and coverage. The tests use
// neither, and the loader runs in a thread of its own and takes half of the start-up time of every process and worker.

import Module from 'node:module';

Module.register = () => undefined;
// The option of `.taprc` is relative; processes that start in other folders inherit this one.
process.env['NODE_OPTIONS'] = `--import=${import.meta.url}`;
