// Line plots as SVG text: what the HTML report shows. Colours are CSS variables of the page, so that one drawing is right in
// the light and in the dark.

/** One curve. */
export interface Curve {
  readonly name: string;
  readonly points: readonly (readonly [x: number, y: number])[];
}

export interface PlotSettings {
  readonly title: string;
  readonly xLabel: string;
  readonly yLabel: string;
  /** X by powers of ten; points at or below zero are drawn at the left edge. Default false. */
  readonly isLog?: boolean;
  /** The top of the y axis; default: the largest value. */
  readonly yMost?: number;
}

const WIDTH = 640;
const HEIGHT = 280;
const LEFT = 56;
const RIGHT = 16;
const TOP = 34;
const BOTTOM = 44;
/** What is less than so many powers of ten below the largest value is drawn at the left edge. */
const MOST_DECADES = 4;
const DECADE_STEPS = [1, 2, 5] as const;
/** Colours of the page: `--c1` to `--c4`. */
const COLOURS = 4;

/** A figure with axes and a legend; a sentence instead when there is nothing to draw. */
export function plot(settings: PlotSettings, curves: readonly Curve[]): string {
  const drawn = curves.filter(({ points }) => points.length > 1);
  if (drawn.length === 0) return '';
  const xs = drawn.flatMap(({ points }) => points.map(([x]) => x));
  const scale = settings.isLog === true ? logScale(xs) : evenScale(0, Math.max(...xs), WIDTH - LEFT - RIGHT);
  const yMost = settings.yMost ?? Math.max(...drawn.flatMap(({ points }) => points.map(([, y]) => y)));
  const yScale = evenScale(0, yMost, HEIGHT - TOP - BOTTOM);
  const x = (value: number): number => LEFT + scale.at(value);
  const y = (value: number): number => HEIGHT - BOTTOM - yScale.at(value);
  const parts = [
    ...scale.ticks.map((tick) => gridX(x(tick), shown(tick))),
    ...yScale.ticks.map((tick) => gridY(y(tick), shown(tick))),
    ...drawn.map(({ points }, at) => {
      const path = points.map(([px, py]) => `${x(px).toFixed(1)},${y(py).toFixed(1)}`).join(' ');
      return `<polyline class="curve" style="stroke:${colour(at)}" points="${path}"/>`;
    }),
    ...drawn.map(({ name }, at) => legend(name, at, drawn.length - at)),
    text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 6, 'middle', settings.xLabel),
    text(LEFT, 14, 'start', `${settings.title} (${settings.yLabel})`, 'title'),
  ];
  const label = escaped(settings.title);
  return `<svg viewBox="0 0 ${WIDTH} ${HEIGHT}" role="img" aria-label="${label}">${parts.join('')}</svg>`;
}

interface Scale {
  readonly at: (value: number) => number;
  readonly ticks: readonly number[];
}

/** Five or so round steps. */
function evenScale(least: number, most: number, length: number): Scale {
  const range = most > least ? most - least : 1;
  const magnitude = 10 ** Math.floor(Math.log10(range / 4));
  const step = ([1, 2, 5, 10].find((one) => one * magnitude * 6 >= range) ?? 10) * magnitude;
  const count = Math.floor(range / step + 1e-9);
  return {
    at: (value) => (Math.min(Math.max(value, least), least + range) - least) * (length / range),
    ticks: Array.from({ length: count + 1 }, (_, at) => least + at * step),
  };
}

function logScale(values: readonly number[]): Scale {
  const positive = values.filter((value) => value > 0);
  if (positive.length === 0) positive.push(1);
  const largest = Math.log10(Math.max(...positive));
  const least = Math.max(Math.log10(Math.min(...positive)), largest - MOST_DECADES);
  const most = Math.max(largest, least + 0.1);
  const ticks: number[] = [];
  const steps = most - least > 3 ? DECADE_STEPS.slice(0, 1) : DECADE_STEPS;
  for (let power = Math.floor(least); power <= most; power++) {
    ticks.push(...steps.map((step) => step * 10 ** power).filter((tick) => fits(Math.log10(tick), least, most)));
  }
  const length = WIDTH - LEFT - RIGHT;
  const at = (value: number): number => ((Math.log10(value) - least) * length) / (most - least);
  return { at: (value) => (value > 0 ? Math.max(at(value), 0) : 0), ticks };
}

function fits(value: number, least: number, most: number): boolean {
  return value >= least - 1e-9 && value <= most + 1e-9;
}

function shown(value: number): string {
  return Number(value.toPrecision(6)).toLocaleString('en-US', { maximumFractionDigits: 6 });
}

function colour(at: number): string {
  return `var(--c${(at % COLOURS) + 1})`;
}

function gridX(x: number, label: string): string {
  return `<line class="grid" x1="${x}" x2="${x}" y1="${TOP}" y2="${HEIGHT - BOTTOM}"/>${text(x, HEIGHT - BOTTOM + 15, 'middle', label)}`;
}

function gridY(y: number, label: string): string {
  return `<line class="grid" x1="${LEFT}" x2="${WIDTH - RIGHT}" y1="${y}" y2="${y}"/>${text(LEFT - 6, y + 4, 'end', label)}`;
}

/** `fromRight`: its place, counted from the right edge. */
function legend(name: string, at: number, fromRight: number): string {
  const x = WIDTH - RIGHT - 110 * fromRight;
  const mark = `<rect x="${x}" y="${TOP - 14}" width="14" height="3" style="fill:${colour(at)}"/>`;
  return mark + text(x + 20, TOP - 9, 'start', name);
}

function text(x: number, y: number, anchor: string, content: string, kind = 'label'): string {
  return `<text class="${kind}" x="${x.toFixed(1)}" y="${y.toFixed(1)}" text-anchor="${anchor}">${escaped(content)}</text>`;
}

/** Text for HTML and SVG. */
export function escaped(content: string): string {
  return content.replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`);
}
