// Draws the plots of the report as SVG text: bars with their spread, and curves. 420 units wide with text of 11 to 13, so that
// they can be read on a phone. Colours are CSS variables of the page, so that one drawing serves light and dark themes.

const WIDTH = 420;
const NAME_WIDTH = 92;
const VALUE_WIDTH = 62;
const BAR = 24;
const LEFT = 44;
const RIGHT = 12;
const TOP = 10;
const HEIGHT = 260;
const BOTTOM = 38;
const COLOURS = 8;
const CUT = 8;

/** Escapes text for HTML and SVG. */
export function escapeHtml(content) {
  return String(content).replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`);
}

/**
 * Draws `{ kind: 'bars', title, unit, bars: [{ name, median, min, max }] }`, `{ kind: 'groups', title, unit, groups: [{ name, bars }] }`
 * or `{ kind: 'curves', title, xLabel, yLabel, isLog, curves: [{ name, points: [[x, y]] }] }`. `colourOf(name)` numbers the colours of
 * the page.
 */
export function drawPlot(plot, colourOf = (_, at) => at) {
  if (plot.kind === 'bars') return bars(plot, colourOf);
  return plot.kind === 'groups' ? groups(plot, colourOf) : curves(plot, colourOf);
}

/** Colours of a drawing that stands alone; the page of the report has its own. */
const FILE_STYLE = `svg{background:#fbfbf9;font-family:system-ui,sans-serif}.name,.value,.label{fill:#1c2430;font-size:12px}
.title{fill:#1c2430;font-size:13px;font-weight:600}.spread{stroke:#1c2430;stroke-width:1.5;opacity:.6;fill:none}`;
const FILE_COLOUR = '#1767b5';
const OTHER_COLOUR = '#9aa4b1';
const TITLE = 28;

/**
 * Draws bars as an SVG file that stands alone, on a light ground, the shortest first. Bars of `own` peers are blue, others grey.
 */
export function drawFile({ title, unit, bars: rows }, own = ['headrace', 'keys', 'open']) {
  const shown = cutBars(rows.toSorted((a, b) => a.median - b.median));
  const drawn = barParts(shown, (_, at) => (own.includes(shown[at].name) ? FILE_COLOUR : OTHER_COLOUR));
  const height = rows.length * BAR + 6 + TITLE;
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${height}" width="${WIDTH * 1.5}" role="img" aria-label="${escapeHtml(`${title}, ${unit}`)}"><style>${FILE_STYLE}</style>${text(6, 18, 'start', `${title} (${unit})`, 'title')}<g transform="translate(0 ${TITLE})">${drawn.join('')}</g></svg>\n`;
}

/** Draws groups of bars as an SVG file that stands alone, on a light ground. Bars of `own` peers are blue, others grey. */
export function drawGroupsFile({ title, unit, groups: all }, isOwn) {
  const parts = groupParts(all, (name) => (isOwn(name) ? FILE_COLOUR : OTHER_COLOUR));
  const height = groupsHeight(all) + TITLE;
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${height}" width="${WIDTH * 1.5}" role="img" aria-label="${escapeHtml(`${title}, ${unit}`)}"><style>${FILE_STYLE}</style>${text(6, 18, 'start', `${title} (${unit})`, 'title')}<g transform="translate(0 ${TITLE})">${parts.join('')}</g></svg>\n`;
}

/** Colours of curves in a drawing that stands alone, told apart on a light ground. */
const CURVE_COLOURS = ['#1767b5', '#c2410c', '#15803d', '#7e22ce', '#b45309', '#0e7490', '#be123c', '#4b5563'];

/** Draws curves as an SVG file that stands alone, on a light ground, with their names below. */
export function drawCurvesFile(plot) {
  const drawn = curves({ ...plot, fillOf: (at) => CURVE_COLOURS[at % CURVE_COLOURS.length] }, (_, at) => at);
  const body = drawn.slice(drawn.indexOf('>') + 1, drawn.indexOf('</svg>'));
  const names = plot.curves.map(({ name }, at) => {
    const [x, y] = [LEFT + (at % 2) * 190, HEIGHT + 14 + 16 * (at >> 1)];
    return `<rect x="${x}" y="${y - 9}" width="12" height="10" rx="2" fill="${CURVE_COLOURS[at % CURVE_COLOURS.length]}"/>${text(x + 17, y, 'start', name)}`;
  });
  const height = TITLE + HEIGHT + 8 + 16 * Math.ceil(plot.curves.length / 2);
  const style = `${FILE_STYLE}.curve{fill:none;stroke-width:2}.grid{stroke:#d8dbe0;stroke-width:1}`;
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${height}" width="${WIDTH * 1.5}" role="img" aria-label="${escapeHtml(`${plot.title}, ${plot.yLabel}`)}"><style>${style}</style>${text(6, 18, 'start', `${plot.title} (${plot.yLabel})`, 'title')}<g transform="translate(0 ${TITLE})">${body}${names.join('')}</g></svg>\n`;
}

const colour = (number) => `var(--c${number % COLOURS})`;

function svg(height, label, parts) {
  return `<svg viewBox="0 0 ${WIDTH} ${height}" role="img" aria-label="${escapeHtml(label)}">${parts.join('')}</svg>`;
}

function text(x, y, anchor, content, kind = 'label') {
  return `<text class="${kind}" x="${x.toFixed(1)}" y="${y.toFixed(1)}" text-anchor="${anchor}">${escapeHtml(content)}</text>`;
}

/** Three significant digits, without an exponent. */
export function formatNumber(value) {
  if (value === 0) return '0';
  const digits = Math.max(0, 2 - Math.floor(Math.log10(Math.abs(value))));
  return value.toLocaleString('en-US', { maximumFractionDigits: Math.min(digits, 6) });
}

function bars({ title, unit, bars: rows }, colourOf) {
  if (rows.length === 0) return '';
  const parts = barParts(cutBars(rows), (name, at) => colour(colourOf(name, at)));
  return svg(rows.length * BAR + 6, `${title}, ${unit}`, parts);
}

/** Each group has a heading, its bars below it, and a scale of its own. */
function groupParts(all, fillOf) {
  let top = 0;
  return all.map(({ name, bars: rows }) => {
    const heading = text(6, top + 15, 'start', name, 'label');
    const drawn = barParts(cutBars(rows), fillOf);
    const group = `${heading}<g transform="translate(0 ${top + BAR - 4})">${drawn.join('')}</g>`;
    top += (rows.length + 1) * BAR;
    return group;
  });
}

const groupsHeight = (all) => all.reduce((height, { bars: rows }) => height + (rows.length + 1) * BAR, 6);

function groups({ title, unit, groups: all }, colourOf) {
  const shown = all.filter(({ bars: rows }) => rows.length > 0);
  if (shown.length === 0) return '';
  const parts = groupParts(shown, (name, at) => colour(colourOf(name, at)));
  return svg(groupsHeight(shown), `${title}, ${unit}`, parts);
}

/** Bars beyond `CUT` times the median bar are cut, so that the others can be compared; their figure stays. */
function cutBars(rows) {
  const medians = rows.map(({ median }) => median).toSorted((a, b) => a - b);
  const most = CUT * (medians[medians.length >> 1] ?? 0);
  const cut = (value) => (most > 0 ? Math.min(value, most) : value);
  return rows.map((row) => ({
    ...row,
    value: row.median,
    median: cut(row.median),
    min: cut(row.min),
    max: cut(row.max),
  }));
}

/** One bar for each row, with its spread and its figure (`value`, where it is not the median). */
function barParts(rows, fillOf) {
  const most = Math.max(...rows.map(({ max }) => max)) || 1;
  const length = WIDTH - NAME_WIDTH - VALUE_WIDTH;
  const x = (value) => NAME_WIDTH + (Math.max(0, value) / most) * length;
  return rows.map(({ name, median, min, max, value = median }, at) => {
    const y = at * BAR + 4;
    const middle = y + BAR / 2 - 2;
    const [left, right] = [x(min).toFixed(1), x(max).toFixed(1)];
    const spread = `M${left} ${middle}H${right}M${left} ${middle - 4}v8M${right} ${middle - 4}v8`;
    return [
      text(NAME_WIDTH - 6, middle + 4, 'end', name, 'name'),
      `<rect x="${NAME_WIDTH}" y="${y}" width="${(x(median) - NAME_WIDTH).toFixed(1)}" height="${BAR - 6}" rx="2" style="fill:${fillOf(name, at)}"/>`,
      `<path class="spread" d="${spread}"/>`,
      text(WIDTH, middle + 4, 'end', formatNumber(value), 'value'),
    ].join('');
  });
}

function curves({ title, xLabel, yLabel, isLog = false, isLogY = false, fillOf = colour, curves: all }, colourOf) {
  const lines = all.filter(({ points }) => points.length > 1);
  if (lines.length === 0) return '';
  const points = lines.flatMap((line) => line.points);
  const scaleX = (isLog ? logScale : evenScale)(
    points.map(([x]) => x),
    WIDTH - LEFT - RIGHT,
  );
  const scaleY = (isLogY ? logScale : evenScale)(
    points.map(([, y]) => y),
    HEIGHT - TOP - BOTTOM,
  );
  const x = (value) => LEFT + scaleX.at(value);
  const y = (value) => HEIGHT - BOTTOM - scaleY.at(value);
  const foot = HEIGHT - BOTTOM;
  const parts = [
    ...scaleX.ticks.map((tick) => `<path class="grid" d="M${x(tick).toFixed(1)} ${TOP}V${foot}"/>`),
    ...scaleX.ticks.map((tick) => text(x(tick), foot + 14, 'middle', formatNumber(tick))),
    ...scaleY.ticks.map((tick) => `<path class="grid" d="M${LEFT} ${y(tick).toFixed(1)}H${WIDTH - RIGHT}"/>`),
    ...scaleY.ticks.map((tick) => text(LEFT - 5, y(tick) + 4, 'end', formatNumber(tick))),
    ...lines.map((line, at) => {
      const path = line.points.map(([px, py]) => `${x(px).toFixed(1)},${y(py).toFixed(1)}`).join(' ');
      return `<polyline class="curve" style="stroke:${fillOf(colourOf(line.name, at))}" points="${path}"/>`;
    }),
    text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 6, 'middle', xLabel),
  ];
  const legend = lines.map(
    ({ name }, at) => `<span><i style="background:${colour(colourOf(name, at))}"></i>${escapeHtml(name)}</span>`,
  );
  return `${svg(HEIGHT, `${title}, ${yLabel}`, parts)}<p class="legend">${legend.join(' ')}</p>`;
}

/** From zero in five or so round steps. */
function evenScale(values, length) {
  const most = Math.max(...values) || 1;
  const magnitude = 10 ** Math.floor(Math.log10(most / 4));
  const step = [1, 2, 5, 10].find((one) => one * magnitude * 6 >= most) * magnitude;
  const ticks = Array.from({ length: Math.floor(most / step + 1e-9) + 1 }, (_, at) => at * step);
  return { at: (value) => (Math.max(0, value) / most) * length, ticks };
}

/** By powers of ten, with ticks at 1, 2 and 5 where there are few powers. Points at zero stand at the left edge. */
function logScale(values, length) {
  const positive = values.filter((value) => value > 0);
  const least = Math.log10(positive.length === 0 ? 1 : Math.min(...positive));
  const most = Math.max(least + 0.3, Math.log10(positive.length === 0 ? 1 : Math.max(...positive)));
  const steps = most - least > 2.5 ? [1] : [1, 2, 5];
  const ticks = [];
  for (let power = Math.floor(least); power <= most; power++) {
    for (const step of steps) {
      const at = Math.log10(step) + power;
      if (at >= least - 1e-9 && at <= most + 1e-9) ticks.push(step * 10 ** power);
    }
  }
  return {
    at: (value) => (value > 0 ? ((Math.log10(value) - least) / (most - least)) * length : 0),
    ticks,
  };
}
