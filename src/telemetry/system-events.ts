// Events of the actor kernel as lines of the log.

import type { SystemEvent } from '../actor/index.ts';
import { stackOf } from '../errors.ts';

/** One line about an event of the actor kernel. Messages inside events are left out: they may hold requests. */
export function describeEvent(event: SystemEvent): string {
  switch (event.type) {
    case 'failure':
      return `actor ${event.path} failed (${event.decision}): ${stackOf(event.error)}`;
    case 'signal-failure':
      return `actor ${event.path} failed while stopping: ${stackOf(event.error)}`;
    case 'dead-letter':
      return `message to ${event.path} was not delivered: ${event.reason}`;
    case 'link-failure':
      return `a link between threads failed: ${stackOf(event.error)}`;
  }
}
