// System events of the actor kernel in words, for the log. Messages inside events are not printed: they may hold
// requests.

import type { Log } from '../telemetry/log.ts';
import type { SystemEvent } from '../actor/index.ts';

/** One line about an event. */
export function describeEvent(event: SystemEvent): string {
  switch (event.type) {
    case 'failure':
      return `actor ${event.path} failed (${event.decision}): ${text(event.error)}`;
    case 'signal-failure':
      return `actor ${event.path} failed while stopping: ${text(event.error)}`;
    case 'dead-letter':
      return `message to ${event.path} was not delivered: ${event.reason}`;
    case 'link-failure':
      return `a link between threads failed: ${text(event.error)}`;
  }
}

function text(error: unknown): string {
  return error instanceof Error ? (error.stack ?? error.message) : String(error);
}

/** Says why node:http serves although uWebSockets.js was wanted. */
export function warnFallback(log: Log, reason: string): void {
  log.warn({ reason }, 'uWebSockets.js does not load here: node:http serves instead, at a higher cost per request');
}
