// The dashboard: one HTML text without outside assets that reads `GET /overview` once a second, and with an admin token the
// accounts, payments, acts and webhooks. Script and style are constants, so the content security policy names them by hash and
// allows nothing else.

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

const VIEWS: readonly (readonly [path: string, name: string])[] = [
  ['', 'Overview'],
  ['accounts', 'Accounts'],
  ['payments', 'Payments'],
  ['acts', 'Acts'],
  ['webhooks', 'Webhooks'],
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
<a class="skip" href="#main">Skip to main content</a>
<header><div class="bar">
<h1>Headrace<small id="about"></small></h1>
<span id="status" role="status">Loading the overview…</span>
<button id="pause" type="button" aria-pressed="false">Pause</button>
<button id="reload" type="button" aria-describedby="why" disabled>Reload configuration</button>
<span id="who"></span>
<button id="sign-in" type="button" aria-describedby="why" disabled>Sign in</button>
</div>
<nav class="bar" aria-label="Views">${VIEWS.map(([path, name]) => `<a href="#/${path}">${name}</a>`).join('')}</nav>
</header>
<main id="main" tabindex="-1">
<noscript><p class="note">This page needs JavaScript; the same figures are in <a href="/overview">/overview</a>.</p></noscript>
<p class="note" id="view-note" hidden></p>
<p class="note bad" id="view-refused" role="alert"></p>
<div class="view" id="view-overview">
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
</div>
${view('accounts', 'Accounts')}
<div class="filter"><form id="find"><label>Account id <input id="find-id" autocomplete="off" spellcheck="false" required></label>
<button type="submit">Open</button></form><span id="accounts-actions"></span></div>
${table('accounts', 'Money in USD, days in UTC. Members of an organisation spend its credit. The line shows spending in the last 31 days.')}
<h3>Budgets of all accounts, keys and models</h3>
${table('all-budgets', 'Spending in the present period, as far as it is in the ledger.')}
<h3>Requests of all accounts</h3>
${table('all-requests', 'Newest first, where the setting costLog.requests keeps them. Times in UTC.')}
</section>
${view('account', 'Account')}
<div class="filter"><span id="account-actions"></span></div>
<dl class="figures" id="account-figures"></dl>
<div class="plots">${plot(['plot-spending', 'USD by day (UTC)', 'last 31 days'])}</div>
<h3>Keys</h3>
${table('keys', 'Requests and tokens a minute hold for each gateway; what is left of them is in the headers of its answers. A rotated key and its successors share the month.')}
<h3>Budgets</h3>
${table('budgets', 'The bar shows spending in the present period, the mark in it the alert.')}
<h3>Credit that expires</h3>
${table('open-grants', 'The first to expire is spent first.')}
<h3 id="usage-title">Usage</h3>
${table('usage', 'By day and model in the last 31 days, newest first.', box('usage-title'))}
<h3>History</h3>
${table('movements', 'Movements of credit, newest first. Times in UTC.')}
<h3>Requests</h3>
${table('requests', 'Single requests, newest first, where the setting costLog.requests keeps them. Times in UTC.')}
</section>
${view('payments', 'Payments')}
<h3>Open</h3>
${table('open-payments', 'The outcome is not known yet. The gateway goes on asking; look at a block explorer before you decide.')}
<h3>Others</h3>
<div class="filter"><label>State <select id="payments-state"><option>settled</option><option>failed</option><option>reserved</option></select></label></div>
${table('payments', 'Those that changed last come first. Times in UTC.')}
</section>
${view('acts', 'Acts')}
<div class="filter"><form id="acts-filter">${['actor', 'action', 'subject']
  .map((name) => `<label>${name} <input name="${name}" autocomplete="off" spellcheck="false"></label>`)
  .join('')}<button type="submit">Filter</button></form></div>
${table('acts', 'What operators did, newest first. Times in UTC.')}
</section>
${view('webhooks', 'Webhooks')}
<div class="filter"><label>State <select id="deliveries-state"><option>all</option><option>pending</option><option>delivered</option><option>failed</option></select></label></div>
${table('deliveries', 'Deliveries of events, newest first. Times in UTC.')}
</section>
</main>
<dialog id="confirm" aria-labelledby="confirm-title" aria-describedby="confirm-text">
<form id="confirm-form">
<h2 id="confirm-title"></h2>
<p id="confirm-text"></p>
<div id="fields"></div>
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

/** The beginning of a view, with its heading and the button that reads it again. */
function view(id: string, name: string): string {
  return `<section class="view" id="view-${id}" aria-labelledby="${id}-title" hidden>
<div class="title"><h2 id="${id}-title" tabindex="-1">${name}</h2><button type="button" class="refresh">Refresh</button></div>`;
}

function table(id: string, caption: string, box = ''): string {
  return `<div class="sheet${box}"><table id="${id}" role="table"><caption>${caption}</caption>
<thead role="rowgroup"></thead><tbody role="rowgroup"></tbody></table><p class="empty" id="${id}-empty">None.</p>
<button type="button" class="more" id="${id}-more" hidden>More</button></div>`;
}
