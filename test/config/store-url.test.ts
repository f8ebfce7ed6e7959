// Where stores are, and how messages name them.

import { writeFileSync } from 'node:fs';
import { join, relative, resolve } from 'node:path';
import t from 'tap';
import { loadConfigFile, loadConfigText } from '../../src/config/load.ts';
import { absoluteStore, misplacedStore, storeFile, storeName, unwritableFolder } from '../../src/config/store-url.ts';

t.test('relative paths begin at the folder; memory and PostgreSQL stay', async (t) => {
  t.equal(absoluteStore('sqlite:./a.db', '/etc/headrace'), 'sqlite:/etc/headrace/a.db');
  t.equal(absoluteStore('sqlite:/var/a.db', '/etc/headrace'), 'sqlite:/var/a.db');
  for (const url of ['sqlite::memory:', 'postgres://u:secret@db/headrace']) {
    t.equal(absoluteStore(url, '/etc'), url);
    t.equal(storeFile(url), null);
    t.equal(misplacedStore(url, '/etc'), null);
  }
});

t.test('names hold no credentials', async (t) => {
  t.equal(storeName('postgres://u:secret@db:5433/headrace?password=secret'), 'postgres://db:5433/headrace');
  t.equal(storeName('postgresql://db/headrace'), 'postgresql://db/headrace');
  t.equal(storeName('postgres://u:12@/headrace?host=/run/postgresql'), 'postgres:///headrace', 'by a socket');
  t.equal(storeName('postgres://u:secret@db:port/headrace'), 'PostgreSQL');
  t.equal(storeName('sqlite::memory:'), 'sqlite::memory:');
  t.equal(storeName('sqlite:./a.db'), `sqlite:${resolve('a.db')}`);
});

t.test('a password that would be taken for a host is refused', async (t) => {
  const isTaken = (settings: object): boolean => !('mistakes' in loadConfigText(JSON.stringify(settings), 'x.json'));
  for (const password of ['p/w', 'p#w', 'p?w', '12/w', '12#w', '12?w']) {
    t.notOk(isTaken({ store: `postgres://u:${password}@db/headrace` }), password);
    t.notOk(isTaken({ cluster: { url: `redis://u:${password}@db` } }), password);
  }
  for (const rest of [
    'db',
    '',
    'u:p%2Fw@db:5433/headrace',
    'u@/headrace?host=/run',
    '/headrace?host=/run',
    'db?sslmode=a',
  ])
    t.equal(isTaken({ store: `postgres://${rest}` }), rest !== '', rest);
  for (const rest of ['db', '', 'u:p%2Fw@db:6380/3', ':p@[::1]', 'db/three', 'db?db=3', ':100%@db', 'db/'])
    t.equal(isTaken({ cluster: { url: `rediss://${rest}` } }), !/^$|three|\?|%@/.test(rest), rest);
});

t.test('a configuration places its store beside itself; flags and variables in the working folder', async (t) => {
  const storeOf = (...args: Parameters<typeof loadConfigText>): unknown => {
    const resolution = loadConfigText(...args);
    return 'settings' in resolution ? resolution.settings.store : resolution.mistakes;
  };
  t.equal(storeOf('store: sqlite:./a.db', '/etc/headrace/x.yaml'), 'sqlite:/etc/headrace/a.db');
  t.equal(storeOf('', '/etc/headrace/x.yaml'), 'sqlite:/etc/headrace/headrace.db', 'the default too');
  t.equal(storeOf('store: null', '/etc/headrace/x.yaml'), null);
  t.equal(storeOf('', '/etc/x.yaml', { HEADRACE_STORE: 'sqlite:a.db' }), 'sqlite:a.db');
  t.equal(storeOf('', '/etc/x.yaml', {}, { store: 'sqlite:b.db' }), 'sqlite:b.db');
});

t.test('the folder in which a store cannot be made', async (t) => {
  const folder = t.testdir({ 'a.db': '' });
  for (const url of [`sqlite:${folder}/a.db`, `sqlite:${folder}/new.db`, 'sqlite::memory:', 'postgres://db/headrace'])
    t.equal(unwritableFolder(url), null, url);
  t.equal(unwritableFolder(`sqlite:${folder}/none/new.db`), `${folder}/none`);
});

t.test('a store in the working folder is not left behind', async (t) => {
  const folder = t.testdir({ etc: { 'x.yaml': '' } });
  const name = relative(resolve(), join(folder, 'here.db'));
  writeFileSync(join(folder, 'etc', 'x.yaml'), `store: sqlite:${name}`);
  t.match(await loadConfigFile(join(folder, 'etc', 'x.yaml')), { settings: {} });
  writeFileSync(join(folder, 'here.db'), '');
  const refused = await loadConfigFile(join(folder, 'etc', 'x.yaml'));
  t.match(refused, {
    mistakes: [{ path: 'store', message: `if ${join(folder, 'here.db')} is meant, write its full path` }],
  });
});
