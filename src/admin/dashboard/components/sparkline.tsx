// A small line without axes beside a figure, which says the same in text.

import type { VNode } from 'preact';

const WIDTH = 64;
const HEIGHT = 16;

/** The newest value is at the right; `places` is how many values the width holds. */
export function Sparkline({ places, values }: { readonly values: readonly number[]; readonly places: number }): VNode {
  const most = values.reduce((high, value) => Math.max(high, value), 0) || 1;
  const step = WIDTH / (places - 1);
  const points = values.map((value, index) => {
    const x = WIDTH - (values.length - 1 - index) * step;
    return `${x.toFixed(1)},${(HEIGHT - 1 - (value / most) * (HEIGHT - 2)).toFixed(1)}`;
  });
  return (
    <svg class="spark" viewBox={`0 0 ${WIDTH} ${HEIGHT}`} aria-hidden="true">
      <polyline points={points.join(' ')} />
    </svg>
  );
}

/** A share from 0 to 1 as a bar. */
export function Bar({ share, tone = 'line-1' }: { readonly share: number; readonly tone?: string }): VNode {
  return (
    <svg class={`share ${tone}`} viewBox="0 0 100 6" preserveAspectRatio="none" aria-hidden="true">
      <rect width="100" height="6" />
      <rect class="part" width={Math.max(Math.min(share, 1), 0) * 100} height="6" />
    </svg>
  );
}
