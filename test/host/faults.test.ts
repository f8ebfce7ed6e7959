import t from 'tap';
import { type FaultRule, FaultSchedule, parseFault, parsePlan } from '../../src/host/faults.ts';

t.test('the header grammar reads every part', async (t) => {
  t.same(parseFault('refuse'), { refuse: true });
  t.same(parseFault('hang'), { hang: true });
  t.same(parseFault('slow-headers=500'), { slowHeadersMs: 500 });
  t.same(parseFault('status=503, body=%7B%22a%22%2C1%7D, header=Retry-After:7,header=x-note:a%2Cb'), {
    status: 503,
    body: '{"a",1}',
    headers: { 'retry-after': '7', 'x-note': 'a,b' },
  });
  t.same(parseFault('reset'), { reset: true });
  t.same(parseFault('split,crlf,partial,no-done,reset-after=3'), {
    split: true,
    crlf: true,
    partial: true,
    noDone: true,
    resetAfter: 3,
  });
  t.same(parseFault('truncate-after=1,stall-after=2,end-after=3,error-after=4,malformed-after=0'), {
    truncateAfter: 1,
    stallAfter: 2,
    endAfter: 3,
    errorAfter: 4,
    malformedAfter: 0,
  });
});

t.test('the header grammar names what it does not understand', async (t) => {
  t.throws(() => parseFault('explode'), /unknown fault 'explode'; known: refuse, hang/);
  t.throws(() => parseFault('constructor'), /unknown fault/);
  for (const spec of ['hang=1', 'status', 'status=', 'status=42', 'reset-after=x', 'reset-after=-1', 'header=x']) {
    t.throws(() => parseFault(spec), spec);
  }
  t.throws(() => parseFault('status=500,header=bad name:x'), /Header name/);
  t.throws(() => parseFault('status=500,header=x:a%0Ab'), /header content/);
  for (const part of ['body=%', 'header=x:50%'])
    t.throws(() => parseFault(part), { message: `cannot read the fault '${part}'` });
});

t.test('a plan from JSON takes records and texts', async (t) => {
  t.equal(parsePlan(null), null);
  t.same(
    parsePlan([{ fault: 'status=500' }, { match: { path: '/health', nth: 2 }, times: 1, fault: { hang: true } }]),
    [{ fault: { status: 500 } }, { match: { path: '/health', nth: 2 }, times: 1, fault: { hang: true } }],
  );
});

t.test('a plan from JSON is refused with the rule and the reason', async (t) => {
  t.throws(() => parsePlan({}), /array of rules/);
  t.throws(() => parsePlan([{ fault: 'status=500' }, 7]), /rule 1: a rule is an object/);
  t.throws(() => parsePlan([{}]), /rule 0: a fault is an object or a text/);
  t.throws(() => parsePlan([{ fault: { boom: true } }]), /unknown key 'boom'/);
  t.throws(() => parsePlan([{ fault: { status: '500' } }]), /status is a number/);
  t.throws(() => parsePlan([{ fault: { status: 500, headers: { a: 1 } } }]), /header a is a text/);
  t.throws(() => parsePlan([{ match: [], fault: 'hang' }]), /match is an object/);
  t.throws(() => parsePlan([{ match: { host: 'x' }, fault: 'hang' }]), /unknown key 'host'/);
  t.throws(() => parsePlan([{ times: '1', fault: 'hang' }]), /times is a number/);
});

t.test('the first rule that matches decides', async (t) => {
  const schedule = new FaultSchedule([
    { match: { path: '/v1/messages' }, fault: { status: 500 } },
    { match: { model: 'a' }, fault: { status: 501 } },
    { match: { path: '/health' }, fault: { status: 502 } },
    { fault: { status: 503 } },
  ]);
  t.same(schedule.pick('POST', '/v1/messages', 'a'), { status: 500 });
  t.same(schedule.pick('POST', '/v1/responses', 'a'), { status: 501 });
  t.same(schedule.pick('POST', '/v1/responses', 'b'), { status: 503 });
  t.same(schedule.pick('GET', '/health', undefined), { status: 502 });
});

t.test('a rule without a path leaves probes alone', async (t) => {
  const schedule = new FaultSchedule([{ times: 1, fault: { hang: true } }]);
  t.equal(schedule.pick('GET', '/health', undefined), undefined);
  t.same(schedule.pick('POST', '/completion', undefined), { hang: true });
  t.equal(schedule.pick('POST', '/completion', undefined), undefined);
});

t.test('nth counts the requests that meet the other conditions, times what was spent', async (t) => {
  const rules: FaultRule[] = [
    { match: { model: 'a', nth: 2 }, fault: { hang: true } },
    { times: 2, fault: { reset: true } },
  ];
  const schedule = new FaultSchedule(rules);
  const picked = ['a', 'b', 'a', 'a', 'b'].map((model) => schedule.pick('POST', '/completion', model));
  t.same(picked, [{ reset: true }, { reset: true }, { hang: true }, undefined, undefined]);
});

t.test('only an unconditional refusal in the first rule refuses connections', async (t) => {
  t.ok(new FaultSchedule([{ fault: { refuse: true } }]).refusesConnections);
  t.notOk(new FaultSchedule([{ times: 1, fault: { refuse: true } }]).refusesConnections);
  t.notOk(new FaultSchedule([{ match: { model: 'a' }, fault: { refuse: true } }]).refusesConnections);
  t.notOk(new FaultSchedule([{ fault: { hang: true } }, { fault: { refuse: true } }]).refusesConnections);
  t.notOk(new FaultSchedule(null).refusesConnections);
});
