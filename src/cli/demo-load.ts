// A gentle load for the demo: a few users in chats of several turns, below system messages that they share, so that caches of
// prompts and the choice of CRNs have something to show. It takes a few per cent of one core.

import { createSeededRandom, systemClock } from '../actor/index.ts';
import { LoadClient, LoadRun, syntheticWorkload } from '../load/index.ts';

/** Users of each model, who begin one after the other. */
const USERS = 4;
const RAMP_MS = 4000;
/** What a person takes to read an answer and to write. */
const THINK_MS = 1500;
const TIMEOUT_MS = 60_000;

/** About what a chat with instructions and some documents looks like, in tokens. */
const CHATS = {
  inputTokens: { least: 20, most: 80 },
  outputTokens: { least: 24, most: 72 },
  turns: { least: 3, most: 8 },
  prefixes: 3,
  prefixTokens: 1200,
};

/** Sends load to these models until it is stopped. Answers of all kinds are taken as they come. */
export function startDemoLoad(url: string, key: string, models: readonly string[]): { stop(): void } {
  const runs = models.map((model, index) => {
    const settings = { dialect: 'chat-completions', stream: true } as const;
    const client = { ...settings, url: new URL(url), key, headers: {}, timeoutMs: TIMEOUT_MS, truth: false };
    return new LoadRun(
      {
        ...settings,
        model,
        ...{ ignoreEos: true, extra: {}, arrivals: { kind: 'closed', users: USERS, rampMs: RAMP_MS } },
        ...{ warmUpMs: 0, durationMs: Infinity, requests: Infinity, thinkMs: THINK_MS, maxInFlight: USERS, graceMs: 0 },
      },
      {
        clock: systemClock,
        random: createSeededRandom(index + 1),
        sender: new LoadClient(client, systemClock),
        workload: syntheticWorkload({ ...CHATS, seed: index + 1 }),
        onSample: () => undefined,
      },
    );
  });
  for (const run of runs) void run.run();
  return {
    stop: () => {
      for (const run of runs) run.stop();
    },
  };
}
