// What the log says about CRNs. Called by the control plane.

import { type CrnEvent, STANDING } from '../routing/index.ts';
import type { Log } from '../telemetry/log.ts';
import { STANDING_WORDS } from '../admin/index.ts';

export function logCrn(log: Log, event: CrnEvent): void {
  if (event.type === 'standing') {
    const { model, standing, url } = event;
    const level = standing === STANDING.down ? 'warn' : 'info';
    log[level]({ crn: url, model, standing: STANDING_WORDS.get(standing) }, 'CRN judged');
  } else if (event.type === 'ejected') {
    log.warn({ crn: event.url, forMs: Math.round(event.forMs), failure: event.failure }, 'CRN ejected');
  } else if (event.type === 'left out') {
    log.error({ crn: event.url, model: event.model }, 'CRN left out: there are more than the board holds');
  } else if (event.type === 'drained') {
    log.warn({ crn: event.url }, 'CRN drained');
  } else if (event.type === 'returned') {
    log.info({ crn: event.url }, 'CRN returned');
  }
}
