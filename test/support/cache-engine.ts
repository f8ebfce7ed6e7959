// The engine of the shared cache in memory, for tests: entries with lifetimes by a manual clock, and faults that the test controls.

import type { Clock } from '../../src/actor/index.ts';
import type { CacheEngine } from '../../src/cluster/shared-cache.ts';

export interface FakeCacheEngine extends CacheEngine {
  connected: boolean;
  /** Values and the times at which they end; Infinity: never. */
  readonly entries: Map<string, { readonly value: Buffer; readonly endMs: number }>;
  /** Commands, without their values. */
  readonly asked: string[];
  /** Replies that the engine owes while `isSlow`. */
  isSlow: boolean;
  fails: boolean;
}

export function fakeCacheEngine(clock: Clock): FakeCacheEngine {
  const entries: FakeCacheEngine['entries'] = new Map();
  const asked: string[] = [];
  const alive = (name: string): { readonly value: Buffer; readonly endMs: number } | null => {
    const entry = entries.get(name);
    return entry !== undefined && entry.endMs > clock.now() ? entry : null;
  };
  const answer = (command: string, name: string, args: readonly (string | Buffer)[]): unknown => {
    const entry = alive(name);
    switch (command) {
      case 'PTTL':
        return entry === null ? -2 : entry.endMs === Infinity ? -1 : entry.endMs - clock.now();
      case 'GETRANGE':
        return entry?.value.subarray(Number(args[0]), Number(args[1]) + 1) ?? Buffer.alloc(0);
      case 'SET':
        entries.set(name, { value: args[0] as Buffer, endMs: clock.now() + Number(args[2]) });
        return 'OK';
      case 'UNLINK':
        return entries.delete(name) ? 1 : 0;
      default:
        throw new Error(`unknown command ${command}`);
    }
  };
  const engine: FakeCacheEngine = {
    connected: true,
    key: (...parts) => ['{test}', ...parts].join(':'),
    ...{ entries, asked, isSlow: false, fails: false },
    async command([command, name, ...rest]: readonly (string | Buffer)[]) {
      asked.push(`${String(command)} ${String(name)}`);
      if (engine.isSlow) return await new Promise(() => undefined);
      if (engine.fails) throw new Error('WRONGTYPE');
      return answer(String(command), String(name), rest);
    },
  };
  return engine;
}
