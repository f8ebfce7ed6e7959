// Cases of messages between actors of one thread: bursts, one message per wake-up, and `ask` with its reply. `../actor.mjs` has
// the costs of links and of spawning.

const CAPACITY = 1 << 17;

/** The cases of this file: see `../measure.mjs`. */
export async function cases(load) {
  const { ask, createSystem } = await load('src/actor/index.js');
  const system = createSystem({ name: 'bench' });
  const mailbox = { capacity: CAPACITY, overflow: 'drop-new' };
  let left = 0;
  let done = () => {};
  const behavior = () => () => {
    if (--left === 0) done();
  };
  const sink = system.spawn(behavior, { mailbox });
  const echo = system.spawn(
    () => (message) => {
      message.replyTo.tell(message.value);
    },
    { mailbox },
  );
  const message = { type: 'Add', by: 1 };
  const burst = (count) =>
    new Promise((resolve) => {
      left = count;
      done = resolve;
      for (let sent = 0; sent < count; sent++) sink.tell(message);
    });
  const options = { timeoutMs: 60_000 };
  const question = (value) => ask(echo, (replyTo) => ({ value, replyTo }), options);
  return {
    'tell, bursts of 10 000': { calls: 10_000, run: () => burst(10_000) },
    'tell, a wake-up each': { calls: 1, run: () => burst(1) },
    'ask, one at a time': { calls: 1, run: () => question(1) },
    'ask, 64 at a time': { calls: 64, run: () => Promise.all(Array.from({ length: 64 }, (_, at) => question(at))) },
  };
}
