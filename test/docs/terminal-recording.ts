// Writes a recorded terminal session as an animated SVG: one text element per line, shown by CSS when its time comes, in a group
// that scrolls. Without animation (`prefers-reduced-motion`) the last screen stands still.

/** A piece of output and when it came, in milliseconds since the start of the recording. */
export interface Output {
  readonly atMs: number;
  readonly text: string;
  /** `command`: what a user typed. */
  readonly kind: 'command' | 'output';
}

export interface Terminal {
  readonly columns: number;
  readonly rows: number;
}

interface Line {
  readonly atMs: number;
  text: string;
  readonly kind: Output['kind'];
}

const FONT_SIZE = 13;
const CHARACTER_WIDTH = 7.82;
const LINE_HEIGHT = 18;
const PADDING = 16;
/** How long the last screen stays before the recording begins again. */
const HOLD_MS = 6000;

/** The recording as an SVG document. */
export function recordingSvg(outputs: readonly Output[], { columns, rows }: Terminal): string {
  const lines = wrap(outputs, columns);
  const totalMs = (lines.at(-1)?.atMs ?? 0) + HOLD_MS;
  const percent = (atMs: number): string => `${((atMs / totalMs) * 100).toFixed(2)}%`;
  const width = Math.round(columns * CHARACTER_WIDTH + 2 * PADDING);
  const height = rows * LINE_HEIGHT + 2 * PADDING;
  const shiftAt = (count: number): number => -Math.max(0, count - rows) * LINE_HEIGHT;
  const scroll = lines.map(({ atMs }, index) => `${percent(atMs)}{transform:translateY(${shiftAt(index + 1)}px)}`);
  const css = [
    `text{font:${FONT_SIZE}px ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace;fill:#d7dde4;white-space:pre}`,
    '.c{fill:#7fd1b9;font-weight:600}',
    `.s{animation:scroll ${totalMs}ms infinite step-end;transform:translateY(${shiftAt(lines.length)}px)}`,
    `@keyframes scroll{0%{transform:translateY(0)}${scroll.join('')}}`,
    ...lines.map(
      ({ atMs }, index) =>
        `@keyframes l${index}{0%{opacity:0}${percent(atMs)}{opacity:1}}.l${index}{animation:l${index} ${totalMs}ms infinite step-end}`,
    ),
    '@media (prefers-reduced-motion:reduce){*{animation:none!important}}',
  ].join('\n');
  const texts = lines.map(({ text, kind }, index) => {
    const y = PADDING + (index + 1) * LINE_HEIGHT - 5;
    const classes = `l${index}${kind === 'command' ? ' c' : ''}`;
    return `<text class="${classes}" x="${PADDING}" y="${y}">${escape(text)}</text>`;
  });
  return `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}">
<style>
${css}
</style>
<rect width="${width}" height="${height}" rx="8" fill="#14181d"/>
<clipPath id="screen"><rect x="0" y="${PADDING}" width="${width}" height="${rows * LINE_HEIGHT}"/></clipPath>
<g clip-path="url(#screen)"><g class="s">
${texts.join('\n')}
</g></g>
</svg>
`;
}

/** Lines of at most `columns` characters; a line has the time of its first character. */
function wrap(outputs: readonly Output[], columns: number): Line[] {
  const lines: Line[] = [];
  let open = false;
  for (const { atMs, text, kind } of outputs) {
    for (const [at, part] of text.split('\n').entries()) {
      if (at > 0 && !open) lines.push({ atMs, text: '', kind });
      if (at > 0) open = false;
      let rest = part;
      while (rest !== '') {
        const line: Line = open ? (lines.at(-1) as Line) : { atMs, text: '', kind };
        if (!open) lines.push(line);
        const room = columns - line.text.length;
        line.text += rest.slice(0, room);
        rest = rest.slice(room);
        open = line.text.length < columns;
      }
    }
  }
  return lines;
}

function escape(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');
}
