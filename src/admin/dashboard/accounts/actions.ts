// Actions on accounts, keys, budgets, payments and webhooks: what the dialog says, its fields, and the request that carries it out. Movements of
// credit have an id of their own, so that a repeat is harmless.

import { h } from 'preact';
import type {
  AccountView,
  BudgetView,
  DeliveryView,
  KeyView,
  MovementView,
  PaymentView,
  RequestView,
} from '../../views.ts';
import { request } from '../api.ts';
import type { Action, Field, Given } from '../components/dialog.tsx';
import { accountPath, readAgain, whenText } from './ledger.ts';

/** A field whose value is sent only when it was changed; one that was emptied has its word for none. */
interface EditField extends Field {
  readonly none: string | null;
}

type Answer = Readonly<Record<string, unknown>>;

/** Sends a request and reads the views again. Resolves with what the dialog says. */
async function carryOut(
  method: string,
  path: string,
  body: object | undefined,
  done: (answer: Answer) => string,
): ReturnType<Action['run']> {
  const answer = await request<Answer>(method, path, body === undefined ? {} : { body });
  readAgain();
  const message = done(answer);
  const { key } = answer;
  if (typeof key !== 'string') return message;
  return {
    message,
    show: h(
      'div',
      null,
      h('p', null, 'The key is shown only now. Keep it in a safe place.'),
      h('code', { class: 'secret' }, key),
    ),
  };
}

function changedOf(fields: readonly EditField[], given: Given): object {
  const changed = fields.filter(({ name, value = '' }) => (given[name] ?? '') !== value);
  return Object.fromEntries(changed.map(({ name, none }) => [name, given[name] ?? none]));
}

/** Random, also without TLS, where `randomUUID` is missing. */
function newId(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(9));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('');
}

const AMOUNT: Field = { name: 'amount', label: 'Amount in USD', hint: 'Such as 25.00', required: true };
const MEMO: Field = { name: 'memo', label: 'Memo' };

function creditAction(id: string, name: string, action: Pick<Action, 'title' | 'text' | 'verb' | 'fields'>): Action {
  const move = newId();
  return {
    ...action,
    run: (given) =>
      carryOut('POST', `${accountPath(id)}/${name}`, { id: move, ...given }, (answer) => {
        return `${String(answer['amount_usd'])} USD for ${id}, balance ${String(answer['balance_usd'])} USD`;
      }),
  };
}

export function grantCredit({ id }: AccountView): Action {
  const expires = { name: 'expires', label: 'Expires', hint: 'Such as 30d or 2030-01-31. Empty: never.' };
  return creditAction(id, 'grants', {
    title: 'Grant credit?',
    verb: 'Grant',
    text: `${id} gets credit.`,
    fields: [AMOUNT, expires, MEMO],
  });
}

export function adjustCredit({ id }: AccountView): Action {
  const text = `${id} gets credit or, with a sum below zero, loses it.`;
  const amount = { ...AMOUNT, hint: 'Such as -5.00' };
  return creditAction(id, 'adjustments', { title: 'Adjust the credit?', verb: 'Adjust', text, fields: [amount, MEMO] });
}

export function refundCredit({ id }: AccountView): Action {
  const text = `${id} gets back what it was charged.`;
  return creditAction(id, 'refunds', { title: 'Refund?', verb: 'Refund', text, fields: [AMOUNT, MEMO] });
}

/** A charge or a request is given back as a whole, once. */
function refundOf(what: 'charge' | 'request', account: string, id: string, usd: string): Action {
  return {
    title: 'Refund?',
    verb: 'Refund',
    text: `${account} gets ${usd} USD back for ${what} ${id}.`,
    fields: [MEMO],
    run: (given) =>
      carryOut('POST', `${accountPath(account)}/refunds`, { [what]: id, ...given }, (answer) => {
        const how = answer['repeated'] === true ? 'Was refunded before' : 'Refunded';
        return `${how}: ${String(answer['amount_usd'])} USD for ${account}`;
      }),
  };
}

export function refundCharge({ account, amount_usd: amount, id }: MovementView): Action {
  return refundOf('charge', account, id, amount.slice(1));
}

export function refundRequest({ account, cost_usd: cost, id }: RequestView): Action {
  return refundOf('request', account, id, cost);
}

export function changeAccount({
  credit_limit_usd: limit,
  id,
  low_balance_usd: low,
  organisation,
}: AccountView): Action {
  const fields: EditField[] = [
    {
      name: 'credit_limit',
      label: 'Credit limit in USD',
      hint: 'How far below zero the balance may go.',
      value: limit,
      none: '0',
    },
    {
      name: 'organisation',
      label: 'Organisation',
      hint: 'Whose credit is spent. Empty: its own.',
      value: organisation ?? '',
      none: 'none',
    },
    {
      name: 'low_balance',
      label: 'Alert below, in USD',
      hint: 'The event credit.low is sent then.',
      value: low ?? '',
      none: 'none',
    },
  ];
  return {
    title: 'Change the account?',
    text: id,
    fields,
    run: (given) => carryOut('POST', accountPath(id), changedOf(fields, given), () => `${id} is changed`),
  };
}

export function createAccount(): Action {
  return {
    title: 'Create an account?',
    text: 'One that exists stays as it is.',
    fields: [
      { name: 'id', label: 'Id', required: true },
      { name: 'label', label: 'Label' },
    ],
    run: (given) => carryOut('POST', '/accounts', given, ({ id }) => `Account ${String(id)} exists`),
  };
}

function keyFields(key?: KeyView): EditField[] {
  const text = (value: string | number | null | undefined): string =>
    value === null || value === undefined ? '' : String(value);
  return [
    { name: 'label', label: 'Label', value: text(key?.label), none: '' },
    {
      name: 'expires',
      label: 'Expires',
      hint: 'Such as 90d or 2030-01-31. Empty: never.',
      value: text(key?.expires_at),
      none: null,
    },
    {
      name: 'running',
      label: 'Requests at the same time',
      hint: 'Empty: no limit.',
      value: text(key?.running),
      none: null,
    },
    { name: 'rpm', label: 'Requests a minute', value: text(key?.rpm), none: null },
    { name: 'tpm', label: 'Tokens a minute', value: text(key?.tpm), none: null },
    { name: 'monthly', label: 'USD a calendar month', value: text(key?.monthly_usd), none: null },
  ];
}

/** `account`: null where it is asked for. */
export function createKey(account: string | null): Action {
  const owner: Field[] =
    account === null ? [{ name: 'account', label: 'Account', hint: 'Made if it is new.', required: true }] : [];
  return {
    title: 'Create a key?',
    text: account === null ? 'The key is shown once.' : `For account ${account}. The key is shown once.`,
    fields: [...owner, ...keyFields()],
    run: (given) => {
      const body = account === null ? given : { account, ...given };
      return carryOut('POST', '/keys', body, ({ id }) => `Key ${String(id)} is created`);
    },
  };
}

export function editKey(key: KeyView): Action {
  const fields = keyFields(key);
  return {
    title: 'Edit the key?',
    text: key.id,
    fields,
    run: (given) =>
      carryOut('PATCH', `/keys/${encodeURIComponent(key.id)}`, changedOf(fields, given), () => `${key.id} is changed`),
  };
}

export function rotateKey({ id }: KeyView): Action {
  return {
    title: 'Rotate the key?',
    text: `${id} gets a successor with its limits, and ends after the grace period. The new key is shown once.`,
    fields: [{ name: 'grace', label: 'Grace period', hint: 'Such as 24h or 0s', value: '24h' }],
    run: (given) =>
      carryOut(
        'POST',
        `/keys/${encodeURIComponent(id)}/rotate`,
        given,
        ({ id: key }) => `${String(key)} replaces ${id}`,
      ),
  };
}

export function disableKey({ id }: KeyView): Action {
  return {
    title: 'Disable the key?',
    text: `${id} is refused from now on. It cannot be enabled again.`,
    destructive: true,
    run: () => carryOut('POST', `/keys/${encodeURIComponent(id)}/disable`, {}, () => `${id} is disabled`),
  };
}

export function budgetName({ account, key, model }: Pick<BudgetView, 'account' | 'key' | 'model'>): string {
  return [account ?? 'all accounts', key, model].filter((part) => part !== null).join(', ');
}

const BUDGET_FIELDS: readonly Field[] = [
  { name: 'limit', label: 'USD in the period', required: true },
  { name: 'alert', label: 'Alert', hint: 'At USD, or a part such as 80%.' },
];

/** A new budget of an account or of one of its keys. */
export function setBudget(account: string, key: string | null = null): Action {
  const target = { account, ...(key !== null && { key }) };
  return {
    title: 'Set the budget?',
    text: `For account ${account}${key === null ? '' : `, key ${key}`}.`,
    fields: [
      { name: 'model', label: 'Model', hint: 'Empty: all.' },
      { name: 'period', label: 'Period', options: ['month', 'week', 'day'], value: 'month' },
      ...BUDGET_FIELDS,
    ],
    run: (given) => carryOut('POST', '/budgets', { ...target, ...given }, () => 'The budget is set'),
  };
}

export function changeBudget(budget: BudgetView): Action {
  const { account, alert_usd: alert, key, limit_usd: limit, model, period } = budget;
  const target = Object.entries({ account, key, model, period }).filter(([, value]) => value !== null);
  const values: Readonly<Record<string, string>> = { limit, alert: alert ?? '' };
  return {
    title: 'Set the budget?',
    text: `${budgetName(budget)}, by ${period}.`,
    fields: BUDGET_FIELDS.map((field) => ({ ...field, value: values[field.name] ?? '' })),
    run: (given) =>
      carryOut('POST', '/budgets', { ...Object.fromEntries(target), ...given }, () => 'The budget is set'),
  };
}

export function removeBudget(budget: BudgetView): Action {
  return {
    title: 'Remove the budget?',
    text: `${budgetName(budget)}, by ${budget.period}.`,
    destructive: true,
    run: () =>
      carryOut('DELETE', `/budgets/${encodeURIComponent(budget.id)}`, undefined, () => 'The budget is removed'),
  };
}

const decided = ({ id, state }: Answer): string => `Payment ${String(id)} is ${String(state)}`;

function decidePath({ id }: PaymentView): string {
  return `/payments/${encodeURIComponent(id)}/decide`;
}

function paymentText({ account, amount_usd: amount, payer }: PaymentView): string {
  return `${amount} USD from ${payer} for account ${account}.`;
}

export function settlePayment(payment: PaymentView): Action {
  return {
    title: 'Settle the payment?',
    text: `${paymentText(payment)} The money has moved on the chain: it becomes credit of the account.`,
    fields: [
      { name: 'transaction', label: 'Hash of the transaction', value: payment.transaction ?? '', required: true },
    ],
    run: (given) => carryOut('POST', decidePath(payment), given, decided),
  };
}

export function closePayment(payment: PaymentView): Action {
  const until = whenText(payment.valid_until);
  return {
    title: 'Close the payment?',
    text:
      `${paymentText(payment)} No money has moved: nothing becomes credit. The signature is valid until ${until} UTC; until then the ` +
      'money can still move.',
    destructive: true,
    fields: [{ name: 'force', label: 'Also while the money can still move', type: 'checkbox' }],
    run: (given) => carryOut('POST', decidePath(payment), { not_settled: true, ...given }, decided),
  };
}

export function redeliver({ endpoint, message, type }: DeliveryView): Action {
  return {
    title: 'Send the event again?',
    text: `${type}, ${message}, to ${endpoint}.`,
    run: () =>
      carryOut('POST', `/webhooks/deliveries/${encodeURIComponent(message)}/redeliver`, { endpoint }, () => {
        return `${message} is due to ${endpoint}`;
      }),
  };
}
