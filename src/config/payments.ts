// The section `payments` of the settings table: where and how requests and credits are paid for by x402. Nothing is taken
// while there is no facilitator. `table.ts` has the rest.

import { choice, decimal, integer, map, record, type Setting, type SettingTraits, string, url } from './row.ts';

const RESTART: SettingTraits = { reload: false };
const RESTART_OR_OFF: SettingTraits = { reload: false, nullable: true };

const BASE_URL: SettingTraits = { pattern: /^[^?]*$/, hint: 'a base URL without a query (?)' };
const ADDRESS: SettingTraits = { pattern: /^0x[0-9a-f]{40}$/i, hint: '0x and 40 hexadecimal digits' };
const HEADER_VALUE: SettingTraits = { pattern: /^[\x20-\x7e]+$/, hint: 'visible ASCII characters' };

const NETWORKS = ['base', 'base-sepolia', 'eip155:8453', 'eip155:84532'] as const;

export const PAYMENTS: Setting = record(
  {
    facilitator: url(null, 'URL of the x402 facilitator that moves the money; null: nobody can pay.', {
      ...RESTART_OR_OFF,
      ...BASE_URL,
    }),
    facilitatorHeaders: map(
      string(undefined, 'The value of a header.', HEADER_VALUE),
      'Headers of calls to the facilitator, such as credentials, by name.',
      { ...RESTART, secret: true },
    ),
    payTo: string(null, 'Address that is paid.', { ...RESTART_OR_OFF, ...ADDRESS }),
    network: choice(NETWORKS, 'base', 'Chain that is paid on.', RESTART),
    asset: string(null, 'Address of the token that is paid in, worth one USD; null is USDC.', {
      ...RESTART_OR_OFF,
      ...ADDRESS,
    }),
    assetName: string(null, 'Name in the EIP-712 domain of a token other than USDC.', RESTART_OR_OFF),
    assetVersion: string('2', 'Version in that domain.', RESTART),
    assetDecimals: integer(6, 'Digits of that token after the point.', { ...RESTART, min: 6, max: 12 }),
    maxPurchase: decimal('1000', 'Largest purchase of credits in USD.', RESTART),
    minimum: decimal('0.0001', 'Least price in USD of a request without a key.'),
    assumedTokens: integer(1024, 'Tokens of an answer that a request without a key and without a limit pays for.'),
  },
  'Payments (x402)',
);
