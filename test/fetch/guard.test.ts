import t from 'tap';
import { createManualClock } from '../../src/actor/clock.ts';
import { createGuard, type Guard } from '../../src/fetch/guard.ts';
import { nameServer } from '../support/dns.ts';
import { said } from '../support/site.ts';

const PORTS = [80, 443, 8080, 8443];
const guard = createGuard({ allow: [], ports: PORTS });

function verdict(url: string, by: Guard = guard): string {
  try {
    return by.admit(url).href;
  } catch (error) {
    return said(error);
  }
}

function blocked(subject: string): string {
  return `HR_FETCH_BLOCKED ${subject}`;
}

const NOT_FOUND = 'HR_FETCH_FAILED name not found';

const FOLDED = [
  ...['http://127.1/', 'http://0x7f.1/', 'http://0177.0.0.1/', 'http://017700000001/', 'http://2130706433/'],
  ...['http://0x7f000001/', 'http://127.0.0.1./', 'http://①②⑦.0.0.1/', 'http://127。0。0。1/'],
  ...['http://%31%32%37.0.0.1/', 'http://0/', 'http://127.1.1.1:80\\@127.2.2.2:80/', 'http:127.0.0.1/'],
  ...['http:///127.0.0.1/', 'http:\\\\127.0.0.1\\', ' http://127.0.0.1/', 'ht\ttp://127.0.0.1/'],
];

const PRIVATE = [
  ...['0.0.0.0', '0.1.2.3', '10.0.0.1', '100.64.0.1', '100.100.100.200', '127.0.0.1', '127.255.255.254'],
  ...['168.63.129.16', '169.254.169.254', '169.254.170.2', '172.16.0.1', '172.31.255.255', '192.0.0.192'],
  ...['192.0.2.1', '192.31.196.1', '192.52.193.1', '192.88.99.1', '192.168.0.1', '192.175.48.1', '198.18.0.1'],
  ...['198.19.255.255', '198.51.100.1', '203.0.113.1', '224.0.0.1', '239.255.255.255', '240.0.0.1'],
  ...['255.255.255.255', '[::]', '[::1]', '[::127.0.0.1]', '[::8.8.8.8]', '[::ffff:127.0.0.1]', '[::ffff:8.8.8.8]'],
  ...[
    '[::ffff:0:127.0.0.1]',
    '[64:ff9b::a9fe:a9fe]',
    '[64:ff9b::a83f:8110]',
    '[64:ff9b::10.0.0.1]',
    '[64:ff9b:1::a9fe:a9fe]',
    '[64:ff9b:1::808:808]',
    '[64:ff9b::1:808:808]',
    '[64:ff9a::808:808]',
    '[100::1]',
  ],
  ...['[2001::1]', '[2001:0:4136:e378::1]', '[2001:2::1]', '[2001:3::1]', '[2001:10::1]', '[2001:20::1]'],
  ...['[2001:30::1]', '[2001:db8::1]', '[2002:7f00:1::]', '[2002:808:808::]', '[2620:4f:8000::1]', '[3fff::1]'],
  ...[
    '[2606:4700::5efe:127.0.0.1]',
    '[2606:4700::200:5efe:10.0.0.1]',
    '[2606:4700:1:2:0:5efe:a9fe:a9fe]',
    '[4000::1]',
    '[5f00::1]',
    '[fc00::1]',
    '[fd00:ec2::254]',
    '[fd20:ce::254]',
    '[fe80::1]',
    '[fec0::1]',
    '[ff02::1]',
  ],
];

const PUBLIC = [
  ...['1.1.1.1', '8.8.8.8', '100.63.255.255', '100.128.0.1', '168.63.129.15', '172.15.0.1', '172.32.0.1'],
  ...['192.0.1.1', '198.17.0.1', '198.20.0.1', '223.255.255.255', '[2606:4700:4700::1111]', '[2a00:1450::1]'],
  ...['[64:ff9b::808:808]', '[64:ff9b::101:101]', '[2606:4700::200:5efe:808:808]', '[2606:4700::100:5efe:a00:1]'],
];

t.test('every spelling of a private address is refused', async (t) => {
  for (const url of FOLDED) t.equal(verdict(url), blocked('private address'), JSON.stringify(url));
  for (const host of PRIVATE) t.equal(verdict(`http://${host}/`), blocked('private address'), host);
});

t.test('public addresses pass', async (t) => {
  for (const host of PUBLIC) t.equal(verdict(`http://${host}/`), `http://${host}/`);
});

t.test('text that is no URL is refused', async (t) => {
  for (const url of [
    ...['http://o177.0.0.1/', 'http://0o177.0.0.1/', 'http://256.256.256.256/', 'http://4294967296/'],
    ...['http://1.2.3.4.5/', 'http://[fe80::1%25eth0]/', 'http://example.com%00.evil/', '//127.0.0.1/', '', 'http://'],
  ])
    t.equal(verdict(url), blocked('not a URL'), url);
});

t.test('URLs that parsers read differently are checked as they are requested', async (t) => {
  t.equal(verdict('http://1.1.1.1 &@2.2.2.2# @3.3.3.3/'), blocked('credentials'));
});

t.test('schemes other than http and https are refused', async (t) => {
  for (const url of [
    ...['file:///etc/passwd', 'data:text/html,a', 'blob:http://a/b', 'javascript:1', 'gopher://a/', 'dict://a/'],
    ...['ftp://a/', 'jar:http://a!/b', 'ws://a/', 'about:blank', 'view-source:http://a/'],
  ])
    t.equal(verdict(url), blocked('scheme'), url);
});

t.test('credentials, other ports and overlong URLs are refused', async (t) => {
  for (const url of ['http://a@example.com/', 'http://:b@example.com/', 'https://a:b@example.com/'])
    t.equal(verdict(url), blocked('credentials'), url);
  for (const port of [1, 22, 25, 6379, 8081, 65_535])
    t.equal(verdict(`http://example.com:${port}/`), blocked('port'), String(port));
  for (const port of [443, 8080, 8443]) t.match(verdict(`http://example.com:${port}/`), 'http://example.com');
  t.equal(verdict(`http://example.com/${'a'.repeat(8192)}`), blocked('too long'));
  t.equal(verdict(`http://example.com/${'é'.repeat(4000)}`), blocked('too long'), 'counted as it is sent');
  const strict = createGuard({ allow: [], ports: [443] });
  t.equal(verdict('http://example.com/', strict), blocked('port'), 'implied ports are checked too');
});

t.test('localhost names and invalid names are refused without a lookup', async (t) => {
  for (const url of [
    ...['http://localhost/', 'http://LOCALHOST./', 'http://x.localhost/', 'http://a.b.localhost./'],
    ...['http://a..b/', 'http://example.com../', 'http://ⓛocalhost/'],
  ])
    t.equal(verdict(url), blocked('host name'), url);
});

t.test('an admitted URL has neither fragment nor trailing dot', async (t) => {
  t.equal(verdict('http://Example.COM./a?b#c'), 'http://example.com/a?b');
  t.equal(guard.admit('../d', new URL('http://example.com/a/b/c')).href, 'http://example.com/a/d');
  t.throws(() => guard.admit('//10.0.0.1/', new URL('http://example.com/')), { code: 'HR_FETCH_BLOCKED' });
});

t.test('every address of a name is checked', async (t) => {
  const { lookup } = await nameServer(t, (name) => {
    const answers: Record<string, string[]> = {
      'public.test': ['93.184.216.34', '2606:4700::1111'],
      'localtest.me': ['127.0.0.1'],
      'mixed.test': ['93.184.216.34', '10.0.0.7'],
      'six.test': ['93.184.216.34', 'fd00::1'],
      'mapped.test': ['::ffff:127.0.0.1'],
      'metadata.google.internal': ['169.254.169.254'],
    };
    return answers[name] ?? [];
  });
  const checker = createGuard({ allow: [], ports: PORTS, lookup });
  t.same([...(await checker.resolve('public.test'))].toSorted(), ['2606:4700::1111', '93.184.216.34']);
  for (const name of ['localtest.me', 'mixed.test', 'six.test', 'mapped.test', 'metadata.google.internal']) {
    const error = await checker.resolve(name).catch((thrown: unknown) => thrown);
    t.equal(said(error), NOT_FOUND, name);
  }
});

t.test('an address with a zone is refused whatever stands before it', async (t) => {
  for (const address of ['fe80::1%eth0', '2606:4700::1111%lo', '', 'nonsense']) {
    const checker = createGuard({ allow: [], ports: PORTS, lookup: async () => [address] });
    await t.rejects(checker.resolve('zone.test'), { code: 'HR_FETCH_FAILED', subject: 'name not found' });
  }
});

t.test('names of the allow list may stand in the hosts file', async (t) => {
  const addresses = await createGuard({ allow: ['localhost'], ports: PORTS }).resolve('localhost');
  t.ok(addresses.some((address) => address === '127.0.0.1' || address === '::1'));
});

t.test('a resolver error is a failed fetch, not a blocked one', async (t) => {
  const broken = createGuard({ allow: [], ports: PORTS, lookup: () => Promise.reject(new Error('EAI_AGAIN')) });
  await t.rejects(broken.resolve('a.test'), { code: 'HR_FETCH_FAILED', subject: 'name lookup failed' });
});

t.test('the allow list takes host names, addresses and CIDR blocks', async (t) => {
  const allow = [
    'Wiki.Corp.',
    'localhost',
    '10.1.0.0/16',
    '192.168.7.7',
    '[fd00::7]',
    'fd12::/16',
    'not a host',
    '10.2.0.0/99',
  ];
  const answers: Record<string, string[]> = {
    'wiki.corp': ['172.16.9.9'],
    'inside.test': ['10.1.2.3', '93.184.216.34'],
    'outside.test': ['10.1.2.3', '10.2.2.3'],
    localhost: ['127.0.0.1', '::1'],
  };
  const checker = createGuard({ allow, ports: PORTS, lookup: async (name) => answers[name] ?? [] });
  for (const host of ['wiki.corp', 'WIKI.corp.', 'localhost', '10.1.255.255', '192.168.7.7', '[fd00::7]', '[fd12::9]'])
    t.match(verdict(`http://${host}/`, checker), 'http://', host);
  for (const host of ['10.0.255.255', '10.2.0.0', '192.168.7.8', '[fd00::8]', '127.0.0.1', '[::ffff:10.1.0.1]'])
    t.equal(verdict(`http://${host}/`, checker), blocked('private address'), host);
  t.equal(verdict('http://x.localhost/', checker), blocked('host name'));
  t.equal(verdict('http://wiki.corp:22/', checker), blocked('port'), 'the ports of allowed names are checked too');
  t.same(await checker.resolve('wiki.corp'), ['172.16.9.9'], 'an allowed name may resolve to anything');
  t.same(await checker.resolve('inside.test'), ['10.1.2.3', '93.184.216.34']);
  await t.rejects(checker.resolve('outside.test'), { code: 'HR_FETCH_FAILED', subject: 'name not found' });
});

t.test('without a list of ports, hosts of the allow list have all of them', async (t) => {
  const checker = createGuard({ allow: ['wiki.corp', '10.1.0.0/16', 'localhost', '192.168.7.7'], ports: null });
  for (const host of ['wiki.corp', 'localhost', '10.1.2.3', '192.168.7.7', 'example.com:8080'])
    t.match(verdict(`http://${host.includes(':') ? host : `${host}:49152`}/`, checker), 'http://', host);
  for (const host of ['example.com', 'x.wiki.corp', '10.2.0.1', '192.168.7.8'])
    t.equal(verdict(`http://${host}:49152/`, checker), blocked('port'), host);
});

t.test(
  'a name that exists inside is answered as one that does not exist, each time and without a second lookup',
  async (t) => {
    const { asked, lookup } = await nameServer(t, (name) => (name === 'inside.test' ? ['10.0.0.7'] : []));
    const clock = createManualClock();
    const checker = createGuard({ allow: [], ports: PORTS, lookup, clock });
    const answers = [];
    for (const name of ['inside.test', 'nothing.test', 'inside.test', 'nothing.test']) {
      const error: unknown = await checker.resolve(name).catch((thrown: unknown) => thrown);
      answers.push(JSON.stringify([said(error), (error as Error).message, Object.keys(error as object)]));
    }
    t.equal(new Set(answers).size, 1, answers.join(' '));
    t.equal(asked.length, 4, 'one lookup for each, of both families');
    clock.advance(5000);
    for (const name of ['inside.test', 'nothing.test']) await checker.resolve(name).catch(() => undefined);
    t.equal(asked.length, 8, 'for 5 s');
  },
);

t.test('a name whose name servers are silent is not asked for again at once', async (t) => {
  let lookups = 0;
  const late = (): Promise<never> => {
    lookups++;
    return Promise.reject(Object.assign(new Error('late'), { code: 'ETIMEOUT' }));
  };
  const checker = createGuard({ allow: [], ports: PORTS, lookup: late, clock: createManualClock() });
  for (let round = 0; round < 3; round++)
    await t.rejects(checker.resolve('slow.test'), { code: 'HR_FETCH_FAILED', subject: 'name lookup failed' });
  t.equal(lookups, 1);
  const left = AbortSignal.abort(new Error('left'));
  for (let round = 0; round < 2; round++) await t.rejects(checker.resolve('other.test', left));
  t.equal(lookups, 3, 'one that its client has left says nothing about the name');
});

t.test(
  'an IPv4 address is denied in every form of IPv6 that means it, also where all of IPv6 is allowed',
  async (t) => {
    const lookup = async (): Promise<string[]> => ['::ffff:127.0.0.1'];
    const checker = createGuard({ allow: ['::/0'], deny: ['127.0.0.0/8', '10.0.0.0/8'], ports: PORTS, lookup });
    for (const host of [
      '[::ffff:127.0.0.1]',
      '[::ffff:7f00:1]',
      '[::ffff:10.1.2.3]',
      '[64:ff9b::7f00:1]',
      '[2606:4700::5efe:7f00:1]',
    ])
      t.equal(verdict(`http://${host}/`, checker), blocked('denied'), host);
    t.equal(said(await checker.resolve('a.test').catch((thrown: unknown) => thrown)), NOT_FOUND);
    t.equal(verdict('http://[fd00::1]/', checker), 'http://[fd00::1]/');
  },
);

t.test('the deny list goes before everything', async (t) => {
  const deny = ['Evil.test', '203.0.113.0/24', '93.184.216.34', '2606:4700::/32', '10.0.0.9'];
  const allow = ['10.0.0.0/8', 'good.evil.test', 'trusted.test'];
  const answers: Record<string, string[]> = {
    'a.test': ['93.184.216.34'],
    'b.test': ['1.1.1.1', '2606:4700::1111'],
    'c.test': ['64:ff9b::5db8:d822'],
    'trusted.test': ['10.0.0.9'],
    'd.test': ['93.184.216.35'],
  };
  const lookup = async (name: string): Promise<string[]> => answers[name] ?? [];
  const checker = createGuard({ allow, deny, ports: PORTS, lookup });
  for (const host of ['evil.test', 'EVIL.test.', 'www.evil.test', 'good.evil.test', '93.184.216.34', '10.0.0.9'])
    t.equal(verdict(`http://${host}/`, checker), blocked('denied'), host);
  for (const host of ['[2606:4700::1]', '[64:ff9b::5db8:d822]', '203.0.113.9'])
    t.equal(verdict(`http://${host}/`, checker), blocked('denied'), host);
  for (const host of ['notevil.test', 'test', 'evil.test.org', '10.0.0.8', '93.184.216.35'])
    t.equal(verdict(`http://${host}/`, checker), `http://${host}/`);
  for (const name of ['a.test', 'b.test', 'c.test', 'trusted.test'])
    t.equal(said(await checker.resolve(name).catch((thrown: unknown) => thrown)), NOT_FOUND, name);
  t.same(await checker.resolve('d.test'), ['93.184.216.35']);
});
