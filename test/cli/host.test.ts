import t from 'tap';
import { startCli } from '../support/system-cli.ts';

t.test('serves models with the pace, name and length of its flags, and ends at a signal', async (t) => {
  const flags = ['--model', 'a,b', '--port', '0', '--name', 'one', '--ttft', '0', '--itl', '0', '--tokens', '3'];
  const cli = startCli(t, ['host', ...flags]);
  const [, url = ''] = await cli.shows(/^host of a,b listening on (\S+)\n/);
  for (const model of ['a', 'b']) {
    const answer = await fetch(`${url}/v1/completions`, {
      method: 'POST',
      body: JSON.stringify({ model, prompt: 'x' }),
    });
    t.equal(answer.status, 200);
    t.equal(answer.headers.get('x-host'), 'one');
    t.match(await answer.json(), { model, usage: { completion_tokens: 3 } });
  }
  t.equal((await fetch(`${url}/sim/faults`, { method: 'POST', body: '[]' })).status, 404);
  cli.signal('SIGTERM');
  t.strictSame(await cli.ends(), { code: 0, signal: null });
});

t.test('asks for the keys of a configuration, and takes faults when told to', async (t) => {
  const config = { keys: { static: [{ key: 'hr_one', account: 'a' }] } };
  const folder = t.testdir({ 'headrace.json': JSON.stringify(config) });
  const cli = startCli(t, [
    'host',
    '--model',
    'a',
    '--port',
    '0',
    '--config',
    `${folder}/headrace.json`,
    '--control',
    'true',
  ]);
  const [, url = ''] = await cli.shows(/listening on (\S+)\n/);
  const ask = (headers: Record<string, string>, path = '/v1/completions', body = '{"model":"a","prompt":"x"}') =>
    fetch(url + path, { method: 'POST', headers, body });
  t.equal((await ask({})).status, 401);
  t.equal((await ask({ authorization: 'Bearer hr_one' })).status, 200);
  t.equal((await ask({ 'x-api-key': 'hr_one' }, '/sim/faults', '[{"fault":"status=503"}]')).status, 200);
  t.equal((await ask({ 'x-api-key': 'hr_one' })).status, 503);
});
