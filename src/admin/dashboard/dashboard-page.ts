// The dashboard: one HTML text without outside assets that reads `GET /overview` once a second. Script and style are
// constants, so the content security policy names them by hash and allows nothing else.

import { pagePolicy } from '../../api/page-policy.ts';
import { dashboardScript } from './dashboard-script.ts';
import { dashboardStyle } from './dashboard-style.ts';

/** Value of the header `content-security-policy` for the page: its own script and style, requests to its own origin. */
export const dashboardPolicy: string = pagePolicy(dashboardScript, dashboardStyle);

const FIGURES: readonly (readonly [id: string, name: string])[] = [
  ['rate', 'Requests/s'],
  ['errors-rate', 'Errors/s'],
  ['p50', 'Median latency'],
  ['p99', '99th percentile'],
  ['first-byte', 'Median first byte'],
  ['streams', 'Streams now'],
  ['in-flight', 'In flight'],
  ['spent', 'USD today (UTC)'],
];

const PLOTS: readonly (readonly [id: string, name: string, legend: string])[] = [
  ['plot-rate', 'Requests/s', 'line: all, dashed: errors'],
  ['plot-latency', 'Latency', 'line: median, dashed: 99th percentile'],
  ['plot-first-byte', 'First byte of streams', 'line: median, dashed: 99th percentile'],
];

/** A long list scrolls in a box of its own, also by keyboard; `title` names it. */
const box = (title: string): string => ` long" tabindex="0" role="region" aria-labelledby="${title}`;

/** The page. */
export const dashboardPage: string = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>Headrace dashboard</title>
<link rel="icon" href="data:,">
<style>${dashboardStyle}</style>
</head>
<body>
<a class="skip" href="#overview">Skip to main content</a>
<header><div class="bar">
<h1>Headrace<small id="about"></small></h1>
<span id="status" role="status">Loading the overview…</span>
<button id="pause" type="button" aria-pressed="false">Pause</button>
<button id="reload" type="button" aria-describedby="why" disabled>Reload configuration</button>
</div></header>
<main id="overview" tabindex="-1">
<noscript><p class="note">This page needs JavaScript; the same figures are in <a href="/overview">/overview</a>.</p></noscript>
<h2 class="hidden-label">Now</h2>
<dl class="figures">${FIGURES.map(([id, name]) => `<div><dt>${name}</dt><dd id="${id}">–</dd></div>`).join('')}</dl>
<div class="plots">${PLOTS.map(plot).join('')}</div>
<h2>CRNs</h2>
<p class="note" id="why" hidden></p>
${table('crns', 'Compute resource nodes. First byte is the moving average by which CRNs are picked.')}
<h2>Models</h2>
${table('models', 'Rates and times since the last reading; counts since the start.')}
<div class="columns">
<section><h2>Search engines</h2>${table('engines', 'Whether each engine is in use or suspended, and why.')}</section>
<section><h2>Threads</h2>${table('threads', 'Thread 0 is the control thread. Delays of the event loop since the last reading.')}
<h2>Fetch pool</h2>${table('fetch', 'Threads that turn pages into text, and their queue.')}</section>
</div>
<h2 id="errors-title">Last errors</h2>
${table('errors', 'The last 100, newest first, with the request id that was sent to the client.', box('errors-title'))}
<h2 id="accounts-title">Accounts and operators</h2>
<p class="note">Accounts, requests, acts and webhooks take a token; that of a viewer is enough.
<button id="show-accounts" type="button" aria-expanded="false" aria-controls="accounts-part">Show accounts</button> <span id="who"></span></p>
<div id="accounts-part" hidden>
<h3>Accounts</h3>
${table('accounts', 'The first hundred, with credit that may be spent and what is on hold.')}
<h3>Budgets</h3>
${table('budgets', 'Budgets with what is spent of them in their period.')}
<h3 id="requests-title">Requests</h3>
${table('requests', 'The last hundred that are recorded, newest first (setting costLog.requests).', box('requests-title'))}
<h3 id="acts-title">Acts of operators</h3>
${table('acts', 'The last hundred, newest first.', box('acts-title'))}
<h3 id="deliveries-title">Webhooks</h3>
${table('deliveries', 'The last hundred deliveries, newest first.', box('deliveries-title'))}
</div>
</main>
<dialog id="confirm" aria-labelledby="confirm-title" aria-describedby="confirm-text">
<form id="confirm-form">
<h2 id="confirm-title"></h2>
<p id="confirm-text"></p>
<label id="duration-label" hidden>Duration, such as 5m; empty is the duration of the next automatic ejection
<input id="duration" autocomplete="off" spellcheck="false"></label>
<label id="token-label">Admin token; kept in this tab only
<input id="token" type="password" autocomplete="off" spellcheck="false"></label>
<p class="refused" id="refused" role="alert"></p>
<div class="choice"><button type="button" id="cancel">Cancel</button><button type="submit" class="main" id="do-it">Do it</button></div>
</form>
</dialog>
<script>${dashboardScript}</script>
</body>
</html>
`;

function plot([id, name, legend]: (typeof PLOTS)[number]): string {
  return `<figure id="${id}"><figcaption><span>${name}</span><span class="value">–</span></figcaption>
<svg class="plot" viewBox="0 0 600 100" preserveAspectRatio="none" aria-hidden="true" focusable="false">
<polyline class="second" points=""/><polyline class="first" points=""/></svg><span class="legend">${legend}</span></figure>`;
}

function table(id: string, caption: string, box = ''): string {
  return `<div class="sheet${box}"><table id="${id}" role="table"><caption>${caption}</caption>
<thead role="rowgroup"></thead><tbody role="rowgroup"></tbody></table><p class="empty" id="${id}-empty">None.</p></div>`;
}
