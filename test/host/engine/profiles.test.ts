// The built-in profiles beside the figures they come from, and their tails on a manual clock.
import { readFileSync } from 'node:fs';
import t from 'tap';
import { createManualClock, createSeededRandom } from '../../../src/actor/testkit.ts';
import { checkProfile } from '../../../src/host/engine/profile.ts';
import {
  type ProfileName,
  DEFAULT_PROFILE,
  figuresOf,
  PROFILE_NAMES,
  PROFILES,
  profileTable,
} from '../../../src/host/engine/profiles.ts';
import { Scheduler } from '../../../src/host/engine/scheduler.ts';
import { StepTimes } from '../../../src/host/engine/step-times.ts';
import { stepDurationUs } from '../../../src/host/engine/profile.ts';
import { createJob } from './jobs.ts';

/** Milliseconds of a step with so many decoding sequences, each with so many tokens. */
function decodeMs(name: ProfileName, sequences: number, tokens: number): number {
  return stepDurationUs(PROFILES[name], sequences, sequences * tokens, 0) / 1000;
}

t.test('every profile makes sense', async (t) => {
  for (const name of PROFILE_NAMES) t.doesNotThrow(() => checkProfile(PROFILES[name]), name);
  t.equal(PROFILES[DEFAULT_PROFILE].memory.kind, 'slots', 'the default host has slots');
});

t.test('profiles with a source are near its figures', async (t) => {
  const near = (found: number, published: number, share: number, what: string): void => {
    t.ok(Math.abs(found / published - 1) < share, `${what}: ${found.toFixed(2)}, published ${published}`);
  };
  near(decodeMs('8b-rtx4090', 32, 0), 9.34, 0.05, '32 tokens at 3428 tokens/s');
  near(decodeMs('8b-rtx4090', 16, 0), 8.29, 0.15, '16 tokens at 1930 tokens/s');
  near(decodeMs('8b-rtx4090', 1, 32_768), 9.73, 0.05, 'one behind 32,768');
  near(figuresOf(PROFILES['8b-rtx4090']).firstTokenMs(512), 49.4, 0.05, 'a prompt of 512');
  near(decodeMs('7b-m2-ultra', 1, 528), 12.65, 0.05, 'one');
  near(decodeMs('7b-m2-ultra', 4, 528), 17.8, 0.05, 'four');
  near(decodeMs('7b-m2-ultra', 4, 4112), 20.46, 0.05, 'four with 4096');
  near(figuresOf(PROFILES['7b-m2-ultra']).firstTokenMs(512), 337, 0.06, 'a prompt of 512');
  near(figuresOf(PROFILES['7b-m2-ultra']).firstTokenMs(4096), 2684, 0.06, 'a prompt of 4096');
  near(decodeMs('7b-cpu', 1, 64), 54.74, 0.02, 'one');
  near(decodeMs('vllm-8b-h100', 1, 200), 6.48, 0.02, 'one');
  near(decodeMs('vllm-8b-h100', 4, 200), 6.59, 0.02, 'four');
  near(8192 / figuresOf(PROFILES['vllm-8b-h100']).firstTokenMs(8192), 27.67, 0.05, 'prompt tokens a millisecond');
  near(decodeMs('sglang-8b-a100', 6.3, 350), 11.93, 0.02, 'at 4 requests/s');
  near(decodeMs('sglang-8b-a100', 17.4, 350), 14.41, 0.02, 'at 8 requests/s');
  near(decodeMs('vllm-70b-4xh100', 12, 350), 21.67, 0.02, 'at 4 requests/s');
  near(decodeMs('vllm-70b-4xh100', 32.5, 350), 24.45, 0.02, 'at 8 requests/s');
});

t.test('attention shows in prompts beyond 8192 tokens', async (t) => {
  for (const name of PROFILE_NAMES.filter((each) => 'prefillPairUs' in PROFILES[each])) {
    const { firstTokenMs } = figuresOf(PROFILES[name]);
    const perToken = (tokens: number): number => firstTokenMs(tokens) / tokens;
    t.ok(
      perToken(32_768) > 1.15 * perToken(8192),
      `${name}: ${(perToken(32_768) / perToken(8192)).toFixed(2)} times as long`,
    );
    t.ok(perToken(65_536) > perToken(32_768) * 1.15, name);
  }
});

/** Steps that decode alone, and times to the first token, of requests that keep a machine about half busy. */
function measure(name: ProfileName): { stepMs: number[]; firstMs: number[] } {
  const profile = PROFILES[name];
  const clock = createManualClock();
  const random = createSeededRandom(5);
  const times = new StepTimes(profile, { seed: 11 });
  const stepMs: number[] = [];
  const watched = Object.create(times, {
    next: {
      value: (startUs: number, work: Parameters<StepTimes['next']>[1]) => {
        const us = times.next(startUs, work);
        const { decodingCount, memoryTokens, prefillTokens } = work;
        // As a share of the formula, so that batches of all sizes can be compared.
        if (prefillTokens === 0) stepMs.push(us / stepDurationUs(profile, decodingCount, memoryTokens, 0));
        return us;
      },
    },
  }) as StepTimes;
  const scheduler = new Scheduler({ profile, clock, times: watched });
  const firstMs: number[] = [];
  const gapMs = 2 * (figuresOf(profile).firstTokenMs(500) + (60 * figuresOf(profile).decodeMs(4)) / 4);
  for (let request = 0; request < 1500; request++) {
    const arrivedMs = clock.now();
    let isFirst = true;
    const { job } = createJob(500, {
      maxTokens: 60,
      cachePrompt: false,
      onToken: () => {
        if (isFirst) firstMs.push(clock.now() - arrivedMs);
        isFirst = false;
      },
    });
    scheduler.submit(job);
    clock.advance(-gapMs * Math.log(1 - random()));
  }
  clock.advance(1e9);
  return { stepMs, firstMs };
}

const at = (values: readonly number[], share: number): number =>
  values.toSorted((a, b) => a - b)[Math.floor(values.length * share)]!;

t.test('machines have a tail, steady profiles have none', async (t) => {
  for (const name of PROFILE_NAMES) {
    const isSteady = !('variation' in PROFILES[name]);
    const { stepMs, firstMs } = measure(name);
    const ratio = at(stepMs, 0.99) / at(stepMs, 0.5);
    const firstRatio = at(firstMs, 0.99) / at(firstMs, 0.5);
    const said = `${name}: steps p99/p50 ${ratio.toFixed(2)}, most ${(Math.max(...stepMs) / at(stepMs, 0.5)).toFixed(1)}; first tokens p99/p50 ${firstRatio.toFixed(2)}`;
    if (isSteady) t.ok(ratio < 1.01, said);
    else t.ok(ratio > 1.03 && ratio < 1.5, said);
    if (!isSteady) t.ok(Math.max(...stepMs) > 1.5 * at(stepMs, 0.5), said);
    t.ok(firstRatio > 1 && firstRatio < 8, said);
    t.comment(said);
  }
});

t.test('the documentation has the table of the profiles', async (t) => {
  const page = readFileSync('docs/simulated-engine.md', 'utf8').replaceAll(/ +/g, ' ');
  for (const [name = '', ...cells] of profileTable().rows) {
    t.ok(page.includes(`| \`${name}\` | ${cells.join(' | ')} |`), name);
  }
});
