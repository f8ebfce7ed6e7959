// `POST /svc/credits`: credits for an account, paid by x402. Open to everybody: the payment is the credential. A client that
// leaves does not stop a purchase; when it repeats the request, it gets the answer.

import { HeadraceError } from '../errors.ts';
import type { Exchange } from '../ingress/exchange.ts';
import { respondError, respondJson } from '../ingress/respond.ts';
import { presentedPayment, resourceOf, respondUnpaid } from './payment.ts';
import { refuseDeep, KEYLESS_UPLOAD_BYTES } from './pipeline.ts';
import { creditPurchase, readBody } from './schema.ts';
import type { ApiDeps } from './deps.ts';

export type CreditsDeps = Pick<ApiDeps, 'settings' | 'paymentProcessor'>;

/** Serves a purchase; every refusal is answered. */
export function credits(exchange: Exchange, deps: CreditsDeps): void {
  exchange.keyless = true;
  exchange.readBody((error, body) => {
    try {
      if (error !== null) throw error;
      refuseDeep(body, deps);
      const { address, amount } = readBody(creditPurchase, body, exchange.contentType);
      const { paymentProcessor, settings } = deps;
      if (paymentProcessor === null) throw new HeadraceError('HR_PAYMENT_OFF');
      const resource = resourceOf(exchange, settings.publicScheme);
      const bought = paymentProcessor.purchase({ address, amount, resource, payment: presentedPayment(exchange) });
      bought.then(
        (answer) => {
          if (answer.kind === 'sold') respondJson(exchange, 200, answer.body, answer.headers);
          else respondUnpaid(exchange, settings, answer);
        },
        (thrown: unknown) => respondError(exchange, thrown),
      );
    } catch (thrown) {
      respondError(exchange, thrown);
    }
  }, KEYLESS_UPLOAD_BYTES);
}
