// Texts of figures on the dashboard.

import t from 'tap';
import {
  agoText,
  bytesText,
  compactText,
  countText,
  latencyText,
  plural,
  rateText,
  shareText,
  usdText,
} from '../../src/admin/dashboard/format.ts';

t.test('figures have the digits that matter', async (t) => {
  t.same([0, 0.04, 0.5, 3.25, 12, 1234].map(rateText), ['0', '0.04', '0.5', '3.3', '12', '1,234']);
  t.same([0, 3.2, 250, 1500, 12_000, 600_000].map(latencyText), [
    '0 ms',
    '3.2 ms',
    '250 ms',
    '1.50 s',
    '12.0 s',
    '10 min',
  ]);
  t.same([0, 0.004, 0.5, 1].map(shareText), ['0 %', '0.4 %', '50 %', '100 %']);
  t.same([0, 900, 2048, 5 * 1024 ** 2, 130 * 1024 ** 3].map(bytesText), [
    '0 B',
    '900 B',
    '2.0 KiB',
    '5.0 MiB',
    '130 GiB',
  ]);
  t.same([0, 0.25, 999, 1500, 12_345, 2_500_000].map(compactText), ['0', '0.25', '999', '1,500', '12.3k', '2.5M']);
  t.same([0, 0.00123, 1.5, 1234.5].map(usdText), ['$0', '$0.00123', '$1.50', '$1,234.50']);
  t.same([-2.5, -0.125, 5e-7].map(usdText), ['-$2.50', '-$0.125', '$0.0000005']);
  t.equal(countText(1234567), '1,234,567');
});

t.test('what was not measured is a dash', async (t) => {
  for (const print of [rateText, latencyText, shareText, bytesText, compactText, usdText, countText]) {
    t.same([print(null), print(undefined), print(NaN)], ['–', '–', '–']);
  }
});

t.test('dates are told from now, counts with their word', async (t) => {
  t.equal(agoText(1000, 1500), 'just now');
  t.equal(agoText(0, 60_000), '60 s ago');
  t.same([plural(1, 'CRN'), plural(2, 'CRN')], ['1 CRN', '2 CRNs']);
});
