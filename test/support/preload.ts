// Preloaded into every test process (`.taprc`) to switch off what tap adds to all code and the tests do without.

import asyncHooks, { type AsyncHook } from 'node:async_hooks';
import Module, { syncBuiltinESMExports } from 'node:module';
import { COMPILE_CACHE } from './compile-cache.ts';

// The module loader for mocks and coverage runs in a thread of its own and takes half of the start-up time of every process and worker.
Module.register = () => undefined;

// Hooks around every promise tell tap to which test an error belongs that nothing has caught, and take a tenth to a quarter of the CPU
// time of tests with many promises. Without them such an error still fails its file, with its stack.
const noHook: AsyncHook = { enable: () => noHook, disable: () => noHook };
asyncHooks.createHook = () => noHook;
syncBuiltinESMExports();

// The oldest versions that tests start have none.
Module.enableCompileCache?.(COMPILE_CACHE.NODE_COMPILE_CACHE);
Object.assign(process.env, COMPILE_CACHE);

// The option of `.taprc` is relative; processes that start in other folders inherit this one.
process.env['NODE_OPTIONS'] = `--import=${import.meta.url}`;
