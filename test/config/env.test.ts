import t from 'tap';
import { environment, setHeaderLimit } from '../../src/config/env.ts';

t.test('the environment is a frozen copy', async (t) => {
  const before = environment();
  t.ok(Object.isFrozen(before));
  t.equal(before['PATH'], process.env['PATH']);
  process.env['HEADRACE_TEST_LATER'] = '1';
  t.teardown(() => delete process.env['HEADRACE_TEST_LATER']);
  t.equal(before['HEADRACE_TEST_LATER'], undefined);
  t.equal(environment()['HEADRACE_TEST_LATER'], '1');
});

t.test('the header limit is set in the variable that the addon reads', async (t) => {
  const before = process.env['UWS_HTTP_MAX_HEADERS_SIZE'];
  t.teardown(() => {
    if (before === undefined) delete process.env['UWS_HTTP_MAX_HEADERS_SIZE'];
    else process.env['UWS_HTTP_MAX_HEADERS_SIZE'] = before;
  });
  setHeaderLimit(16_384);
  t.equal(process.env['UWS_HTTP_MAX_HEADERS_SIZE'], '16384');
});
