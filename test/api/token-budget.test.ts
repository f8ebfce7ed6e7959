// What an inference request may cost, and the output limit that follows from what it gets.

import fc from 'fast-check';
import t from 'tap';
import { clampTokens, TokenBudget } from '../../src/api/token-budget.ts';
import { costOf, type ModelPrice } from '../../src/billing/index.ts';
import type { TokenBounds } from '../../src/dialect/index.ts';

const PRICE: ModelPrice = { prompt: 2, completion: 10, cachedPrompt: 1 };

function bounds(over: Partial<TokenBounds> = {}): TokenBounds {
  const base = { promptTokens: 100, mostPromptTokens: 600, answers: 1, limit: undefined };
  return { ...base, context: Infinity, free: Infinity, surelyFree: Infinity, ...over };
}

t.test('a request may cost its longest prompt and the longest answer that is held for', (t) => {
  const rows: [over: Partial<TokenBounds>, least: number, most: number, leastTokens: number, mostTokens: number][] = [
    [{}, 200 + 160, 1200 + 1000 * 10, 116, 1600],
    [{ limit: 50 }, 360, 1200 + 500, 116, 650],
    [{ limit: 5 }, 250, 1250, 105, 605],
    [{ limit: 0 }, 200, 1200, 100, 600],
    [{ limit: 0, answers: Number.MAX_SAFE_INTEGER }, 200, 1200, 100, 600],
    [{ limit: 50, answers: 3 }, 200 + 480, 1200 + 1500, 148, 750],
    [{ limit: 1e12, context: 4000, free: 3900, surelyFree: 3500 }, 360, 1200 + 40_000, 116, 4600],
    [{ context: 1200, free: 1100, surelyFree: 700 }, 360, 1200 + 12_000, 116, 1800],
  ];
  for (const [over, least, most, leastTokens, mostTokens] of rows) {
    t.match(new TokenBudget(bounds(over), 1000, PRICE), { least, most, leastTokens, mostTokens }, JSON.stringify(over));
  }
  t.match(new TokenBudget(bounds(), 1000), { least: 0, most: 0, leastTokens: 116, mostTokens: 1600 }, 'a free model');
  t.match(new TokenBudget(bounds({ limit: 1e30 }), 1000, PRICE), { most: Number.MAX_SAFE_INTEGER });
  const huge = bounds({ limit: Number.MAX_SAFE_INTEGER, answers: 1e6 * Number.MAX_SAFE_INTEGER });
  t.match(new TokenBudget(huge, 1000, { ...PRICE, completion: 0 }), { least: 200, most: 1200 }, 'free output');
  t.match(new TokenBudget(bounds(), 1000, { ...PRICE, cachedPrompt: 3 }), { most: 1800 + 10_000 }, 'the dearer prompt');
  t.end();
});

t.test('the limit that is written is what the credit covers', (t) => {
  const all = Number.MAX_SAFE_INTEGER;
  const rows: [over: Partial<TokenBounds>, amount: number, tokens: number, limit: number | undefined][] = [
    [{}, all, Infinity, 1000],
    [{}, 11_200, Infinity, 1000],
    [{}, 5200, Infinity, 500],
    [{}, 0, Infinity, 1],
    [{ answers: 2 }, 5200, Infinity, 250],
    [{ limit: 50 }, all, Infinity, 50],
    [{ limit: 50 }, 500, Infinity, 30],
    [{}, all, 150, 50],
    [{ limit: 80 }, 500, 150, 30],
    [{ limit: 0 }, all, Infinity, 0],
    // The context is the limit, unless credit is the lower one.
    [{ context: 1200, free: 1100, surelyFree: 700 }, 13_200, Infinity, undefined],
    [{ context: 1200, free: 1100, surelyFree: 700 }, 5200, Infinity, 500],
    [{ context: 1200, free: 1100, surelyFree: 700 }, 11_200, Infinity, 700],
    [{ context: 1200, free: 1100, surelyFree: -50 }, 11_200, Infinity, 550],
    [{ limit: 1e12, context: 4000 }, all, Infinity, 1e12],
  ];
  for (const [over, amount, tokens, limit] of rows) {
    t.equal(new TokenBudget(bounds(over), 1000, PRICE).limitFor(amount, tokens), limit, JSON.stringify([over, amount]));
  }
  t.equal(new TokenBudget(bounds({ limit: 50 }), 1000, { ...PRICE, completion: 0 }).limitFor(1, Infinity), undefined);
  t.end();
});

t.test('a wallet pays for the estimate of its prompt and the longest answer that it gets', (t) => {
  const rows: [over: Partial<TokenBounds>, answer: number][] = [
    [{}, 1000],
    [{ limit: 50 }, 50],
    [{ limit: 1e9, context: 1200, free: 1100, surelyFree: 700 }, 1100],
    [{ context: 1200, free: 1100, surelyFree: 700 }, 700],
    [{ context: 1200, free: 1200, surelyFree: -9000 }, 600],
  ];
  for (const [over, answer] of rows) {
    const budget = new TokenBudget(bounds({ ...over, answers: 2 }), 1000, PRICE);
    t.equal(budget.longestAnswer, answer, JSON.stringify(over));
    t.same(budget.longest, { promptTokens: 100, completionTokens: 2 * answer, cachedTokens: 0 });
  }
  t.end();
});

t.test('counts of a server are cut to the bounds', (t) => {
  const budget = new TokenBudget(bounds({ answers: 2, context: 5000 }), 1000, PRICE);
  const counted = { promptTokens: 601, completionTokens: 101, cachedTokens: 999, measured: true };
  t.same(clampTokens(counted, budget.bounds, 50), {
    promptTokens: 600,
    completionTokens: 100,
    cachedTokens: 600,
    measured: true,
  });
  t.same(clampTokens({ ...counted, completionTokens: 1e8 }, budget.bounds, undefined), {
    ...counted,
    promptTokens: 600,
    completionTokens: 10_000,
    cachedTokens: 600,
  });
  const honest = { promptTokens: 600, completionTokens: 100, cachedTokens: 9 };
  t.equal(clampTokens(honest, budget.bounds, 50), honest);
  t.end();
});

t.test('with all that it may cost in hand, no honest answer costs more', async () => {
  const count = fc.nat(5000);
  fc.assert(
    fc.property(
      fc.record({ promptTokens: count, extra: count, answers: fc.integer({ min: 1, max: 9 }) }),
      fc.option(count, { nil: undefined }),
      fc.option(fc.integer({ min: 1, max: 6000 }), { nil: Infinity }),
      fc.record({ prompt: fc.nat(9), completion: fc.nat(9), cachedPrompt: fc.nat(9) }),
      fc.record({ promptTokens: count, completionTokens: count, cachedTokens: count }),
      fc.double({ min: 0, max: 1, noNaN: true }),
      ({ answers, extra, promptTokens }, limit, context, price, reported, share) => {
        const prompt = Math.min(promptTokens, context);
        const mostPromptTokens = Math.min(promptTokens + extra, context);
        const free = prompt < context ? context - prompt : context;
        const budget = new TokenBudget(
          { promptTokens: prompt, mostPromptTokens, answers, limit, context, free, surelyFree: context - 2 * prompt },
          1000,
          price,
        );
        const held = Math.floor(budget.least + share * (budget.most - budget.least));
        const written = budget.limitFor(held, Infinity);
        const clamped = clampTokens(reported, budget.bounds, written ?? limit);
        const fromEstimate = { ...clamped, promptTokens: Math.min(clamped.promptTokens, prompt) };
        return (
          budget.least <= budget.most &&
          budget.leastTokens <= budget.mostTokens &&
          costOf(price, clampTokens(reported, budget.bounds, budget.limitFor(budget.most, Infinity) ?? limit)) <=
            budget.most &&
          // With less in hand, an answer to a prompt that is no longer than estimated stays within it.
          (price.cachedPrompt > price.prompt || costOf(price, fromEstimate) <= held)
        );
      },
    ),
    { numRuns: 5000 },
  );
});
