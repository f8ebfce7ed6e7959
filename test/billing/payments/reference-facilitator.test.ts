// The reference facilitator of x402 (`@x402/evm`) over a scripted chain: what its answers look like when broadcasts and receipts go
// wrong, in both versions, and that the gateway reads no certainty into them that they do not have.

import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import { ExactEvmScheme } from '@x402/evm/exact/facilitator';
import { ExactEvmSchemeV1 } from '@x402/evm/exact/v1/facilitator';
import t, { type Test } from 'tap';
import { encodeAbiParameters, parseAbiParameters } from 'viem';
import { systemClock } from '../../../src/actor/clock.ts';
import { Chain, type SignedTransfer } from '../../../src/billing/payments/chain.ts';
import { Facilitator } from '../../../src/billing/payments/facilitator.ts';
import { facilitatorBody } from '../../../src/billing/payments/offer.ts';
import { decodePayment } from '../../../src/billing/payments/signed-payment.ts';
import { TestChain } from '../../support/chain.ts';
import { encodeHeader, headerV1, Payer, SEPOLIA_USDC, signedPayload } from '../../support/payer.ts';
import { MERCHANT, RESOURCE, wanted } from './payment-fixture.ts';

type Hex = `0x${string}`;

/** What becomes of a broadcast: the node refuses it, its answer is lost, its receipt is late or says that it has failed. */
type Broadcast = 'good' | 'refused' | 'answer lost' | 'receipt late' | 'reverted';

const VALUE = 20_000n;
const TRANSACTION: Hex = `0x${'5e'.repeat(32)}`;

const nowS = (): number => Math.floor(systemClock.now() / 1000);

/** The signer of the facilitator: a node of the chain, as far as the facilitator looks at it. */
class ScriptedSigner {
  broadcast: Broadcast = 'good';
  funds = VALUE;
  readonly #node: TestChain;

  constructor(node: TestChain) {
    this.#node = node;
  }

  getAddresses(): readonly Hex[] {
    return [`0x${'fa'.repeat(20)}`];
  }

  async getCode({ address }: { address: string }): Promise<Hex> {
    return address.toLowerCase() === SEPOLIA_USDC.address.toLowerCase() ? '0x60' : '0x';
  }

  async verifyTypedData(): Promise<boolean> {
    return true;
  }

  async readContract({
    args = [],
    functionName,
  }: {
    functionName: string;
    args?: readonly unknown[];
  }): Promise<unknown> {
    if (functionName === 'transferWithAuthorization') this.#check(args);
    if (functionName !== 'tryAggregate') return true;
    const used = this.#node.isUsed(...this.#last);
    const returned = [
      encodeAbiParameters(parseAbiParameters('uint256'), [this.funds]),
      encodeAbiParameters(parseAbiParameters('string'), [SEPOLIA_USDC.name]),
      encodeAbiParameters(parseAbiParameters('string'), [SEPOLIA_USDC.version]),
      encodeAbiParameters(parseAbiParameters('bool'), [used]),
    ];
    return returned.map((returnData) => ({ success: true, returnData }));
  }

  async writeContract({ args }: { args: readonly unknown[] }): Promise<Hex> {
    this.#check(args);
    if (this.broadcast === 'refused') throw new Error('nonce too low');
    const [from, to, value, , , nonce] = args as [string, string, bigint, bigint, bigint, string];
    const isReverted = this.broadcast === 'reverted';
    const operation = { kind: 'authorized', from, to, value, nonce: nonce.toLowerCase() } as const;
    this.#node.mine(
      TRANSACTION,
      [{ ...operation, from: from.toLowerCase(), to: to.toLowerCase() }],
      isReverted ? '0x0' : '0x1',
    );
    if (!isReverted) this.funds -= value;
    if (this.broadcast === 'answer lost') throw new Error('fetch failed');
    return TRANSACTION;
  }

  async sendTransaction(): Promise<Hex> {
    throw new Error('never');
  }

  async waitForTransactionReceipt(): Promise<{ status: string }> {
    if (this.broadcast === 'receipt late') throw new Error('Timed out while waiting for transaction to be confirmed');
    return { status: this.broadcast === 'reverted' ? 'reverted' : 'success' };
  }

  #last: [string, string] = ['', ''];

  #check(args: readonly unknown[]): void {
    const [from, , value, , , nonce] = args as [string, string, bigint, bigint, bigint, string];
    this.#last = [from, nonce];
    if (this.#node.isUsed(from, nonce)) throw new Error('FiatTokenV2: authorization is used or canceled');
    if (this.funds < value) throw new Error('ERC20: transfer amount exceeds balance');
  }
}

interface Body {
  readonly x402Version: 1 | 2;
  readonly paymentPayload: never;
  readonly paymentRequirements: never;
}

async function open(t: Test, version: 1 | 2) {
  const node = await new TestChain(nowS).listen();
  const signer = new ScriptedSigner(node);
  const schemes = { 1: new ExactEvmSchemeV1(signer), 2: new ExactEvmScheme(signer) };
  const reasons: unknown[] = [];
  const server = createServer((request, response) => {
    void text(request).then(async (sent) => {
      const { paymentPayload, paymentRequirements, x402Version } = JSON.parse(sent) as Body;
      const scheme = schemes[x402Version];
      const answer =
        request.url === '/verify'
          ? await scheme.verify(paymentPayload, paymentRequirements)
          : await scheme.settle(paymentPayload, paymentRequirements);
      reasons.push('errorReason' in answer ? answer.errorReason : undefined);
      response.end(JSON.stringify(answer));
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const facilitator = new Facilitator({ url }, systemClock);
  const chain = new Chain({ url: node.url }, MERCHANT.chain, systemClock);
  t.teardown(() => {
    facilitator.close();
    chain.close();
    node.close();
    server.close();
    server.closeAllConnections();
  });
  const payer = new Payer(5n);
  const wish = { nonce: 1, nowS: nowS() };
  const { asset, chain: network, payTo } = MERCHANT;
  const accepted = {
    scheme: 'exact',
    network: network.network,
    amount: `${VALUE}`,
    asset: asset.address,
    payTo,
    maxTimeoutSeconds: 900,
    extra: { name: asset.name, version: asset.version },
  };
  const header =
    version === 1
      ? headerV1(payer, wanted(VALUE), wish)
      : encodeHeader({ x402Version: 2, accepted, payload: signedPayload(payer, wanted(VALUE), wish) });
  const terms = { units: VALUE, resource: RESOURCE, description: 'd', timeoutS: 900 };
  const signed = decodePayment(header);
  const transfer: SignedTransfer = {
    asset: asset.address,
    payTo,
    payer: signed.authorization.from,
    nonce: signed.authorization.nonce,
    value: VALUE,
    sentS: nowS() - 10,
    validBeforeS: Number(signed.authorization.validBefore),
    transaction: null,
  };
  return { chain, facilitator, node, reasons, signer, transfer, body: facilitatorBody(signed, MERCHANT, terms) };
}

for (const version of [1, 2] as const) {
  t.test(`version ${version}: a payment is verified and settled`, async (t) => {
    const { body, chain, facilitator, transfer } = await open(t, version);
    t.same(await facilitator.verify(body), { kind: 'valid' });
    t.same(await chain.find(transfer), { kind: 'unused', expired: false });
    t.same(await facilitator.settle(body), { kind: 'settled', transaction: TRANSACTION });
    t.same(await chain.find(transfer), { kind: 'moved', transaction: TRANSACTION });
  });

  t.test(
    `version ${version}: a broadcast whose answer was lost is no refusal, and neither is its repeat`,
    async (t) => {
      const { body, chain, facilitator, reasons, signer, transfer } = await open(t, version);
      signer.broadcast = 'answer lost';
      t.same(await facilitator.settle(body), { kind: 'unknown', transaction: null });
      t.equal(reasons.at(-1), version === 2 ? 'invalid_exact_evm_transaction_failed' : 'fetch failed');
      t.same(await chain.find(transfer), { kind: 'moved', transaction: TRANSACTION });
      signer.broadcast = 'good';
      t.same(await facilitator.settle(body), { kind: 'unknown', transaction: null });
      t.match(reasons.at(-1), version === 2 ? 'invalid_exact_evm_nonce_already_used' : /authorization is used/);
      t.match(
        await facilitator.verify(body),
        { kind: 'invalid', nonce: 'used' },
        'verification tells that the nonce is used',
      );
    },
  );

  t.test(
    `version ${version}: a broadcast that was refused looks the same, and the chain tells the difference`,
    async (t) => {
      const { body, chain, facilitator, signer, transfer } = await open(t, version);
      signer.broadcast = 'refused';
      t.same(await facilitator.settle(body), { kind: 'unknown', transaction: null });
      t.same(await chain.find(transfer), { kind: 'unused', expired: false });
      t.same(await facilitator.verify(body), { kind: 'valid' });
      signer.broadcast = 'good';
      t.same(await facilitator.settle(body), { kind: 'settled', transaction: TRANSACTION });
    },
  );

  t.test(`version ${version}: a transaction that is named is looked up by its name`, async (t) => {
    for (const [broadcast, seen] of [
      ['receipt late', { kind: 'moved', transaction: TRANSACTION }],
      ['reverted', { kind: 'unused', expired: false }],
    ] as const) {
      const { body, chain, facilitator, signer, transfer } = await open(t, version);
      signer.broadcast = broadcast;
      const settled = await facilitator.settle(body);
      t.equal(settled.kind, 'unknown', broadcast);
      // Version 1 does not name a transaction whose receipt is late.
      const transaction = settled.kind === 'unknown' ? settled.transaction : null;
      t.equal(transaction, version === 1 && broadcast === 'receipt late' ? null : TRANSACTION);
      t.same(await chain.find({ ...transfer, transaction }), seen);
    }
  });

  t.test(`version ${version}: a wallet without funds is refused for certain`, async (t) => {
    const { body, facilitator, signer } = await open(t, version);
    signer.funds = 0n;
    const reason = 'invalid_exact_evm_insufficient_balance';
    t.same(await facilitator.verify(body), { kind: 'invalid', reason, nonce: 'unused' });
    const settled = await facilitator.settle(body);
    if (version === 2) t.same(settled, { kind: 'refused', reason });
    else t.equal(settled.kind, 'unknown', 'version 1 sends the text of the error');
  });
}
