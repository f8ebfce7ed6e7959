import t from 'tap';
import { metricsText } from '../../src/telemetry/exposition.ts';
import { PaymentMetrics } from '../../src/telemetry/payment-metrics.ts';

t.test('payments are counted, and open ones show how old they are', async (t) => {
  const metrics = new PaymentMetrics();
  const text = (): string => metricsText([metrics.snapshot()]);
  t.match(await text(), 'headrace_payment_settlements_total{outcome="open"} 0', 'also before the first');
  metrics.settled('open');
  metrics.settled('settled');
  metrics.round({ posted: 2, closed: 1, open: 3, openSinceMs: 1_000 }, 61_000);
  metrics.readQueues(() => ({ verifying: 4, waiting: 5, unpaid: 6 }));
  for (const line of [
    'headrace_payment_settlements_total{outcome="open"} 1',
    'headrace_payment_settlements_total{outcome="settled"} 1',
    'headrace_payment_inquiries_total{result="posted"} 2',
    'headrace_payment_inquiries_total{result="closed"} 1',
    'headrace_payments_open 3',
    'headrace_payment_open_seconds 60',
    'headrace_payment_requests{state="unpaid"} 6',
    'headrace_payment_requests{state="verifying"} 4',
    'headrace_payment_requests{state="waiting"} 5',
  ]) {
    t.match(await text(), line);
  }
  metrics.round({ posted: 0, closed: 0, open: 0, openSinceMs: null }, 70_000);
  t.match(await text(), 'headrace_payment_open_seconds 0');
});
