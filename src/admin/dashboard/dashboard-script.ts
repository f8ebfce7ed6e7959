// The script of the dashboard; `dashboard-page.ts` puts it into the page and its hash into the policy. It reads the overview
// once a second and changes texts where they stand, so that focus and reading position stay. Whatever comes from the
// overview becomes a text node: no markup is ever parsed. The admin token lives in the session storage of the tab.

import { durationText, growth, numberText, quantileMs, ratesBetween, sumOf, timeText } from '../rates.ts';

/** The functions that `headrace top` calls, as the browser runs them. */
const RATES = [growth, sumOf, quantileMs, ratesBetween, numberText, timeText, durationText].map(String).join('\n');

const ELEMENTS = String.raw`
const $ = (id) => document.getElementById(id);
const SVG = 'http://www.w3.org/2000/svg';

/** Sets a text where it has changed: a text that stays is not read out again, and a selection in it survives. */
function say(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

function el(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

/** A table whose rows are found again by their key; columns: name and what fills a cell from a row's data. */
function makeTable(id, columns) {
  const table = $(id);
  const body = table.querySelector('tbody');
  const rows = new Map();
  table.querySelector('thead').append(el('tr', { role: 'row' },
    ...columns.map(([name]) => el('th', { scope: 'col', role: 'columnheader' }, name))));
  const makeRow = () => {
    const cells = columns.map(([name], i) => (i === 0
      ? el('th', { scope: 'row', role: 'rowheader' })
      : el('td', { role: 'cell', 'data-label': name })));
    return { node: el('tr', { role: 'row' }, ...cells), cells };
  };
  return (data, keyOf) => {
    const gone = new Set(rows.keys());
    data.forEach((item, index) => {
      const key = keyOf(item);
      gone.delete(key);
      if (!rows.has(key)) rows.set(key, makeRow());
      const { node, cells } = rows.get(key);
      columns.forEach(([, fill], i) => {
        const text = fill(item, cells[i]);
        if (text !== undefined) say(cells[i], String(text));
      });
      if (body.children[index] !== node) body.insertBefore(node, body.children[index] || null);
    });
    for (const key of gone) {
      rows.get(key).node.remove();
      rows.delete(key);
    }
    $(id + '-empty').hidden = data.length > 0;
    table.hidden = data.length === 0;
  };
}

const clock = (ms) => new Date(ms).toLocaleTimeString();
const plural = (count, word) => count + ' ' + word + (count === 1 ? '' : 's');
`;

const PLOTS = String.raw`
const SAMPLES = 180;
const history = [];
const crnHistory = new Map();

const SHORTEST = 30;

/** Points of a line, the newest at the right; a sample without a value leaves its place to its neighbours. */
function points(values, most, width, height) {
  const places = Math.max(values.length, SHORTEST);
  const step = width / (places - 1);
  const first = places - values.length;
  return values.flatMap((value, i) => (value === null ? [] : [
    ((first + i) * step).toFixed(1) + ',' + (height - 2 - (value / (most || 1)) * (height - 4)).toFixed(1),
  ])).join(' ');
}

function drawPlot(id, first, second, print) {
  const lines = [history.map(first), history.map(second)];
  const most = Math.max(...lines.flat().map((value) => value || 0));
  const [dashed, solid] = $(id).querySelectorAll('polyline');
  solid.setAttribute('points', points(lines[0], most, 600, 100));
  dashed.setAttribute('points', points(lines[1], most, 600, 100));
  const last = history[history.length - 1];
  say($(id).querySelector('.value'), print(first(last)) + ' / ' + print(second(last)) + ', most ' + print(most));
}

function drawSpark(cell, url, rate) {
  if (!crnHistory.has(url)) crnHistory.set(url, []);
  const values = crnHistory.get(url);
  values.push(rate);
  if (values.length > SAMPLES) values.shift();
  if (!cell.firstChild) {
    const svg = document.createElementNS(SVG, 'svg');
    for (const [name, value] of [['class', 'spark'], ['viewBox', '0 0 100 20'], ['preserveAspectRatio', 'none'], ['aria-hidden', 'true']])
      svg.setAttribute(name, value);
    svg.append(document.createElementNS(SVG, 'polyline'));
    cell.append(el('span', { class: 'attempts' }, el('span', { class: 'rate' }), svg));
  }
  say(cell.querySelector('.rate'), numberText(rate) + '/s');
  cell.querySelector('polyline').setAttribute('points', points(values, Math.max(...values), 100, 20));
}
`;

const ACTIONS = String.raw`
const TOKEN = 'headrace-admin-token';
const TEXTS = {
  drain: ['Drain this CRN?', (url) => url + ' gets no new requests until it is returned or the gateway restarts. Requests in flight finish; conversations move to other CRNs.'],
  eject: ['Eject this CRN?', (url) => url + ' gets no requests for a while and comes back through one trial request.'],
  return: ['Return this CRN?', (url) => url + ' gets requests again as soon as its probes are good.'],
  accounts: ['Show accounts?', () => 'They are read with a token, that of a viewer at least, and renewed while they are shown.'],
  reload: ['Reload the configuration?', () => 'The file is read again. A file with mistakes changes nothing.'],
};
let wanted = null;

/** Asks for confirmation; the action is sent with the form. */
function confirmAction(action, url) {
  const [title, text] = TEXTS[action];
  wanted = { action, url };
  say($('confirm-title'), title);
  say($('confirm-text'), text(url));
  say($('refused'), '');
  say($('do-it'), title.split(' ')[0]);
  $('duration-label').hidden = action !== 'eject';
  $('duration').value = '';
  $('token').value = '';
  $('token-label').hidden = sessionStorage.getItem(TOKEN) !== null;
  $('confirm').showModal();
  ($('token-label').hidden ? $('do-it') : $('token')).focus();
}

async function sendAction() {
  const { action, url } = wanted;
  const token = $('token-label').hidden ? sessionStorage.getItem(TOKEN) : $('token').value.trim();
  const reads = action === 'accounts';
  const body = action === 'reload' ? {} : { url };
  if (action === 'eject' && $('duration').value.trim()) body.for = $('duration').value.trim();
  $('do-it').disabled = true;
  try {
    const authorization = 'Bearer ' + token;
    const response = await (reads ? fetch('/whoami', { headers: { authorization } })
      : fetch(action === 'reload' ? '/reload' : '/crns/' + action, {
        method: 'POST',
        headers: { authorization, 'content-type': 'application/json' },
        body: JSON.stringify(body),
      }));
    const answer = await response.json();
    if (response.status === 401) sessionStorage.removeItem(TOKEN);
    else if (response.status !== 403) sessionStorage.setItem(TOKEN, token);
    if (response.ok) {
      $('confirm').close();
      announce(doneText(action, url, answer));
      if (reads) showAccounts(answer);
      else look();
    } else {
      $('token-label').hidden = response.status !== 401;
      say($('refused'), response.status + ': ' + answer.detail);
      if (response.status === 401) $('token').select();
    }
  } catch (error) {
    say($('refused'), 'The gateway does not answer: ' + error.message);
  }
  $('do-it').disabled = false;
}

function doneText(action, url, answer) {
  if (action === 'accounts') return 'Accounts are shown to ' + answer.name + ', ' + answer.role;
  if (action !== 'reload') return url + ' is ' + { drain: 'drained', eject: 'ejected', return: 'returned' }[action];
  const changed = answer.applied.length ? 'in force: ' + answer.applied.join(', ') : 'nothing changed';
  return 'Reloaded, ' + changed + (answer.needRestart.length ? '; after a restart: ' + answer.needRestart.join(', ') : '');
}

$('confirm-form').addEventListener('submit', (event) => {
  event.preventDefault();
  sendAction();
});
$('cancel').addEventListener('click', () => $('confirm').close());
$('reload').addEventListener('click', () => confirmAction('reload'));
`;

const ACCOUNTS = String.raw`
const ACCOUNTS_EVERY_MS = 10000;
const date = (text) => new Date(text).toLocaleString();
const orDash = (value) => (value === null || value === '' ? '–' : value);
const LISTS = {
  accounts: ['/accounts?limit=100', makeTable('accounts', [
    ['Account', (one) => one.id], ['Balance, USD', (one) => one.balance_usd], ['On hold', (one) => one.held_usd],
    ['Credit limit', (one) => one.credit_limit_usd], ['Expires', (one) => one.expiring_usd],
    ['Organisation', (one) => orDash(one.organisation)],
  ]), (one) => one.id],
  budgets: ['/budgets?limit=100', makeTable('budgets', [
    ['Budget', (one) => one.id], ['Account', (one) => orDash(one.account)], ['Key', (one) => orDash(one.key)],
    ['Model', (one) => orDash(one.model)], ['Period', (one) => one.period], ['Spent, USD', (one) => one.spent_usd],
    ['Limit', (one) => one.limit_usd],
  ]), (one) => one.id],
  requests: ['/requests?limit=100', makeTable('requests', [
    ['Request', (one) => one.request_id], ['Time', (one) => date(one.date)], ['Account', (one) => one.account],
    ['Model', (one) => orDash(one.model)], ['Status', (one) => one.status],
    ['Tokens in, cached, out', (one) => one.input_tokens + ', ' + one.cached_tokens + ', ' + one.output_tokens],
    ['Cost, USD', (one) => one.cost_usd],
  ]), (one) => one.id],
  acts: ['/acts?limit=100', makeTable('acts', [
    ['Act', (one) => one.action], ['Time', (one) => date(one.date)], ['Who', (one) => one.actor + ' (' + one.role + ')'],
    ['Subject', (one) => orDash(one.subject)], ['Outcome', (one) => one.outcome],
    ['Asked for', (one) => JSON.stringify(one.request)],
  ]), (one) => one.id],
  deliveries: ['/webhooks/deliveries?limit=100', makeTable('deliveries', [
    ['Event', (one) => one.type], ['Time', (one) => date(one.date)], ['Account', (one) => orDash(one.account)],
    ['Endpoint', (one) => one.endpoint], ['State', (one) => one.state], ['Attempts', (one) => one.attempts],
    ['Result', (one) => orDash(one.result)],
  ]), (one) => one.message + one.endpoint],
};
let accountsTimer = 0;

function showAccounts({ name, role }) {
  $('accounts-part').hidden = false;
  $('show-accounts').setAttribute('aria-expanded', 'true');
  say($('show-accounts'), 'Hide accounts');
  say($('who'), name + ', ' + role);
  readAccounts();
}

function hideAccounts() {
  clearTimeout(accountsTimer);
  $('accounts-part').hidden = true;
  $('show-accounts').setAttribute('aria-expanded', 'false');
  say($('show-accounts'), 'Show accounts');
  say($('who'), '');
}

async function readAccounts() {
  clearTimeout(accountsTimer);
  const headers = { authorization: 'Bearer ' + sessionStorage.getItem(TOKEN) };
  try {
    for (const [path, fill, keyOf] of Object.values(LISTS)) {
      const response = await fetch(path, { headers });
      const answer = await response.json();
      if (!response.ok) throw new Error(response.status + ': ' + answer.detail);
      fill(answer.data, keyOf);
    }
  } catch (error) {
    announce('Accounts cannot be read: ' + error.message, true);
  }
  if (!$('accounts-part').hidden) accountsTimer = setTimeout(readAccounts, ACCOUNTS_EVERY_MS);
}

$('show-accounts').addEventListener('click', () => {
  if ($('accounts-part').hidden) confirmAction('accounts');
  else hideAccounts();
});
`;

const VIEW = String.raw`
const MARKS = { up: '●', capable: '◐', probing: '◌', down: '▼', drained: '■', ready: '●', suspended: '▼', trial: '◌' };
let overview = null;
let rates = null;
const standings = new Map();

function showStanding(cell, word, more = '') {
  if (!cell.firstChild) cell.append(el('span', { class: 'standing' }), el('span'));
  const [mark, rest] = cell.children;
  say(mark, MARKS[word] + ' ' + word);
  mark.classList.toggle('bad', word === 'down' || word === 'suspended');
  say(rest, more);
}

/** The standing of a CRN: its models' where they agree, else each. */
function showCrn(crn, cell) {
  const words = [...new Set(crn.models.map(({ standing }) => standing))];
  const left = crn.ejectedUntilMs === null ? 0 : crn.ejectedUntilMs - overview.dateMs;
  const ejected = left > 0 ? ' ejected, ' + durationText(left) + ' left' : '';
  const mixed = words.length > 1 ? ' (' + crn.models.map(({ model, standing }) => model + ' ' + standing).join(', ') + ')' : '';
  showStanding(cell, words[0] || 'down', ejected + mixed);
  const said = words.join(' and ');
  if (standings.has(crn.url) && standings.get(crn.url) !== said) announce(crn.url + ' is ' + said);
  standings.set(crn.url, said);
}

function showActions(crn, cell) {
  if (!cell.firstChild) {
    const button = (action, text) => {
      const node = el('button', { type: 'button', 'aria-label': text + ' ' + crn.url, 'aria-describedby': 'why' }, text);
      node.addEventListener('click', () => confirmAction(action, crn.url));
      return node;
    };
    cell.append(el('span', { class: 'actions' }, button('drain', 'Drain'), button('eject', 'Eject'), button('return', 'Return')));
  }
  for (const button of cell.querySelectorAll('button')) button.disabled = !overview.orders;
}

const firstByte = (crn) => crn.models.map((one) => one.model + ' ' + timeText(one.firstByteMs)).join(', ');

const fillCrns = makeTable('crns', [
  ['CRN', (crn) => crn.url], ['Standing', showCrn], ['In flight', (crn) => crn.inFlight], ['First byte', firstByte],
  ['Attempts', (crn, cell) => drawSpark(cell, crn.url, rates ? rates.crns[crn.url] || 0 : 0)],
  ['Failures', (crn) => crn.failures], ['Failovers', (crn) => crn.failovers], ['Actions', showActions],
]);
const ofModel = (field, print) => ({ model }) => {
  const own = rates && rates.models.find((one) => one.model === model);
  return own ? print(own[field]) : '–';
};
const fillModels = makeTable('models', [
  ['Model', (one) => one.model || '(no model)'], ['Requests/s', ofModel('requestsPerS', numberText)],
  ['Median', ofModel('p50Ms', timeText)], ['99th percentile', ofModel('p99Ms', timeText)],
  ['First byte', ofModel('firstByteP50Ms', timeText)], ['Requests', (one) => one.requests.toLocaleString('en')],
  ['Errors', (one) => one.errors.toLocaleString('en')], ['Failovers', (one) => one.failovers.toLocaleString('en')],
]);
const fillEngines = makeTable('engines', [
  ['Engine', (one) => one.engine],
  ['Standing', (one, cell) => showStanding(cell, one.standing,
    one.standing === 'suspended' ? ' ' + durationText(one.suspendedUntilMs - overview.dateMs) + ' left, ' + (one.reason || 'elsewhere') : '')],
  ['Answered', (one) => one.answered], ['Failed', (one) => one.failed], ['Last failure', (one) => one.reason || '–'],
]);
const fillThreads = makeTable('threads', [
  ['Thread', (one) => one.thread], ['In flight', (one) => one.inFlight],
  ['Busy', (one) => (rates ? Math.round(rates.busy[overview.threads.indexOf(one)] * 100) + ' %' : '–')],
  ['Delay, 99th', (one) => timeText(one.delayMs[1])], ['Longest', (one) => timeText(one.delayMs[2])],
  ['Heap', (one) => numberText(one.heapBytes / 1048576) + ' MiB'],
]);
const fillFetch = makeTable('fetch', [
  ['Threads', (one) => one.threads], ['Running', (one) => one.running], ['Queued', (one) => one.queued],
  ['Replaced', (one) => one.replaced], ['Pages', (one) => one.pages],
]);
const fillErrors = makeTable('errors', [
  ['Request', (one) => one.requestId], ['Time', (one) => clock(one.dateMs)], ['Status', (one) => one.status],
  ['Code', (one) => one.code || '–'], ['Endpoint', (one) => one.endpoint], ['Model', (one) => one.model || '–'],
  ['CRN', (one) => one.crn || '–'],
]);

function showFigures() {
  const now = rates && rates.total;
  say($('about'), overview.version + ', ' + overview.stage + ', up ' + durationText(overview.uptimeMs));
  say($('rate'), now ? numberText(now.requestsPerS) : '–');
  say($('errors-rate'), now ? numberText(now.errorsPerS) : '–');
  say($('p50'), now ? timeText(now.p50Ms) : '–');
  say($('p99'), now ? timeText(now.p99Ms) : '–');
  say($('first-byte'), now ? timeText(now.firstByteP50Ms) : '–');
  say($('streams'), String(overview.streams));
  say($('in-flight'), String(overview.threads.reduce((sum, { inFlight }) => sum + inFlight, 0)));
  const spent = overview.ledger && overview.ledger.spentTodayUsd;
  // More digits than a glance takes in are in the document.
  say($('spent'), overview.ledger ? (spent === null ? 'unknown' : spent.replace(/(\.\d{4})\d+$/, '$1')) : 'no ledger');
}

function show() {
  showFigures();
  const why = !overview.orders ? 'Admin actions are disabled: adminToken is not set in the configuration of this gateway.'
    : overview.reloadable ? '' : 'This gateway has no configuration file to read again.';
  say($('why'), why);
  $('why').hidden = why === '';
  $('reload').disabled = !overview.orders || !overview.reloadable;
  $('show-accounts').disabled = !overview.orders || overview.ledger === null;
  if (rates) {
    history.push(rates.total);
    if (history.length > SAMPLES) history.shift();
    drawPlot('plot-rate', (one) => one.requestsPerS, (one) => one.errorsPerS, numberText);
    drawPlot('plot-latency', (one) => one.p50Ms, (one) => one.p99Ms, timeText);
    drawPlot('plot-first-byte', (one) => one.firstByteP50Ms, (one) => one.firstByteP99Ms, timeText);
  }
  fillCrns(overview.crns, (crn) => crn.url);
  fillModels(overview.models, (one) => one.model);
  fillEngines(overview.engines, (one) => one.engine);
  fillThreads(overview.threads, (one) => one.thread);
  fillFetch([overview.fetch], () => 'pool');
  fillErrors(overview.errors, (one) => one.requestId + one.dateMs);
}
`;

const LOOP = String.raw`
const EVERY_MS = 1000;
let timer = 0;
let looking = false;

function announce(text, bad = false) {
  $('status').classList.toggle('bad', bad);
  say($('status'), text);
}

async function look() {
  if (looking) return;
  looking = true;
  clearTimeout(timer);
  try {
    const response = await fetch('/overview', { signal: AbortSignal.timeout(5000) });
    const next = await response.json();
    if (!response.ok) throw new Error(response.status + ': ' + next.detail);
    if (overview === null || $('status').classList.contains('bad')) announce('Live');
    // The document is made at most once a second: the same one again says nothing new.
    if (overview === null || next.dateMs !== overview.dateMs) {
      rates = overview && next.uptimeMs > overview.uptimeMs ? ratesBetween(overview, next) : null;
      overview = next;
      show();
    }
  } catch (error) {
    const since = overview ? ' since ' + clock(overview.dateMs) : '';
    announce('No answer from the gateway' + since + ': ' + error.message, true);
  }
  looking = false;
  wait();
}

function wait() {
  clearTimeout(timer);
  if (!document.hidden && $('pause').getAttribute('aria-pressed') === 'false') timer = setTimeout(look, EVERY_MS);
}

$('pause').addEventListener('click', () => {
  const paused = $('pause').getAttribute('aria-pressed') === 'false';
  $('pause').setAttribute('aria-pressed', String(paused));
  announce(paused ? 'Paused' : 'Live');
  wait();
});
document.addEventListener('visibilitychange', wait);
look();
`;

/** JavaScript of the page, run by browsers as it stands. */
export const dashboardScript: string = `'use strict';
(() => {
${[RATES, ELEMENTS, PLOTS, ACTIONS, ACCOUNTS, VIEW, LOOP].join('\n')}
})();
`;
