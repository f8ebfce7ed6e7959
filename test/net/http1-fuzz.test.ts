// Random HTTP/1.1 requests and responses, well-formed and broken: parsed the same wherever they are cut, and compared with llhttp.
// `bench/fuzz/http1.mjs` runs more of the same cases.
import t from 'tap';
import { checkRequests } from '../support/http1-requests.ts';
import { checkResponse } from '../support/http1-responses.ts';

const CASES = 5000;

t.test('requests are read as llhttp reads them, or refused', async (t) => {
  for (let seed = 1; seed <= CASES; seed++) {
    const found = checkRequests(seed);
    if (found !== null) return t.fail(found);
  }
  t.pass();
});

t.test('responses are read as llhttp reads them, or malformed', async (t) => {
  for (let seed = 1; seed <= CASES; seed++) {
    const found = checkResponse(seed);
    if (found !== null) return t.fail(found);
  }
  t.pass();
});
