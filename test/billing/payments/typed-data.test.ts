import t from 'tap';
import { readMerchantConfig } from '../../../src/billing/payments/merchant-config.ts';
import {
  type Authorization,
  checksummed,
  domainSeparator,
  recoverSigner,
  transferDigest,
} from '../../../src/billing/payments/typed-data.ts';

/** The example of the x402 specification, signed with the first public key of the development chains. */
const ORDER: Authorization = {
  from: '0xf39fd6e51aad88f6f4ce6ab8827279cfffb92266',
  to: '0x209693bc6afc0c5328ba36faf03c514ef312287c',
  value: 10000n,
  validAfter: 1740672089n,
  validBefore: 1740672154n,
  nonce: '0xf3746613c2d920b5fdabc0856f2aeb2d4f88ee6037b8cc5d04a71a4462f13480',
};

const VECTORS = [
  {
    network: 'base',
    separator: '02fa7265e7c5d81118673727957699e4d68f74cd74b7db77da710fe8a2c7834f',
    digest: '7e9613714edd92ad20fa5b252ec168245031911a3438dd20225f083b6a688f8a',
    signature:
      '0xa70a7d235fd4218a3ed6625525892efed6fd1ac6a193ba612bb9da921620bce74885a8f7f56d2dc2f46005b7d6a089ae3469455a911004b6c4a6ab600677f56c1c',
  },
  {
    network: 'base-sepolia',
    separator: '71f17a3b2ff373b803d70a5a07c046c1a2bc8e89c09ef722fcb047abe94c9818',
    digest: '50708d3bf7216e1aeabe7bf22081b9f36c7c287530f92510318f13a03d89dc86',
    signature:
      '0xdc53a4a579de989368a0fae2ef2172ff2f474b4297013f865d171239f17ef4c3157b4b4030f1bebc53d55ace15c2377dff501a60e1e56c291f1000d6e78f082f1b',
  },
];

const ORDER_OF_CURVE = 0xfffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141n;

for (const { digest, network, separator, signature } of VECTORS) {
  t.test(`${network}: domain, digest and signer are those of the reference wallets`, async (t) => {
    const { asset, chain } = readMerchantConfig({ network, payTo: ORDER.to });
    const domain = domainSeparator(chain, asset);
    t.equal(domain, separator);
    t.equal(transferDigest(domain, ORDER), digest);
    t.equal(recoverSigner(digest, signature), ORDER.from);
    const v = signature.endsWith('1b') ? '00' : '01';
    t.equal(recoverSigner(digest, signature.slice(0, -2) + v), ORDER.from, 'v may count from 0');
  });

  t.test(`${network}: a changed field has another signer`, async (t) => {
    const { asset, chain } = readMerchantConfig({ network, payTo: ORDER.to });
    const domain = domainSeparator(chain, asset);
    const changes: Partial<Authorization>[] = [
      { to: ORDER.from },
      { from: ORDER.to },
      { value: 10001n },
      { validAfter: 0n },
      { validBefore: 2n ** 255n },
      { nonce: `0x${'0'.repeat(64)}` },
    ];
    for (const change of changes) {
      t.not(recoverSigner(transferDigest(domain, { ...ORDER, ...change }), signature), ORDER.from);
    }
  });

  t.test(`${network}: the second form of a signature is refused`, async (t) => {
    const s = ORDER_OF_CURVE - BigInt(`0x${signature.slice(66, 130)}`);
    const v = signature.endsWith('1b') ? '1c' : '1b';
    const twin = signature.slice(0, 66) + s.toString(16).padStart(64, '0') + v;
    t.equal(recoverSigner(digest, twin), undefined);
  });
}

t.test('an invalid signature has no signer', async (t) => {
  const { digest, signature } = VECTORS[0] as (typeof VECTORS)[number];
  const zeros = '0'.repeat(64);
  const bad = [
    '',
    '0x',
    signature.slice(0, -2),
    `${signature}00`,
    `${signature.slice(0, -2)}02`,
    `${signature.slice(0, -2)}1d`,
    `0x${zeros}${zeros}1b`,
    `0x${'f'.repeat(64)}${'1'.padStart(64, '0')}1b`,
    `0x${signature.slice(2, 66)}${zeros}1b`,
    signature.replace('0x', ''),
  ];
  for (const text of bad) t.equal(recoverSigner(digest, text), undefined, text.slice(0, 20));
});

t.test('addresses are written with the checksum of EIP-55', async (t) => {
  const known = [
    '0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed',
    '0xfB6916095ca1df60bB79Ce92cE3Ea74c37c5d359',
    '0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913',
    '0x036CbD53842c5426634e7929541eC2318f3dCF7e',
  ];
  for (const address of known) t.equal(checksummed(address.toLowerCase()), address);
});
