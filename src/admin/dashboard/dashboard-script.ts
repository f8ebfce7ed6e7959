// The script of the dashboard; `dashboard-page.ts` puts it into the page and its hash into the policy. It reads the overview
// once a second and changes texts where they stand, so that focus and reading position stay. Whatever comes from the
// gateway becomes a text node: no markup is ever parsed. The admin token lives in the session storage of the tab.

import { accountsScript } from './accounts-script.ts';
import { durationText, growth, numberText, ratesBetween, timeText } from '../rates.ts';

/** The functions that `headrace top` calls, as the browser runs them. */
const RATES = [growth, ratesBetween, numberText, timeText, durationText].map(String).join('\n');

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

function svgEl(tag, attributes, ...children) {
  const node = document.createElementNS(SVG, tag);
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
  showSpark(cell, numberText(rate) + '/s', values);
}

/** A figure and the line behind it. */
function showSpark(cell, text, values) {
  if (!cell.firstChild) {
    const svg = svgEl('svg', { class: 'spark', viewBox: '0 0 100 20', preserveAspectRatio: 'none', 'aria-hidden': 'true' },
      svgEl('polyline', {}));
    cell.append(el('span', { class: 'attempts' }, el('span', { class: 'rate' }), svg));
  }
  say(cell.querySelector('.rate'), text);
  cell.querySelector('polyline').setAttribute('points', points(values, Math.max(...values), 100, 20));
}
`;

const ACTIONS = String.raw`
const TOKEN = 'headrace-admin-token';
const ROLES = ['viewer', 'operator', 'owner'];
/** Name and role of the holder of the token; null while they are not known. */
let who = null;
/** The action that the dialog asks about. */
let wanted = null;

const may = (role) => who !== null && ROLES.indexOf(who.role) >= ROLES.indexOf(role);

/** What the admin interface refuses, and why. */
class Refusal extends Error {}

/** Asks the admin interface. */
async function ask(method, path, { body, signal, token = sessionStorage.getItem(TOKEN) } = {}) {
  const response = await fetch(path, {
    method,
    signal,
    headers: { authorization: 'Bearer ' + token, 'content-type': 'application/json' },
    body: body && JSON.stringify(body),
  });
  const answer = await response.json();
  if (response.ok) return answer;
  if (response.status === 401) setIdentity(null);
  const { detail } = answer;
  const text = Array.isArray(detail) ? detail.map(({ loc, msg }) => loc.slice(1).concat(msg).join(' ')).join('; ') : detail;
  throw new Refusal(response.status + ': ' + text);
}

function setIdentity(identity) {
  who = identity;
  if (who === null) sessionStorage.removeItem(TOKEN);
  say($('sign-in'), who === null ? 'Sign in' : 'Sign out');
  say($('who'), who === null ? '' : who.name + ', ' + who.role);
}

async function identify(token) {
  const identity = await ask('GET', '/whoami', { token });
  sessionStorage.setItem(TOKEN, token);
  setIdentity(identity);
}

/** One input of the dialog; one with options is a list to choose from. */
function makeField({ label, name, options, type = 'text', value = '' }) {
  if (type === 'checkbox') return el('label', { class: 'check' }, el('input', { name, type }), label);
  const input = options
    ? el('select', { name }, ...options.map((text) => el('option', {}, text)))
    : el('input', { name, type, autocomplete: 'off', spellcheck: 'false' });
  input.value = value;
  return el('label', {}, label, input);
}

/** What was filled in. */
function givenFields() {
  const inputs = [...$('fields').querySelectorAll('[name]')];
  const all = inputs.map(({ checked, name, type, value }) => [name, type === 'checkbox' ? checked : value.trim()]);
  return Object.fromEntries(all.filter(([, value]) => value !== '' && value !== false));
}

/**
 * Asks for confirmation; the action is sent with the form. An action has a title, a text, fields, a method and a path, a body
 * made of what was filled in, and what to say when it is done.
 */
function confirmAction(action) {
  wanted = { method: 'POST', fields: [], body: (given) => given, verb: action.title.split(' ')[0], ...action };
  say($('confirm-title'), wanted.title);
  say($('confirm-text'), wanted.text);
  say($('refused'), '');
  say($('do-it'), wanted.verb);
  say($('cancel'), 'Cancel');
  $('do-it').hidden = false;
  $('fields').replaceChildren(...wanted.fields.map(makeField));
  $('token').value = '';
  $('token-label').hidden = sessionStorage.getItem(TOKEN) !== null;
  $('confirm').showModal();
  ($('confirm-form').querySelector('label:not([hidden]) :is(input, select)') || $('do-it')).focus();
}

/** Shows a new key: the one time it can be read. */
function showSecret(key) {
  say($('confirm-text'), 'The key is shown this once only. Copy it now.');
  $('fields').replaceChildren(el('code', { class: 'secret', tabindex: '0' }, key));
  $('do-it').hidden = true;
  say($('cancel'), 'Close');
  $('cancel').focus();
}

async function sendAction() {
  const { body, done, method, path } = wanted;
  $('do-it').disabled = true;
  say($('refused'), '');
  try {
    if (who === null) await identify($('token-label').hidden ? sessionStorage.getItem(TOKEN) : $('token').value.trim());
    $('token-label').hidden = true;
    const answer = path && (await ask(method, path, { body: body(givenFields()) }));
    announce(done(answer));
    if (answer && answer.key && answer.prefix) showSecret(answer.key);
    else $('confirm').close();
    look();
    await route('again');
  } catch (error) {
    const isTokenMissing = sessionStorage.getItem(TOKEN) === null;
    $('token-label').hidden = !isTokenMissing;
    say($('refused'), error instanceof Refusal ? error.message : 'The gateway does not answer: ' + error.message);
    if (isTokenMissing) $('token').select();
  }
  $('do-it').disabled = false;
}

const CRN_ACTIONS = {
  drain: ['Drain this CRN?', ' gets no new requests until it is returned or the gateway restarts. Requests in flight finish; conversations move to other CRNs.', 'drained'],
  eject: ['Eject this CRN?', ' gets no requests for a while and comes back through one trial request.', 'ejected'],
  return: ['Return this CRN?', ' gets requests again as soon as its probes are good.', 'returned'],
};
const DURATION = { name: 'for', label: 'Duration, such as 5m; empty is the duration of the next automatic ejection' };

function crnAction(action, url) {
  const [title, text, standing] = CRN_ACTIONS[action];
  return {
    title, text: url + text, path: '/crns/' + action, fields: action === 'eject' ? [DURATION] : [],
    body: (given) => ({ url, ...given }), done: () => url + ' is ' + standing,
  };
}

const RELOAD = {
  title: 'Reload the configuration?', text: 'The file is read again. A file with mistakes changes nothing.', path: '/reload',
  done: ({ applied, needRestart }) => 'Reloaded, ' + (applied.length ? 'in force: ' + applied.join(', ') : 'nothing changed')
    + (needRestart.length ? '; after a restart: ' + needRestart.join(', ') : ''),
};
const SIGN_IN = {
  title: 'Sign in', verb: 'Sign in', text: 'The token decides what you may see and do.',
  done: () => 'Signed in as ' + who.name + ', ' + who.role,
};

$('confirm-form').addEventListener('submit', (event) => {
  event.preventDefault();
  sendAction();
});
$('cancel').addEventListener('click', () => $('confirm').close());
$('confirm').addEventListener('close', () => $('fields').replaceChildren());
$('reload').addEventListener('click', () => confirmAction(RELOAD));
$('sign-in').addEventListener('click', () => {
  if (who === null) return confirmAction(SIGN_IN);
  setIdentity(null);
  // Nothing that the token has shown stays in the page.
  location.reload();
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
      node.addEventListener('click', () => confirmAction(crnAction(action, crn.url)));
      return node;
    };
    cell.append(el('span', { class: 'actions' }, button('drain', 'Drain'), button('eject', 'Eject'), button('return', 'Return')));
  }
  for (const button of cell.querySelectorAll('button')) button.disabled = !overview.orders || (who !== null && !may('operator'));
}

const percent = (share) => (share === null ? '–' : Math.round(share * 100) + ' %');
/** Predicted, and as the CRN reports them. */
const cacheHits = (crn) => percent(crn.predictedHit) + ', reported ' + percent(crn.reportedHit);
/** One text for each model, with its name where there are several. */
const ofModels = (crn, text) => crn.models.map((one) => (crn.models.length > 1 ? one.model + ' ' : '') + text(one)).join(', ');
const firstByte = (crn) => crn.models.map((one) => one.model + ' ' + timeText(one.firstByteMs)).join(', ');

const fillCrns = makeTable('crns', [
  ['CRN', (crn) => crn.url], ['Standing', showCrn], ['In flight', (crn) => crn.inFlight], ['First byte', firstByte],
  ['Cache hits', cacheHits], ['Backlog', (crn) => numberText(Math.round(crn.backlogBytes / 1024)) + ' KiB'],
  ['Prefill', (crn) => ofModels(crn, ({ bytesPerS }) => bytesPerS === null ? '–' : numberText(Math.round(bytesPerS / 1024)) + ' KiB/s')],
  ['Cache', (crn) => ofModels(crn, ({ capacityBytes }) => numberText(Math.round(capacityBytes / 1048576)) + ' MiB')],
  ['Attempts', (crn, cell) => drawSpark(cell, crn.url, rates ? rates.crns[crn.url] || 0 : 0)],
  ['Failures', (crn) => crn.failures], ['Failovers', (crn) => crn.failovers], ['Actions', showActions],
]);
const fillModels = makeTable('models', [
  ['Model', (one) => one.model || '(no model)'], ['Requests/s', ({ recent }) => numberText(recent.requestsPerS)],
  ['Median', ({ recent }) => timeText(recent.latencyMs.p50)], ['99th percentile', ({ recent }) => timeText(recent.latencyMs.p99)],
  ['First byte', ({ recent }) => timeText(recent.firstByteMs.p50)], ['Requests', (one) => one.requests.toLocaleString('en')],
  ['Errors', (one) => one.errors.toLocaleString('en')], ['Failovers', (one) => one.failovers.toLocaleString('en')],
  ['Waiting', (one) => one.waiting.toLocaleString('en')],
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
  const now = overview.recent;
  say($('about'), overview.version + ', ' + overview.stage + ', up ' + durationText(overview.uptimeMs));
  say($('rate'), numberText(now.requestsPerS));
  say($('errors-rate'), numberText(now.errorsPerS));
  say($('p50'), timeText(now.latencyMs.p50));
  say($('p99'), timeText(now.latencyMs.p99));
  say($('first-byte'), timeText(now.firstByteMs.p50));
  say($('streams'), String(overview.streams));
  say($('in-flight'), String(overview.threads.reduce((sum, { inFlight }) => sum + inFlight, 0)));
  const spent = overview.ledger && overview.ledger.spentTodayUsd;
  // More digits than a glance takes in are in the document.
  say($('spent'), overview.ledger ? (spent === null ? 'unknown' : spent.replace(/(\.\d{4})\d+$/, '$1')) : 'no ledger');
}

function show() {
  showFigures();
  const why = !overview.orders ? 'Admin actions are disabled: adminToken is not set in the configuration of this gateway.'
    : who !== null && !may('operator') ? 'The role ' + who.role + ' may not steer CRNs or reload: it takes operator.'
    : overview.reloadable ? '' : 'This gateway has no configuration file to read again.';
  say($('why'), why);
  $('why').hidden = why === '';
  $('reload').disabled = !overview.orders || !overview.reloadable || (who !== null && !may('operator'));
  $('sign-in').disabled = !overview.orders;
  if (rates) {
    history.push(overview.recent);
    if (history.length > SAMPLES) history.shift();
    drawPlot('plot-rate', (one) => one.requestsPerS, (one) => one.errorsPerS, numberText);
    drawPlot('plot-latency', (one) => one.latencyMs.p50, (one) => one.latencyMs.p99, timeText);
    drawPlot('plot-first-byte', (one) => one.firstByteMs.p50, (one) => one.firstByteMs.p99, timeText);
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
start();
`;

/** JavaScript of the page, run by browsers as it stands. */
export const dashboardScript: string = `'use strict';
(() => {
${[RATES, ELEMENTS, PLOTS, ACTIONS, VIEW, accountsScript, LOOP].join('\n')}
})();
`;
