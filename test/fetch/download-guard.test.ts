import t from 'tap';
import { nameServer } from '../support/dns.ts';
import { downloader, get, outcome, page, redirect, site } from '../support/site.ts';

const PRIVATE = 'HR_FETCH_BLOCKED private address';
const NOT_FOUND = 'HR_FETCH_FAILED name not found';

t.test('a name that is rebound after the lookup is connected to at the checked address', async (t) => {
  const checked = await site(t, { '/': page('checked') }, '127.0.0.2');
  const rebound = await site(t, { '/': page('rebound') }, '127.0.0.1', checked.port);
  const names = await nameServer(t, (_name, count) => [count === 1 ? '127.0.0.2' : '127.0.0.1']);
  const from = downloader(t, { ports: [checked.port], allow: ['127.0.0.2'] }, { lookup: names.lookup });
  const url = `http://rebind.test:${checked.port}/`;
  t.equal(await outcome(get(from, url)), 'checked');
  t.same(names.asked.toSorted(), ['A rebind.test', 'AAAA rebind.test'], 'asked for once');
  t.equal(await outcome(get(from, url)), 'checked', 'on the open connection');
  const fresh = downloader(t, { ports: [checked.port], allow: ['127.0.0.2'] }, { lookup: names.lookup });
  t.equal(await outcome(get(fresh, url)), NOT_FOUND, 'a new connection is checked again');
  t.same(rebound.asked, []);
  t.equal(rebound.connections(), 0);
});

t.test('names with private addresses are refused before any connection', async (t) => {
  const inside = await site(t, { '/': page('inside') });
  const answers: Record<string, string[]> = {
    'a.test': ['127.0.0.1'],
    'mixed.test': ['93.184.216.34', '127.0.0.1'],
    'six.test': ['::1'],
    'mapped.test': ['::ffff:127.0.0.1'],
    'zero.test': ['0.0.0.0'],
    'metadata.test': ['169.254.169.254'],
    'agent.test': ['168.63.129.16'],
    'nat64.test': ['64:ff9b::7f00:1'],
  };
  const { lookup } = await nameServer(t, (name) => answers[name] ?? []);
  const from = downloader(t, { ports: [inside.port], allow: [] }, { lookup });
  for (const name of Object.keys(answers))
    t.equal(await outcome(get(from, `http://${name}:${inside.port}/`)), NOT_FOUND, name);
  t.equal(await outcome(get(from, `http://none.test:${inside.port}/`)), NOT_FOUND);
  t.equal(inside.connections(), 0);
});

t.test('no redirect leads to a private address, in any spelling', async (t) => {
  const inside = await site(t, { '/': page('inside') });
  const { port } = inside;
  const targets: Record<string, string> = {
    [`http://127.0.0.1:${port}/`]: 'private address',
    [`http://2130706433:${port}/`]: 'private address',
    [`http://0x7f.1:${port}/`]: 'private address',
    [`//127.1:${port}/`]: 'private address',
    [`http://[::1]:${port}/`]: 'private address',
    [`http://[::ffff:7f00:1]:${port}/`]: 'private address',
    [`http://localhost:${port}/`]: 'host name',
    [`http://a:b@127.0.0.2:${port}/`]: 'credentials',
    'http://127.0.0.2:22/': 'port',
    'http://169.254.169.254:443/latest/meta-data/': 'private address',
    'file:///etc/passwd': 'scheme',
    'gopher://127.0.0.1:6379/_INFO': 'scheme',
    'data:text/html,hello': 'scheme',
    'javascript:alert(1)': 'scheme',
  };
  const paths = Object.keys(targets).map((target, at) => [`/${at}`, redirect(target)] as const);
  const web = await site(
    t,
    {
      ...Object.fromEntries(paths),
      '/twice': redirect('/0', 307),
      '/named': redirect(`http://good.test:${port}/inside`),
      '/inside': redirect(`http://inside.test:${port}/`),
    },
    '127.0.0.2',
    port,
  );
  const names = await nameServer(t, (name) => [name === 'good.test' ? '127.0.0.2' : '127.0.0.1']);
  const from = downloader(t, { ports: [port, 443], allow: ['127.0.0.2'] }, { lookup: names.lookup });
  for (const [at, [target, subject]] of Object.entries(targets).entries())
    t.equal(await outcome(get(from, `${web.origin}/${at}`)), `HR_FETCH_BLOCKED ${subject}`, target);
  t.equal(await outcome(get(from, `${web.origin}/twice`)), PRIVATE, 'on the second hop');
  t.equal(await outcome(get(from, `${web.origin}/named`)), NOT_FOUND, 'by a name on the third');
  t.equal(inside.connections(), 0, 'no connection was made to the private server');
});

t.test('proxies from the environment are not used', async (t) => {
  const proxy = await site(t, {});
  const web = await site(t, { '/': page('direct') });
  const saved = { ...process.env };
  t.teardown(() => {
    process.env = saved;
  });
  for (const name of ['http_proxy', 'HTTP_PROXY', 'https_proxy', 'ALL_PROXY', 'NODE_USE_ENV_PROXY'])
    process.env[name] = name.startsWith('NODE') ? '1' : proxy.origin;
  t.equal(await outcome(get(downloader(t, { ports: [web.port] }), `${web.origin}/`)), 'direct');
  t.equal(proxy.connections(), 0);
});

t.test('a refused connection is a failed fetch', async (t) => {
  const { port } = await site(t, {});
  const from = downloader(t, { ports: [port], allow: ['127.0.0.3'] });
  t.equal(await outcome(get(from, `http://127.0.0.3:${port}/`)), 'HR_FETCH_FAILED no connection');
});
