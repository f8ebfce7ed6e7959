// The style sheet of the documentation page. Colours are variables, so that light and dark themes differ in one place; text has
// a contrast of at least 4.5 to 1 to its background.

/** Colours, light and dark, and the fonts; also those of the dashboard. */
export const palette: string = `
:root {
  color-scheme: light dark;
  --ground: #f4f7f6; --sheet: #ffffff; --ink: #12211f; --quiet: #536664; --line: #d8e2df; --wash: #eaf1ef;
  --water: #0a6f6a; --on-water: #ffffff; --bad: #a82a2a;
  --mono: ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace;
  font: 16px/1.55 system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', sans-serif;
}
@media (prefers-color-scheme: dark) {
  :root {
    --ground: #0b1312; --sheet: #111c1a; --ink: #e2ecea; --quiet: #93a8a4; --line: #233431; --wash: #182624;
    --water: #5ccbc1; --on-water: #06211f; --bad: #ff8f87;
  }
}
`;

/** CSS of the page, without outside assets. */
export const docsStyle: string = `${palette}* { box-sizing: border-box; }
body { margin: 0; background: var(--ground); color: var(--ink); }
a { color: var(--water); }
:focus-visible { outline: 2px solid var(--water); outline-offset: 2px; border-radius: 4px; }
code, pre, textarea, .path, .type { font-family: var(--mono); font-size: .875em; }
.skip { position: absolute; left: -999px; }
.skip:focus { left: 1rem; top: 1rem; z-index: 3; background: var(--sheet); padding: .5rem 1rem; }
.hidden-label { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); }

header { position: sticky; top: 0; z-index: 2; background: var(--sheet); border-bottom: 1px solid var(--line); }
header::after { content: ''; display: block; height: 2px; background: linear-gradient(90deg, var(--water), transparent 70%); }
.bar { display: flex; flex-wrap: wrap; align-items: center; gap: .6rem 1.25rem; max-width: 78rem; margin: 0 auto; padding: .7rem 1.25rem; }
.brand { font-weight: 650; letter-spacing: -.01em; font-size: 1.1rem; margin: 0; }
.brand small { font-weight: 400; color: var(--quiet); font-size: .8rem; margin-left: .35rem; }
.bar input { flex: 1 1 11rem; min-width: 0; }
input, textarea, button, select {
  font: inherit; color: inherit; background: var(--ground); border: 1px solid var(--line); border-radius: 7px; padding: .4rem .7rem;
}
input::placeholder { color: var(--quiet); opacity: 1; }
textarea { font-family: var(--mono); width: 100%; min-height: 8rem; resize: vertical; line-height: 1.45; font-size: .85rem; }
button { cursor: pointer; background: var(--sheet); }
button:hover:not(:disabled) { border-color: var(--water); color: var(--water); }
button:disabled { opacity: .5; cursor: default; }
button.main { background: var(--water); border-color: var(--water); color: var(--on-water); font-weight: 600; }
button.main:hover:not(:disabled) { color: var(--on-water); filter: brightness(1.08); }

.page { display: grid; grid-template-columns: 15rem minmax(0, 1fr); gap: 2.5rem; max-width: 78rem; margin: 0 auto; padding: 1.5rem 1.25rem 5rem; }
nav { position: sticky; top: 5.5rem; align-self: start; max-height: calc(100vh - 7rem); overflow-y: auto; font-size: .875rem; }
nav h2 { font-size: .75rem; font-weight: 600; color: var(--quiet); margin: 1.1rem 0 .3rem; }
nav h2:first-child { margin-top: 0; }
nav a { display: block; padding: .15rem 0; color: inherit; text-decoration: none; font-family: var(--mono); font-size: .8rem; overflow-wrap: anywhere; }
nav a:hover { color: var(--water); }
nav a small { margin-left: .4rem; color: var(--quiet); font-size: .7rem; }
.lead { max-width: 62ch; margin: 0 0 .5rem; color: var(--quiet); }
main h2 { font-size: 1.25rem; letter-spacing: -.01em; margin: 2rem 0 .7rem; }
h3 { font-size: .9rem; margin: 1.4rem 0 .4rem; }
section[hidden], details[hidden], nav a[hidden] { display: none; }

.endpoint { background: var(--sheet); border: 1px solid var(--line); border-radius: 10px; margin-bottom: .6rem; scroll-margin-top: 6rem; }
.endpoint > summary { display: flex; flex-wrap: wrap; align-items: baseline; gap: .2rem .8rem; padding: .7rem 1rem; cursor: pointer; list-style: none; }
.endpoint > summary::-webkit-details-marker { display: none; }
.endpoint > summary:hover .path { color: var(--water); }
.method { font: 650 .75rem/1 var(--mono); padding: .3rem .45rem; border-radius: 5px; border: 1px solid var(--water); color: var(--water); min-width: 3.1rem; text-align: center; }
.method.post { background: var(--water); color: var(--on-water); }
.path { font-weight: 600; overflow-wrap: anywhere; }
.endpoint > summary .gist { color: var(--quiet); font-size: .9rem; flex: 1 1 12rem; }
.badge { font-size: .75rem; color: var(--quiet); border: 1px solid var(--line); border-radius: 99px; padding: .05rem .55rem; }
.inside { border-top: 1px solid var(--line); padding: .9rem 1rem 1.2rem; }
.inside > p:first-child { margin-top: 0; }

.fields { list-style: none; margin: 0; padding: 0; }
.fields .fields { border-left: 2px solid var(--line); margin: .3rem 0 .2rem; padding-left: .9rem; }
.fields li { padding: .35rem 0; border-top: 1px solid var(--line); }
.fields li:first-child { border-top: 0; }
.fields .name { font-family: var(--mono); font-size: .875rem; font-weight: 600; }
.type, .limits { color: var(--quiet); }
.limits { font-size: .85rem; }
.must { color: var(--water); font-size: .8rem; }
.note { margin: .1rem 0 0; font-size: .9rem; }
.answers details { border-top: 1px solid var(--line); padding: .3rem 0; }
.answers details:first-child { border-top: 0; }
.answers summary { cursor: pointer; }
.answers .status { font-family: var(--mono); font-weight: 600; margin-right: .6rem; }

.variant summary { cursor: pointer; font-size: .85rem; color: var(--quiet); padding: .15rem 0; }
.tabs { display: flex; gap: .4rem; margin-bottom: .4rem; }
.tabs[hidden] { display: none; }
.tabs button { font-size: .8rem; padding: .15rem .7rem; }
.tabs button[aria-pressed='true'] { border-color: var(--water); color: var(--water); font-weight: 600; }

.copyable { position: relative; }
pre { margin: 0; background: var(--wash); border-radius: 8px; padding: .8rem 1rem; overflow: auto; white-space: pre-wrap; overflow-wrap: anywhere; max-height: 28rem; }
.copyable pre { padding-right: 5.2rem; }
.copyable button { position: absolute; top: .45rem; right: .45rem; font-size: .8rem; padding: .2rem .6rem; }
form label { display: block; font-size: .85rem; margin: .5rem 0 .25rem; }
form input, form select { width: 100%; }
.actions { display: flex; align-items: center; gap: .6rem; margin: .7rem 0; flex-wrap: wrap; }
.outcome { font-size: .875rem; color: var(--quiet); }
.bad { color: var(--bad); }
.scroll { overflow-x: auto; background: var(--sheet); border: 1px solid var(--line); border-radius: 10px; }
table { border-collapse: collapse; width: 100%; font-size: .875rem; }
th, td { text-align: left; padding: .45rem .9rem; border-top: 1px solid var(--line); vertical-align: top; }
th { font-weight: 600; color: var(--quiet); border-top: 0; white-space: nowrap; }

@media (max-width: 52rem) {
  .page { grid-template-columns: minmax(0, 1fr); padding-top: 1rem; }
  nav { display: none; }
  .bar { padding: .6rem 1rem; }
  .bar input { flex-basis: 8rem; }
  .brand { flex-basis: 100%; }
  .endpoint { scroll-margin-top: 8rem; }
}
@media (prefers-reduced-motion: no-preference) { html { scroll-behavior: smooth; } }
`;
