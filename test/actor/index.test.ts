// The public names of the kernel; a name that disappears breaks whoever embeds it.

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
    'createSystem',
    'link',
    'systemClock',
    'systemRandom',
  ]);
  t.end();
});
