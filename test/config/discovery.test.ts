// The setting `discovery`: a URL, or a list of sources; and the messages for mistakes.
import t from 'tap';
import { explain } from '../../src/config/describe.ts';
import { loadConfigText, type Mistake, resolveSettings } from '../../src/config/load.ts';
import { discoverySources, type Settings } from '../../src/config/settings.ts';

function settingsOf(
  discovery: unknown,
  env: Record<string, string> = {},
  flags: Record<string, string> = {},
): Settings {
  const resolution = resolveSettings({ ...(discovery !== undefined && { discovery }) }, env, flags);
  if ('mistakes' in resolution) throw new Error(JSON.stringify(resolution.mistakes));
  return resolution.settings;
}

function mistakesOf(...discovery: readonly unknown[]): readonly Mistake[] {
  const resolution = resolveSettings({ discovery });
  return 'mistakes' in resolution ? resolution.mistakes : [];
}

t.test('null, a URL, or a list of sources', (t) => {
  t.equal(settingsOf(undefined).discovery, null);
  t.same(discoverySources(settingsOf(undefined)), []);
  const url = settingsOf('https://map.example/');
  t.equal(url.discovery, 'https://map.example');
  t.same(discoverySources(url), [{ kind: 'url', url: 'https://map.example' }]);
  const several = settingsOf([
    { kind: 'url', url: 'https://map.example', interval: '5s' },
    { kind: 'dns', name: 'vllm.default.svc.cluster.local', port: 8000, model: 'atlas-27b' },
    { kind: 'kubernetes', namespace: 'default', selector: 'app=vllm', port: 8000, modelLabel: 'model' },
    { kind: 'file', path: '/etc/servers.yaml' },
  ]);
  t.match(several.discovery, [
    { kind: 'url', intervalMs: 5000 },
    { kind: 'dns', port: 8000, records: 'auto', family: 'all', scheme: 'http' },
    { kind: 'kubernetes', port: '8000', labels: 'service', account: '/var/run/secrets/kubernetes.io/serviceaccount' },
    { kind: 'file', path: '/etc/servers.yaml' },
  ]);
  t.end();
});

t.test('the URL of a map is asked as it is written', (t) => {
  for (const url of ['https://map.example/models/', 'https://map.example/models//', 'https://map.example/models/?a']) {
    t.equal(settingsOf(url).discovery, url);
    t.match(settingsOf([{ kind: 'url', url }]).discovery, [{ url }]);
  }
  t.end();
});

t.test('from the environment and the command line', (t) => {
  const list = '[{"kind": "file", "path": "/a"}]';
  t.equal(settingsOf(undefined, { HEADRACE_DISCOVERY: 'https://a.example' }).discovery, 'https://a.example');
  t.match(settingsOf('https://a.example', {}, { discovery: list }).discovery, [{ kind: 'file', path: '/a' }]);
  t.equal(settingsOf('https://a.example', { HEADRACE_DISCOVERY: 'null' }).discovery, null);
  t.end();
});

t.test('the path of a file begins at the folder of the configuration', (t) => {
  const resolution = loadConfigText('discovery: [{ kind: file, path: ./servers.yaml }]', '/etc/headrace/headrace.yaml');
  t.match(resolution, { settings: { discovery: [{ path: '/etc/headrace/servers.yaml' }] } });
  const twice = 'discovery: [{ kind: file, path: ./servers.yaml }, { kind: file, path: servers.yaml }]';
  t.match(loadConfigText(twice, '/etc/headrace/headrace.yaml'), {
    mistakes: [{ path: 'discovery[1]', message: 'is listed before' }],
  });
  t.end();
});

t.test('mistakes name the entry and what to write', (t) => {
  const dns = { kind: 'dns', name: 'a.example', port: 1, model: 'm' };
  const kubernetes = { kind: 'kubernetes', service: 'a', model: 'm' };
  const cases: readonly (readonly [entry: unknown, path: string, message: string])[] = [
    ['https://a.example', 'discovery[0]', 'must be a mapping with the name kind: url, dns, kubernetes, file'],
    [{}, 'discovery[0].kind', 'is required: url, dns, kubernetes, file'],
    [{ kind: 'consul' }, 'discovery[0].kind', 'must be one of url, dns, kubernetes, file'],
    [{ kind: 'url' }, 'discovery[0].url', 'is required'],
    [{ kind: 'url', url: 'a' }, 'discovery[0].url', 'must be a URL that begins with http:// or https://'],
    [{ kind: 'file', path: '/a', port: 1 }, 'discovery[0].port', 'is not for kind file, but for dns and kubernetes'],
    [{ kind: 'file', pat: '/a' }, 'discovery[0].path', 'is required'],
    [{ kind: 'file', path: '/a', pth: 1 }, 'discovery[0].pth', 'is unknown; did you mean path?'],
    [{ ...dns, port: undefined }, 'discovery[0].port', 'is required: A and AAAA records have no port'],
    [{ ...dns, port: 70_000 }, 'discovery[0].port', 'must be at most 65535'],
    [{ ...dns, name: 'a b' }, 'discovery[0].name', 'must be a DNS name, such as "vllm.default.svc.cluster.local"'],
    [{ ...dns, weight: 0 }, 'discovery[0].weight', 'must be at least 0.001'],
    [
      { ...dns, nameServers: ['ns.example'] },
      'discovery[0].nameServers[0]',
      'must be an IP address, with a port where it is not 53, such as "10.96.0.10" or "[fd00::a]:5353"',
    ],
    [{ ...kubernetes, service: undefined }, 'discovery[0].service', 'is required, or selector'],
    [{ ...kubernetes, model: undefined }, 'discovery[0].model', 'is required, or modelLabel'],
    [
      { ...kubernetes, port: 'HTTP' },
      'discovery[0].port',
      'must be a port from 1 to 65535, or the name of one, such as "http"',
    ],
    [{ ...kubernetes, labels: 'node' }, 'discovery[0].labels', 'must be one of service, pod'],
  ];
  for (const [entry, path, message] of cases) {
    t.ok(
      mistakesOf(entry).some((mistake) => mistake.path === path && mistake.message === message),
      JSON.stringify([entry, mistakesOf(entry)]),
    );
  }
  t.same(mistakesOf(dns, { ...dns }), [{ path: 'discovery[1]', message: 'is listed before' }]);
  t.same(mistakesOf({ kind: 'dns', name: '_http._tcp.a.example', model: 'm' }), [], 'SRV records have ports');
  t.match(resolveSettings({ discovery: 7 }), {
    mistakes: [{ path: 'discovery', message: 'must be a URL that begins with http:// or https://, or null' }],
  });
  t.end();
});

t.test('the explanation names sources without their credentials', (t) => {
  const settings = settingsOf([
    { kind: 'url', url: 'https://map.example/?token=sesame', apiKey: 'sesame' },
    { kind: 'dns', name: 'a.example', port: 8000, model: 'm', apiKey: 'sesame' },
    { kind: 'kubernetes', service: 'vllm', model: 'm', apiKey: 'sesame' },
  ]);
  const text = explain(settings, 'headrace.yaml');
  t.match(text, /discovery +https:\/\/map\.example\/\?… every 30s/);
  t.match(text, /discovery +dns a\.example:8000 for m/);
  t.match(text, /discovery +kubernetes vllm/);
  t.notMatch(text, /sesame/);
  t.end();
});
