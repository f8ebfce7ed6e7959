import t from 'tap';
import { parseArgs, takeFlags, UsageError } from '../../src/cli/args.ts';

t.test('reads words and both forms of a flag', (t) => {
  const { words, flags } = parseArgs(['serve', '--config', 'a.yaml', '--timeouts.connect=5s', '--threads', '2']);
  t.same(words, ['serve']);
  t.same(flags, { config: 'a.yaml', 'timeouts.connect': '5s', threads: '2' });
  t.end();
});

t.test('a value may begin with a dash or hold an equals sign', (t) => {
  t.same(parseArgs(['--a', '-1', '--b=c=d', '--e=']).flags, { a: '-1', b: 'c=d', e: '' });
  t.end();
});

t.test('the last of two equal flags wins', (t) => {
  t.same(parseArgs(['--a', '1', '--a', '2']).flags, { a: '2' });
  t.end();
});

t.test('help and version stand alone, and short forms are known', (t) => {
  t.same(parseArgs(['--help', 'serve']), { words: ['serve'], flags: { help: 'true' } });
  t.same(parseArgs(['-h', '-v', '-c', 'x']).flags, { help: 'true', version: 'true', config: 'x' });
  t.end();
});

t.test('a flag without its value is a usage error', (t) => {
  t.throws(() => parseArgs(['serve', '--config']), new UsageError('the flag --config needs a value'));
  t.end();
});

t.test('splits flags of a command from settings', (t) => {
  t.same(takeFlags({ config: 'x', listen: 'y' }, ['config', 'port']), { own: { config: 'x' }, rest: { listen: 'y' } });
  t.end();
});
