// Subscribes to KV events and prints what it knows as one line of JSON for each line that it reads. For interop.py.
import { createInterface } from 'node:readline';
import { systemClock } from '../../dist/src/actor/index.js';
import { KvEventSubscription } from '../../dist/src/routing/kv-event-subscription.js';

const [endpoint, replay, topic] = process.argv.slice(2);
const report = (what) => (problem) => console.error(what, problem);
const subscription = new KvEventSubscription(
  { endpoint, replay, topic },
  {
    clock: systemClock,
    onApplied: () => {},
    onCleared: () => {},
    onConnection: () => {},
    onRejected: report('rejected'),
    onReplayFailed: report('replay failed'),
  },
);
const lines = createInterface({ input: process.stdin });
lines.on('line', () => {
  const { residentTokens, capacityTokens } = subscription.residency;
  console.log(JSON.stringify({ ...subscription.counts, residentTokens, capacityTokens }));
});
lines.on('close', () => subscription.close());
