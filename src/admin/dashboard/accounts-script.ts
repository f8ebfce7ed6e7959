// The part of the dashboard's script that needs an admin token: accounts, one account, payments, acts and webhooks. Each view is a
// path behind `#` and reads the admin interface when it is opened, refreshed, or when an action of the page has changed something.
// Actions that the role of the token does not allow are not shown; the gateway refuses them anyway.

const READING = String.raw`
/** Days of spending that are shown, with today. */
const DAYS = 31;
const PAGE = 25;
/** Most rows of a page of the admin interface. */
const MOST = 1000;

/** The view that is shown: the requests of the one before are aborted. */
let visit = new AbortController();

const dayText = (ms) => new Date(ms).toISOString().slice(0, 10);
const nowMs = () => (overview ? overview.dateMs : Date.now());
const when = (date) => (date === null ? '–' : date.replace('T', ' ').slice(0, 19));
const count = (value) => value.toLocaleString('en');
const orDash = (value) => (value === null || value === '' ? '–' : value);

/** Pico-USD of a decimal, and back: sums are exact. */
function pico(usd) {
  const [whole, part = ''] = usd.split('.');
  return BigInt(whole + part.padEnd(12, '0'));
}
function usdText(sum) {
  const digits = String(sum < 0n ? -sum : sum).padStart(13, '0');
  return (sum < 0n ? '-' : '') + digits.slice(0, -12) + '.' + digits.slice(-12).replace(/0{1,10}$/, '');
}

async function read(path, query = {}) {
  const { signal } = visit;
  const answer = await ask('GET', path + '?' + new URLSearchParams(query), { signal });
  signal.throwIfAborted();
  return answer;
}

/** All rows of a list. */
async function readAll(path, query) {
  const rows = [];
  for (let cursor; cursor !== null;) {
    const page = await read(path, { ...query, limit: MOST, ...(cursor && { cursor }) });
    rows.push(...page.data);
    cursor = page.next;
  }
  return rows;
}

/** A table of a long list: reads a page, and the next one on demand. The function that is returned opens a list. */
function makeList(id, keyOf, columns, onPage = () => {}) {
  const fill = makeTable(id, columns);
  const more = $(id + '-more');
  const open = async (path, query, before = [], cursor = null) => {
    const { data, next } = await read(path, { ...query, limit: PAGE, ...(cursor && { cursor }) });
    const rows = [...before, ...data];
    const show = () => fill(rows, keyOf);
    show();
    more.hidden = next === null;
    more.onclick = () => guarded(() => open(path, query, rows, next));
    await onPage(data, show);
  };
  return (path, query = {}) => open(path, query);
}

/** Shows why something could not be read. What belongs to a view that was left is of no interest. */
async function guarded(work) {
  const { signal } = visit;
  say($('view-refused'), '');
  try {
    await work();
  } catch (error) {
    if (signal.aborted) return;
    say($('view-refused'), error.message);
    if (who === null) route('again');
  }
}

/** Spending of the last days by day, in USD, and the sums of today and of this month. */
function spendingOf(rows) {
  const sums = new Map();
  for (const { amount_usd: usd, day } of rows) sums.set(day, (sums.get(day) || 0n) + pico(usd));
  const today = dayText(nowMs());
  const inMonth = [...sums].filter(([day]) => day.slice(0, 7) === today.slice(0, 7));
  return {
    days: Array.from({ length: DAYS }, (_, i) => Number(sums.get(dayText(nowMs() - (DAYS - 1 - i) * 86400000)) || 0n) / 1e12),
    today: usdText(sums.get(today) || 0n),
    month: usdText(inMonth.reduce((sum, [, each]) => sum + each, 0n)),
  };
}

const firstDay = () => dayText(nowMs() - (DAYS - 1) * 86400000);
`;

const CELLS = String.raw`
const accountPath = (id) => '/accounts/' + encodeURIComponent(id);

/** A cell with a link to an account. */
function showAccountLink(cell, id) {
  if (id === null) {
    cell.replaceChildren('–');
    return;
  }
  if (cell.textContent !== id) cell.replaceChildren(el('a', { href: '#' + accountPath(id) }, id));
}
const accountCell = (field) => (row, cell) => showAccountLink(cell, row[field]);

/**
 * A cell with the actions of a row: text, role, the action for the row, and whether the row allows it. Those that the role or the
 * row does not allow are hidden.
 */
function actionsCell(nameOf, actions) {
  return (row, cell) => {
    if (!cell.firstChild) {
      const buttons = actions.map(([text, , actionFor]) => {
        const button = el('button', { type: 'button' }, text);
        button.addEventListener('click', () => confirmAction(actionFor(cell.row)));
        return button;
      });
      cell.append(el('span', { class: 'actions' }, ...buttons));
    }
    cell.row = row;
    cell.querySelectorAll('button').forEach((button, i) => {
      const [text, role, , applies = () => true] = actions[i];
      button.hidden = !may(role) || !applies(row);
      button.setAttribute('aria-label', (text + ' ' + nameOf(row)).trim());
    });
  };
}

/** What is left of a limit, with a bar and a mark where the alert is due. */
function showShare(cell, spent, limit, alert = null) {
  if (!cell.firstChild) {
    const bar = svgEl('svg', { viewBox: '0 0 100 8', preserveAspectRatio: 'none', 'aria-hidden': 'true' },
      svgEl('rect', { width: '100', height: '8' }), svgEl('rect', { height: '8' }), svgEl('line', { y1: '0', y2: '8' }));
    cell.append(el('span', { class: 'share' }, el('span'), bar));
  }
  const place = (sum) => String(Math.min(Math.max(Number((sum * 1000n) / limit) / 10, 0), 100));
  const isOver = spent >= limit;
  const standing = isOver ? ', used up' : alert !== null && spent >= alert ? ', alert reached' : '';
  const mark = alert === null ? '' : ', alert at ' + usdText(alert);
  say(cell.querySelector('.share span'),
    usdText(isOver ? 0n : limit - spent) + ' left: ' + usdText(spent) + ' of ' + usdText(limit) + mark + standing);
  const [, bar] = cell.querySelectorAll('rect');
  const line = cell.querySelector('line');
  bar.setAttribute('width', place(spent));
  bar.setAttribute('class', isOver ? 'spent bad' : 'spent');
  line.setAttribute('visibility', alert === null ? 'hidden' : 'visible');
  for (const x of ['x1', 'x2']) line.setAttribute(x, place(alert === null ? 0n : alert));
}
`;

const ACCOUNT_ACTIONS = String.raw`
/** An id that makes a repeat of a movement harmless; random, and also available without TLS. */
const newId = () => Array.from(crypto.getRandomValues(new Uint8Array(9)), (byte) => byte.toString(16).padStart(2, '0')).join('');

/** Fields that were changed; one that was emptied has its word for none. */
const changedOf = (fields) => (given) => Object.fromEntries(fields
  .filter(({ name, value }) => (given[name] || '') !== value)
  .map(({ name, none }) => [name, given[name] || none]));

const AMOUNT = { name: 'amount', label: 'USD, such as 25.00' };
const MEMO = { name: 'memo', label: 'Memo' };

function moveCredit({ id }, name, title, text, fields) {
  const move = newId();
  return {
    title, text, fields, path: accountPath(id) + '/' + name, body: (given) => ({ id: move, ...given }),
    done: ({ amount_usd: amount, balance_usd: balance }) => amount + ' USD for ' + id + ', balance ' + balance + ' USD',
  };
}

const grantTo = (account) => moveCredit(account, 'grants', 'Grant credit?', account.id + ' gets credit.',
  [AMOUNT, { name: 'expires', label: 'Expires, such as 30d or 2030-01-31; empty is never' }, MEMO]);
const adjust = (account) => moveCredit(account, 'adjustments', 'Adjust the credit?',
  account.id + ' gets credit or, with a sum below zero, loses it.', [{ ...AMOUNT, label: 'USD, such as -5.00' }, MEMO]);
const refund = (account) => moveCredit(account, 'refunds', 'Refund?', account.id + ' gets back what it was charged.', [AMOUNT, MEMO]);

/** A charge or a request is given back as a whole, once. */
const refundOf = (what) => ({ account, id, amount_usd: charged, cost_usd: cost = charged.slice(1) }) => ({
  title: 'Refund?', text: account + ' gets ' + cost + ' USD back for ' + what + ' ' + id + '.', path: accountPath(account) + '/refunds',
  fields: [MEMO], body: (given) => ({ [what]: id, ...given }),
  done: ({ amount_usd: amount, repeated }) => (repeated ? 'Was refunded before: ' : 'Refunded: ') + amount + ' USD for ' + account,
});

function changeAccount({ id, credit_limit_usd: limit, low_balance_usd: low, organisation }) {
  const fields = [
    { name: 'credit_limit', label: 'Credit limit in USD: how far below zero the balance may go', value: limit, none: '0' },
    { name: 'organisation', label: 'Organisation whose credit is spent', value: organisation || '', none: 'none' },
    { name: 'low_balance', label: 'Balance in USD below which credit.low is sent', value: low || '', none: 'none' },
  ];
  return {
    title: 'Change the account?', text: id, fields, path: accountPath(id), body: changedOf(fields), done: () => id + ' is changed',
  };
}

const createAccount = () => ({
  title: 'Create an account?', text: 'One that exists stays as it is.', path: '/accounts', fields: [{ name: 'id', label: 'Id' }, { name: 'label', label: 'Label' }],
  done: ({ id }) => 'Account ' + id + ' exists',
});

function keyFields({ expires_at: expires, label, monthly_usd: monthly, rpm, running, tpm } = {}) {
  const text = (value) => (value === null || value === undefined ? '' : String(value));
  return [
    { name: 'label', label: 'Label', value: text(label), none: '' },
    { name: 'expires', label: 'Expires, such as 90d or 2030-01-31; empty is never', value: text(expires), none: null },
    { name: 'running', label: 'Requests at the same time; empty is no limit', value: text(running), none: null },
    { name: 'rpm', label: 'Requests a minute', value: text(rpm), none: null },
    { name: 'tpm', label: 'Tokens a minute', value: text(tpm), none: null },
    { name: 'monthly', label: 'USD a calendar month', value: text(monthly), none: null },
  ];
}

const createKey = ({ id }) => ({
  title: 'Create a key?', text: 'For account ' + id + '.', path: '/keys', fields: keyFields(), body: (given) => ({ account: id, ...given }),
  done: ({ id: key }) => 'Key ' + key + ' is created',
});
function editKey(key) {
  const fields = keyFields(key);
  return {
    title: 'Edit the key?', text: key.id, method: 'PATCH', path: '/keys/' + key.id, fields, body: changedOf(fields), done: () => key.id + ' is changed',
  };
}
const rotateKey = ({ id }) => ({
  title: 'Rotate the key?', text: id + ' gets a successor with its limits, and ends after the grace period.', path: '/keys/' + id + '/rotate',
  fields: [{ name: 'grace', label: 'Grace period, such as 24h or 0s', value: '24h' }],
  done: ({ id: key }) => key + ' replaces ' + id,
});
const disableKey = ({ id }) => ({
  title: 'Disable the key?', text: id + ' is refused from now on. It cannot be enabled again.', path: '/keys/' + id + '/disable', done: () => id + ' is disabled',
});

/** The budget of an account, key or model; with a limit: one that exists. */
function setBudget({ account, alert_usd: alert, key = null, limit_usd: limit = '', model = null, period }) {
  const isNew = period === undefined;
  const target = Object.fromEntries(Object.entries({ account, key, model, period }).filter(([, value]) => value));
  return {
    title: 'Set the budget?', text: isNew ? 'For account ' + account + (key ? ', key ' + key : '') + '.' : budgetName({ account, key, model }) + ', by ' + period + '.',
    path: '/budgets',
    fields: [
      ...(isNew ? [{ name: 'model', label: 'Model; empty is all' }, { name: 'period', label: 'Period', options: ['month', 'week', 'day'], value: 'month' }] : []),
      { name: 'limit', label: 'USD in the period', value: limit }, { name: 'alert', label: 'Alert at USD, or a part such as 80%', value: alert || '' },
    ],
    body: (given) => ({ ...target, ...given }), done: () => 'The budget is set',
  };
}
const removeBudget = (budget) => ({
  title: 'Remove the budget?', text: budgetName(budget) + ', by ' + budget.period + '.', method: 'DELETE', path: '/budgets/' + budget.id,
  body: () => undefined, done: () => 'The budget is removed',
});

const decided = ({ id, state }) => 'Payment ' + id + ' is ' + state;
const paymentPath = ({ id }) => '/payments/' + encodeURIComponent(id) + '/decide';
const paymentText = ({ account, amount_usd: amount, payer }) => amount + ' USD from ' + payer + ' for account ' + account + '.';
const settlePayment = (payment) => ({
  title: 'Settle the payment?', text: paymentText(payment) + ' The money has moved on the chain: it becomes credit of the account.', path: paymentPath(payment),
  fields: [{ name: 'transaction', label: 'Hash of the transaction', value: payment.transaction || '' }], done: decided,
});
const closePayment = (payment) => ({
  title: 'Close the payment?', text: paymentText(payment) + ' No money has moved: nothing becomes credit. The signature is valid until ' + when(payment.valid_until) + ' UTC; until then the money can still move.',
  path: paymentPath(payment), fields: [{ name: 'force', label: 'Also while the money can still move', type: 'checkbox' }],
  body: (given) => ({ not_settled: true, ...given }), done: decided,
});

const redeliver = ({ endpoint, message, type }) => ({
  title: 'Send the event again?', text: type + ', ' + message + ', to ' + endpoint + '.', path: '/webhooks/deliveries/' + encodeURIComponent(message) + '/redeliver',
  body: () => ({ endpoint }), done: () => message + ' is due to ' + endpoint,
});
`;

const TABLES = String.raw`
const spending = new Map();
const spent = (field) => ({ id }) => (spending.has(id) ? spending.get(id)[field] : '…');
const openAccounts = makeList('accounts', (account) => account.id, [
  ['Account', accountCell('id')], ['Label', (one) => orDash(one.label)], ['Balance', (one) => one.balance_usd],
  ['In use', (one) => one.held_usd], ['Credit limit', (one) => one.credit_limit_usd], ['Organisation', accountCell('organisation')],
  ['Today', spent('today')], ['Month', spent('month')],
  ['Days', ({ id }, cell) => {
    if (spending.has(id)) showSpark(cell, '', spending.get(id).days);
  }],
], async (accounts, show) => {
  await Promise.all(accounts.map(async ({ id }) => {
    spending.set(id, spendingOf(await readAll('/usage', { account: id, by: 'day', from: firstDay() })));
  }));
  show();
});

const budgetName = ({ account, key, model }) => [account || 'all accounts', key, model].filter(Boolean).join(', ');
const budgetColumns = [
  ['Budget', budgetName], ['Period', (one) => one.period],
  ['USD', (one, cell) => showShare(cell, pico(one.spent_usd), pico(one.limit_usd), one.alert_usd && pico(one.alert_usd))],
  ['Ends', (one) => when(one.ends_at)],
  ['Actions', actionsCell(budgetName, [['Change', 'operator', setBudget], ['Remove', 'operator', removeBudget]])],
];
const openAllBudgets = makeList('all-budgets', (budget) => budget.id, budgetColumns);
const openBudgets = makeList('budgets', (budget) => budget.id, budgetColumns);

/** Spending of this month by the first key of a chain. */
let keySpending = new Map();
function keyLimits({ rpm, running, tpm }) {
  const limits = [[running, ' at once'], [rpm, ' requests/min'], [tpm, ' tokens/min']].filter(([limit]) => limit !== null);
  return limits.map(([limit, text]) => count(limit) + text).join(', ') || 'none';
}
function showMonth({ lineage, monthly_usd: limit }, cell) {
  const sum = keySpending.get(lineage) || 0n;
  if ((limit === null) === (cell.querySelector('.share') !== null)) cell.replaceChildren();
  if (limit === null) return usdText(sum) + ', no limit';
  showShare(cell, sum, pico(limit));
}
const isActive = ({ state }) => state === 'active';
const fillKeys = makeTable('keys', [
  ['Key', (one) => one.id], ['Begins with', (one) => one.prefix], ['Label', (one) => orDash(one.label)], ['State', (one) => one.state],
  ['Limits', keyLimits], ['USD this month', showMonth], ['Expires', (one) => when(one.expires_at)],
  ['Actions', actionsCell((one) => one.id, [
    ['Edit', 'operator', editKey, ({ state }) => state !== 'disabled'], ['Budget', 'operator', ({ account, id }) => setBudget({ account, key: id })],
    ['Rotate', 'operator', rotateKey, isActive], ['Disable', 'operator', disableKey, isActive],
  ])],
]);
const openGrants = makeList('open-grants', (grant) => grant.id, [
  ['Grant', (one) => one.id], ['USD', (one) => one.amount_usd], ['Left', (one) => one.remaining_usd], ['Expires', (one) => when(one.expires_at)],
]);
const fillUsage = makeTable('usage', [
  ['Day', (one) => one.day], ['Model', (one) => one.model], ['Requests', (one) => count(one.requests)], ['Estimated', (one) => count(one.estimated)],
  ['Input', (one) => count(one.input_tokens)], ['Cached', (one) => count(one.cached_tokens)], ['Output', (one) => count(one.output_tokens)], ['USD', (one) => one.amount_usd],
]);
const usedText = ({ usage }) => (usage === null ? '–' : [usage.model, usage.key, plural(usage.requests, 'request'),
  count(usage.input_tokens) + ' + ' + count(usage.output_tokens) + ' tokens'].filter(Boolean).join(', '));
const openMovements = makeList('movements', (movement) => movement.seq, [
  ['Movement', (one) => one.id], ['Date', (one) => when(one.date)], ['Kind', (one) => one.kind], ['USD', (one) => one.amount_usd],
  ['Memo', (one) => orDash(one.memo)], ['Used', usedText],
  ['Actions', actionsCell((one) => one.id, [['Refund', 'owner', refundOf('charge'), ({ amount_usd: usd, kind }) => kind === 'charge' && usd.startsWith('-')]])],
]);
const requestColumns = [
  ['Request', (one) => one.request_id], ['Date', (one) => when(one.date)], ['Account', accountCell('account')], ['Status', (one) => one.status + (one.code && ' ' + one.code)],
  ['Endpoint', (one) => one.endpoint], ['Model', (one) => orDash(one.model)], ['Key', (one) => orDash(one.key)],
  ['Tokens', (one) => count(one.input_tokens) + ' + ' + count(one.output_tokens) + (one.measured ? '' : ', estimated')], ['USD', (one) => one.cost_usd],
  ['Duration', (one) => timeText(one.duration_ms)], ['First byte', (one) => timeText(one.first_byte_ms)],
  ['Actions', actionsCell((one) => one.request_id, [['Refund', 'owner', refundOf('request'), (one) => pico(one.cost_usd) > 0n]])],
];
const openRequests = makeList('requests', (request) => request.id, requestColumns);
const openAllRequests = makeList('all-requests', (request) => request.id, requestColumns);

const paymentColumns = [
  ['Payment', (one) => one.id], ['Kind', (one) => one.kind], ['Account', accountCell('account')], ['Payer', (one) => one.payer], ['USD', (one) => one.amount_usd],
  ['Network', (one) => one.network], ['Transaction', (one) => orDash(one.transaction)], ['Changed', (one) => when(one.changed_at)],
];
const openOpenPayments = makeList('open-payments', (payment) => payment.id, [
  ...paymentColumns, ['Valid until', (one) => when(one.valid_until)],
  ['Actions', actionsCell((one) => one.id, [['Settled…', 'owner', settlePayment], ['Not settled…', 'owner', closePayment]])],
]);
const openPayments = makeList('payments', (payment) => payment.id, [
  ...paymentColumns, ['Came to', (one) => (one.credited === null ? orDash(one.reason) : one.credited ? 'credit' : 'a charge')],
]);

function showDetails({ after, before, request }, cell) {
  if (!cell.firstChild) cell.append(el('details', {}, el('summary', {}, 'Show'), el('pre')));
  say(cell.querySelector('pre'), JSON.stringify({ request, before, after }, null, 2));
}
const openActs = makeList('acts', (act) => act.seq, [
  ['Act', (one) => one.seq], ['Date', (one) => when(one.date)], ['Actor', (one) => one.actor + ', ' + one.role], ['From', (one) => one.via],
  ['Action', (one) => one.action], ['Subject', (one) => orDash(one.subject)], ['Outcome', (one) => one.outcome], ['Details', showDetails],
]);

const openDeliveries = makeList('deliveries', (one) => one.message + ' ' + one.endpoint, [
  ['Message', (one) => one.message], ['Date', (one) => when(one.date)], ['Event', (one) => one.type], ['Account', accountCell('account')],
  ['Endpoint', (one) => one.endpoint], ['State', (one) => one.state], ['Attempts', (one) => one.attempts], ['Result', (one) => orDash(one.result)],
  ['Due', (one) => when(one.due_at)],
  ['Actions', actionsCell((one) => one.message, [['Send again', 'operator', redeliver, (one) => one.state !== 'pending']])],
]);
`;

const VIEWS = String.raw`
const accountsActions = actionsCell(() => '', [['Create account', 'operator', createAccount]]);
const accountActions = actionsCell(() => '', [
  ['Grant credit', 'owner', grantTo], ['Adjust', 'owner', adjust], ['Refund', 'owner', refund], ['Change', 'owner', changeAccount],
  ['Create key', 'operator', createKey], ['Set budget', 'operator', ({ id }) => setBudget({ account: id })],
]);

async function showAccounts() {
  accountsActions({}, $('accounts-actions'));
  await Promise.all([openAccounts('/accounts'), openAllBudgets('/budgets'), openAllRequests('/requests')]);
}

function showAccountFigures(account, { month, today }) {
  const organisation = el('dd');
  showAccountLink(organisation, account.organisation);
  const figures = [
    ['Balance, USD', account.balance_usd], ['In use', account.held_usd], ['Credit limit', account.credit_limit_usd],
    ['Expires some day', account.expiring_usd], ['Spent today', today], ['Spent this month', month], ['Alert below', orDash(account.low_balance_usd)],
  ].map(([name, text]) => el('div', {}, el('dt', {}, name), el('dd', {}, text)));
  $('account-figures').replaceChildren(...figures, el('div', {}, el('dt', {}, 'Organisation'), organisation));
}

async function showAccount(id) {
  const month = dayText(nowMs()).slice(0, 7) + '-01';
  const [account, usage, keys, used] = await Promise.all([
    read(accountPath(id)), readAll('/usage', { account: id, by: 'day,model', from: firstDay() }),
    readAll('/keys', { account: id }), readAll('/usage', { account: id, by: 'key', from: month }),
    openBudgets('/budgets', { account: id }), openGrants(accountPath(id) + '/grants'),
    openMovements(accountPath(id) + '/history'), openRequests('/requests', { account: id }),
  ]);
  say($('account-title'), account.id + (account.label && ', ' + account.label));
  const spent = spendingOf(usage);
  showAccountFigures(account, spent);
  accountActions(account, $('account-actions'));
  const most = Math.max(...spent.days);
  $('plot-spending').querySelector('.first').setAttribute('points', points(spent.days, most, 600, 100));
  say($('plot-spending').querySelector('.value'), 'today ' + spent.today + ', most ' + usdText(BigInt(Math.round(most * 1e12))));
  const lineages = new Map(keys.map(({ id: key, lineage }) => [key, lineage]));
  keySpending = new Map();
  for (const { amount_usd: usd, key } of used) {
    const lineage = lineages.get(key);
    keySpending.set(lineage, (keySpending.get(lineage) || 0n) + pico(usd));
  }
  fillKeys(keys, (key) => key.id);
  fillUsage(usage.reverse(), ({ day, model }) => day + ' ' + model);
}

const openPaymentsInState = () => openPayments('/payments', { state: $('payments-state').value });
const showPayments = () => Promise.all([openOpenPayments('/payments'), openPaymentsInState()]);

function showActs() {
  const given = [...new FormData($('acts-filter'))].map(([name, value]) => [name, value.trim()]);
  return openActs('/acts', Object.fromEntries(given.filter(([, value]) => value !== '')));
}

function showWebhooks() {
  const state = $('deliveries-state').value;
  return openDeliveries('/webhooks/deliveries', state === 'all' ? {} : { state });
}

const SHOWN = { overview: () => {}, accounts: showAccounts, account: showAccount, payments: showPayments, acts: showActs, webhooks: showWebhooks };

/** What is behind the last # that was a path: the link that skips to the main content is none. */
let place = '';

function placeNow() {
  if (location.hash === '' || location.hash.startsWith('#/')) place = location.hash.slice(2);
  const [name, part = ''] = place.split('/');
  try {
    if (name === 'accounts' && part !== '') return { name: 'account', id: decodeURIComponent(part) };
  } catch {
    // No account has such an id.
  }
  return { name: Object.hasOwn(SHOWN, name) && name !== 'account' ? name : 'overview' };
}

/** Shows the view that the address names, and reads it. Again: because something may have changed, not because it was opened. */
async function route(how) {
  const { id, name } = placeNow();
  const isOpened = how !== 'again';
  visit.abort();
  visit = new AbortController();
  const { signal } = visit;
  const isLocked = name !== 'overview' && who === null;
  const view = $('view-' + name);
  for (const each of document.querySelectorAll('.view'))
    each.hidden = each !== view || isLocked || (isOpened && name !== 'overview');
  for (const link of document.querySelectorAll('nav a')) {
    if (link.hash.slice(2) === (name === 'account' ? 'accounts' : name === 'overview' ? '' : name)) link.setAttribute('aria-current', 'page');
    else link.removeAttribute('aria-current');
  }
  const note = (text) => {
    say($('view-note'), text);
    $('view-note').hidden = text === '';
  };
  note(isLocked ? 'This view needs an admin token: sign in.' : view.hidden ? 'Loading…' : '');
  say($('view-refused'), '');
  if (!isLocked) {
    await guarded(async () => {
      await SHOWN[name](id);
      view.hidden = false;
    });
  }
  if (signal.aborted) return;
  if (!isLocked) note('');
  const title = view.querySelector('h2');
  document.title = (name === 'overview' ? '' : title.textContent + ' – ') + 'Headrace dashboard';
  const isFocusLost = document.activeElement === document.body && !$('confirm').open;
  if (how === 'moved' || (how === 'again' && isFocusLost && name !== 'overview')) (view.hidden || name === 'overview' ? $('main') : title).focus();
}

/** Knows the tab its token, the role is asked for. Opens the view of the address. */
async function start() {
  const token = sessionStorage.getItem(TOKEN);
  if (token !== null) await identify(token).catch((error) => announce(error.message, true));
  await route('opened');
}

window.addEventListener('hashchange', () => {
  if (location.hash === '' || location.hash.startsWith('#/')) route('moved');
});
for (const button of document.querySelectorAll('.refresh')) button.addEventListener('click', () => route('again'));
$('find').addEventListener('submit', (event) => {
  event.preventDefault();
  location.hash = accountPath($('find-id').value.trim());
});
$('payments-state').addEventListener('change', () => guarded(openPaymentsInState));
$('deliveries-state').addEventListener('change', () => guarded(showWebhooks));
$('acts-filter').addEventListener('submit', (event) => {
  event.preventDefault();
  guarded(showActs);
});
`;

/** JavaScript of the views; it uses what `dashboard-script.ts` declares before it. */
export const accountsScript: string = [READING, CELLS, ACCOUNT_ACTIONS, TABLES, VIEWS].join('\n');
