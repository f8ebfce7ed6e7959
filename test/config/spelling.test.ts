import t from 'tap';
import { nearest } from '../../src/config/spelling.ts';

const NAMES = ['listen', 'admin', 'threads', 'retryBudget', 'interval'];

t.test('finds the name that was meant', async (t) => {
  t.equal(nearest('lisen', NAMES), 'listen', 'a letter missing');
  t.equal(nearest('listenn', NAMES), 'listen', 'a letter too many');
  t.equal(nearest('lixten', NAMES), 'listen', 'a wrong letter');
  t.equal(nearest('amdin', NAMES), 'admin', 'two letters swapped');
  t.equal(nearest('retry_budget', NAMES), 'retryBudget', 'another way to join words');
  t.equal(nearest('LISTEN', NAMES), 'listen', 'another case');
});

t.test('finds nothing when no name is near', async (t) => {
  t.equal(nearest('frobnicate', NAMES), undefined);
  t.equal(nearest('xx', NAMES), undefined);
  t.equal(nearest('', NAMES), undefined);
});

t.test('takes the nearest of several', async (t) => {
  t.equal(nearest('backof', ['backoffMax', 'backoff']), 'backoff');
});
