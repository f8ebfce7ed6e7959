// The style sheet of the dashboard; `dashboard-page.ts` puts it into the page and its hash into the policy. Colours are
// those of the documentation page. Below 46 rem every row of a table is a card, so that nothing scrolls sideways.

import { palette } from '../../api/docs-style.ts';

/** CSS of the page, without outside assets. */
export const dashboardStyle: string = `${palette}
* { box-sizing: border-box; }
body { margin: 0; background: var(--ground); color: var(--ink); }
:focus-visible { outline: 2px solid var(--water); outline-offset: 2px; border-radius: 4px; }
.skip { position: absolute; left: -999px; }
.skip:focus { left: 1rem; top: 1rem; z-index: 3; background: var(--sheet); padding: .5rem 1rem; }
.hidden-label { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); }
header { background: var(--sheet); border-bottom: 1px solid var(--line); }
header::after { content: ''; display: block; height: 2px; background: linear-gradient(90deg, var(--water), transparent 70%); }
.bar { display: flex; flex-wrap: wrap; align-items: center; gap: .5rem 1rem; max-width: 84rem; margin: 0 auto; padding: .7rem 1.25rem; }
h1 { font-weight: 650; letter-spacing: -.01em; font-size: 1.1rem; margin: 0; }
h1 small { font-weight: 400; color: var(--quiet); font-size: .8rem; margin-left: .35rem; }
#status { flex: 1 1 14rem; color: var(--quiet); font-size: .875rem; overflow-wrap: anywhere; }
#status.bad { color: var(--bad); font-weight: 600; }
button, input, select { font: inherit; color: inherit; background: var(--ground); border: 1px solid var(--line); border-radius: 7px; padding: .3rem .7rem; }
button { cursor: pointer; background: var(--sheet); }
button:hover:not(:disabled) { border-color: var(--water); color: var(--water); }
button:disabled { opacity: .6; cursor: default; }
button.main { background: var(--water); border-color: var(--water); color: var(--on-water); font-weight: 600; }
button.main:hover:not(:disabled) { color: var(--on-water); }
main { max-width: 84rem; margin: 0 auto; padding: 1rem 1.25rem 4rem; }
h2 { font-size: 1.05rem; letter-spacing: -.01em; margin: 1.6rem 0 .5rem; }
.note { color: var(--quiet); font-size: .875rem; margin: 0 0 .6rem; max-width: 72ch; }
[hidden] { display: none !important; }
a { color: var(--water); }
.bad { color: var(--bad); }
#who { color: var(--quiet); font-size: .875rem; overflow-wrap: anywhere; }
nav.bar { padding-top: 0; padding-bottom: .5rem; }
nav a { color: inherit; text-decoration: none; padding: .1rem 0; border-bottom: 2px solid transparent; }
nav a:hover { color: var(--water); }
nav a[aria-current] { border-color: var(--water); font-weight: 600; }
.title { display: flex; flex-wrap: wrap; align-items: baseline; justify-content: space-between; gap: .3rem 1rem; }
.title h2 { overflow-wrap: anywhere; }
h3 { font-size: .95rem; margin: 1.3rem 0 .4rem; }
.filter, .filter form { display: flex; flex-wrap: wrap; align-items: center; gap: .4rem .8rem; }
.filter { margin: 0 0 .6rem; }
.filter label { font-size: .875rem; }
.filter input { width: 11rem; max-width: 100%; }
.more { margin: .5rem .9rem .7rem; }

.figures { display: grid; grid-template-columns: repeat(auto-fit, minmax(7.4rem, 1fr)); gap: .6rem; margin: 0; }
.figures div, figure, .sheet { background: var(--sheet); border: 1px solid var(--line); border-radius: 10px; }
.figures div { padding: .5rem .8rem; }
.figures dt { color: var(--quiet); font-size: .8rem; }
.figures dd { margin: 0; font-size: 1.2rem; font-weight: 600; overflow-wrap: anywhere; font-variant-numeric: tabular-nums; }
.plots { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(18rem, 100%), 1fr)); gap: .6rem; margin-top: .6rem; }
figure { margin: 0; padding: .6rem .8rem; min-width: 0; }
figcaption { display: flex; flex-wrap: wrap; justify-content: space-between; gap: 0 .8rem; font-size: .85rem; }
figcaption .value { color: var(--quiet); font-variant-numeric: tabular-nums; }
svg { display: block; width: 100%; }
.plot { height: 6rem; margin-top: .4rem; }
.spark { flex: none; width: 5rem; height: 1.4rem; }
polyline { fill: none; stroke: var(--water); stroke-width: 2; vector-effect: non-scaling-stroke; stroke-linejoin: round; }
polyline.second { stroke: var(--quiet); stroke-width: 1.5; stroke-dasharray: 4 3; }
rect { fill: var(--line); }
rect.spent { fill: var(--water); }
rect.spent.bad { fill: var(--bad); }
line { stroke: var(--ink); stroke-width: 2; vector-effect: non-scaling-stroke; }
.share svg { width: 9rem; max-width: 100%; height: .5rem; margin-top: .2rem; }
pre { font: .8rem/1.4 var(--mono); white-space: pre-wrap; overflow-wrap: anywhere; margin: .3rem 0 0; text-align: left; }
summary { cursor: pointer; }
.legend { font-size: .75rem; color: var(--quiet); }

.sheet { overflow: hidden; overflow-x: auto; }
.sheet.long { max-height: 32rem; overflow-y: auto; }
table { border-collapse: collapse; width: 100%; font-size: .875rem; }
caption { text-align: left; padding: .5rem .9rem 0; color: var(--quiet); font-size: .8rem; }
th, td { text-align: left; padding: .4rem .9rem; border-top: 1px solid var(--line); vertical-align: middle; font-variant-numeric: tabular-nums; }
thead th { color: var(--quiet); font-weight: 600; border-top: 0; white-space: nowrap; }
tbody th { font-weight: 600; overflow-wrap: anywhere; }
tbody th { min-width: 6rem; }
#crns tbody th { min-width: 14rem; }
td { overflow-wrap: anywhere; }
.empty { padding: .5rem .9rem; color: var(--quiet); font-size: .875rem; margin: 0; }
.standing { font-weight: 600; }
.standing.bad { color: var(--bad); }
.attempts { display: inline-flex; align-items: center; gap: .6rem; white-space: nowrap; }
.rate { min-width: 3rem; }
.actions { display: flex; flex-wrap: wrap; gap: .35rem; }
.actions button { padding: .1rem .55rem; font-size: .8rem; white-space: nowrap; }
.columns { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(24rem, 100%), 1fr)); gap: 0 1rem; }
.columns > section { min-width: 0; }
code { font-family: var(--mono); font-size: .85em; overflow-wrap: anywhere; }

dialog { background: var(--sheet); color: var(--ink); border: 1px solid var(--line); border-radius: 12px; max-width: min(30rem, calc(100vw - 2rem)); padding: 1.1rem 1.25rem; }
dialog::backdrop { background: rgb(0 0 0 / .45); }
dialog h2 { margin: 0 0 .4rem; }
dialog p { margin: 0 0 .7rem; overflow-wrap: anywhere; }
dialog label { display: block; font-size: .85rem; margin: 0 0 .6rem; }
dialog input, dialog select { width: 100%; }
dialog .check { display: flex; gap: .5rem; align-items: center; }
dialog .check input { width: auto; }
.secret { display: block; padding: .5rem .7rem; margin: 0 0 .7rem; background: var(--wash); border-radius: 7px; user-select: all; }
dialog .refused { color: var(--bad); }
dialog .refused:empty { display: none; }
.choice { display: flex; justify-content: flex-end; gap: .5rem; }

@media (max-width: 46rem) {
  .bar, main { padding-left: .8rem; padding-right: .8rem; }
  table, thead, tbody, tr, th, td, caption { display: block; width: 100%; }
  thead { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); }
  tbody tr { border-top: 1px solid var(--line); padding: .45rem 0; }
  tbody th, #crns tbody th { min-width: 0; }
  tbody th, td { border-top: 0; padding: .1rem .9rem; }
  td { display: flex; justify-content: space-between; gap: 1rem; text-align: right; }
  td::before { content: attr(data-label); color: var(--quiet); text-align: left; flex: none; }
}
@media (min-width: 70rem) {
  td:is([data-label='USD'], [data-label='Kind'], [data-label='Balance'], [data-label='In use'], [data-label='Today'], [data-label='Month']) { overflow-wrap: normal; }
}
@media (prefers-reduced-motion: no-preference) { button { transition: border-color .12s, color .12s; } }
@media (forced-colors: active) { polyline, line { stroke: CanvasText; } rect.spent { fill: Highlight; } }
`;
