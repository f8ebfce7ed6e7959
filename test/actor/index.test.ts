// The public names of `headrace/actor`: removing one breaks programs that use it.

import t from 'tap';
import * as actor from '../../src/actor/index.ts';

t.test('exports exactly its public names', (t) => {
  t.same(Object.keys(actor).sort(), [
    'ActorError',
    'AskTimeoutError',
    'EscalatedError',
    'MailboxFullError',
    'TerminatedError',
    'ask',
    'backoffMs',
    'createManualClock',
    'createSeededRandom',
    'createSystem',
    'link',
    'systemClock',
    'systemEpochMs',
    'systemRandom',
    'unreferenced',
  ]);
  t.end();
});
