// How often a gateway tells its siblings what it has chosen. A message costs each gateway about the same whatever is in it, so that a few choices
// share one; and it is late by as much as the pause before it. Pure: times are arguments.

/** Shortest and longest pause between two messages, in milliseconds. */
export const LEAST_PAUSE_MS = 20;
const MOST_PAUSE_MS = 100;

/** Choices that share a message at most, where pauses allow it. */
const MOST_CHOICES = 16;

/** Choices of the last message count so much in the rate. */
const WEIGHT = 1 / 8;

export class TellingPace {
  /** Time for a choice, in milliseconds: mean of the last messages. */
  #msPerChoice = MOST_PAUSE_MS;
  #sentMs = -Infinity;

  /** A message with so many choices was sent. */
  sent(choices: number, nowMs: number): void {
    const elapsedMs = Math.min(nowMs - this.#sentMs, MOST_PAUSE_MS);
    this.#sentMs = nowMs;
    // Without a choice it tells of answers that have ended.
    if (choices === 0) return;
    this.#msPerChoice += WEIGHT * (elapsedMs / choices - this.#msPerChoice);
  }

  /** When the next message may be sent, with so many choices in each (1 to 16): at once after a pause in which nothing was chosen. */
  dueMs(choices: number): number {
    const pauseMs = Math.min(Math.max(choices, 1), MOST_CHOICES) * this.#msPerChoice;
    return this.#sentMs + Math.min(Math.max(pauseMs, LEAST_PAUSE_MS), MOST_PAUSE_MS);
  }
}
