// Compares counted instructions with those of the baseline, in lines for people and one verdict.

/** A case may take this much more. Counts of streams repeat within 1 %, those of JSON within 4 %. */
const TOLERANCE = 0.05;

/**
 * `baseline` and `counted` are `{ node, arch, counts: { CASE: INSTRUCTIONS } }`. Counts of another Node.js or processor architecture
 * cannot be compared, which is said and is no failure. Returns `{ lines, isOver }`.
 */
export function compareCounts(baseline, counted) {
  const isSame = baseline.node === counted.node && baseline.arch === counted.arch;
  const lines = [];
  let isOver = false;
  for (const [name, count] of Object.entries(counted.counts)) {
    const before = isSame ? baseline.counts[name] : undefined;
    if (before === undefined) {
      lines.push(`${name}: ${count} instructions a request, not compared`);
      continue;
    }
    const more = count / before - 1;
    const isMore = count > before * (1 + TOLERANCE);
    isOver ||= isMore;
    const sign = more < 0 ? '-' : '+';
    const change = `${sign}${(Math.abs(more) * 100).toFixed(1)} % to ${before}`;
    lines.push(`${name}: ${count} instructions a request, ${change}${isMore ? ': more than 5 %' : ''}`);
  }
  if (!isSame) lines.push(`The baseline is of Node.js ${baseline.node} on ${baseline.arch}.`);
  if (isOver)
    lines.push('If the cost is worth it: node bench/micro/instructions.mjs --update, and say why in the commit.');
  return { lines, isOver };
}
