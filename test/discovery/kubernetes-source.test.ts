// The source that watches EndpointSlices, over an API server on loopback.
import t, { type Test } from 'tap';
import { type KubernetesSourceSettings, kubernetesSource } from '../../src/discovery/kubernetes-source.ts';
import { CERTIFICATE, KEY } from '../support/certificate.ts';
import { SourceRun } from '../support/discovery-source.ts';
import { FakeKubernetes, podOf, sliceOf } from '../support/kubernetes.ts';

async function serve(t: Test): Promise<FakeKubernetes> {
  return new FakeKubernetes(t).listen();
}

function start(t: Test, api: FakeKubernetes, settings: Partial<KubernetesSourceSettings> = {}): SourceRun {
  const which = settings.selector === undefined ? { service: 'vllm', model: 'm' } : {};
  const all: KubernetesSourceSettings = {
    ...{ kind: 'kubernetes', labels: 'service', scheme: 'http', ...which },
    ...{ server: api.url, account: api.account },
    ...settings,
  };
  return new SourceRun(t, (system, deps) => void system.spawn(kubernetesSource(all, deps)));
}

const POD_1 = { name: 'vllm-1', address: '10.0.0.1' };
const POD_2 = { name: 'vllm-2', address: '10.0.0.2' };
const ONE = ['m http://10.0.0.1:8000'];
const BOTH = [...ONE, 'm http://10.0.0.2:8000'];

t.test('lists the endpoints of a service, then watches them', async (t) => {
  const api = await serve(t);
  api.put(sliceOf('vllm-a', 'vllm', [POD_1]));
  api.put(sliceOf('other-a', 'other', [POD_2]));
  const run = start(t, api, { dialects: ['chat'], apiKey: 'key', weight: 2, aliases: ['gpt-5'] });
  t.same(await run.next(), ONE);
  const details = { dialects: ['chat'], apiKey: 'key', weight: 2, instance: 'uid-vllm-1' };
  t.same(run.servers('m'), [{ url: 'http://10.0.0.1:8000', ...details }]);
  t.same(run.models.get('m')?.aliases, ['gpt-5']);
  await api.watched();
  const path = '/apis/discovery.k8s.io/v1/namespaces/default/endpointslices';
  const selector = 'labelSelector=kubernetes.io%2Fservice-name%3Dvllm';
  t.match(api.asked, [
    `${path}?limit=500&${selector}`,
    new RegExp(
      `^${path.replaceAll('.', String.raw`\.`)}\\?watch=1&allowWatchBookmarks=true&timeoutSeconds=\\d+&resourceVersion=102&`,
    ),
  ]);
  api.put(sliceOf('vllm-b', 'vllm', [POD_2]));
  await run.reach(BOTH);
  api.put(sliceOf('vllm-a', 'vllm', []));
  await run.reach(['m http://10.0.0.2:8000']);
  api.delete('vllm-b');
  await run.reach([]);
});

t.test('endpoints that are not ready or terminate get no requests', async (t) => {
  const api = await serve(t);
  const pods = [
    { name: 'ready', address: '10.0.0.1' },
    { name: 'unknown', address: '10.0.0.2', ready: null },
    { name: 'unready', address: '10.0.0.3', ready: false },
    { name: 'leaving', address: '10.0.0.4', ready: false, serving: true, terminating: true },
    // As with publishNotReadyAddresses.
    { name: 'published', address: '10.0.0.5', ready: true, serving: false },
    { name: 'published-leaving', address: '10.0.0.6', ready: true, serving: true, terminating: true },
  ];
  api.put(sliceOf('vllm-a', 'vllm', pods));
  const run = start(t, api);
  t.same(await run.next(), [...BOTH, 'm http://10.0.0.5:8000']);
});

t.test('a pod is one server: in two slices, and with addresses of both families', async (t) => {
  const api = await serve(t);
  api.put(sliceOf('vllm-a', 'vllm', [POD_1]));
  api.put(sliceOf('vllm-b', 'vllm', [{ ...POD_1, ready: false }, POD_2]));
  const six = { addressType: 'IPv6' };
  api.put(
    sliceOf(
      'vllm-6',
      'vllm',
      [
        { ...POD_1, address: 'fd00::1' },
        { name: 'vllm-3', address: 'fd00::3' },
      ],
      six,
    ),
  );
  const run = start(t, api);
  t.same(await run.next(), [...BOTH, 'm http://[fd00::3]:8000']);
});

t.test('the port is a number, a name, the only one, or the one named http', async (t) => {
  const ports = [
    { name: 'metrics', port: 9000, protocol: 'TCP' },
    { name: 'http', port: 8000, protocol: 'TCP' },
    { name: 'dns', port: 53, protocol: 'UDP' },
  ];
  const cases = [
    [{ port: '7000' }, ports, ['m http://10.0.0.1:7000']],
    [{ port: 'metrics' }, ports, ['m http://10.0.0.1:9000']],
    [{}, ports, ['m http://10.0.0.1:8000']],
    [{}, [{ name: 'api', port: 8080 }], ['m http://10.0.0.1:8080']],
    [{ port: 'none' }, ports, []],
    [{ port: 'dns' }, ports, []],
    [{ port: '7000' }, null, ['m http://10.0.0.1:7000']],
    [{}, null, []],
  ] as const;
  for (const [settings, given, urls] of cases) {
    const api = await serve(t);
    api.put(sliceOf('vllm-a', 'vllm', [POD_1], { ports: given }));
    const run = start(t, api, settings);
    t.same(await run.next(), urls);
    t.equal(run.notes.length, urls.length === 0 ? 1 : 0);
  }
});

t.test('labels of services give model, dialects, alias and weight', async (t) => {
  const api = await serve(t);
  const labels = { app: 'vllm', model: 'atlas-27b', dialects: 'chat.messages', alias: 'gpt-5', weight: '2.5' };
  api.put(sliceOf('a', 'atlas', [POD_1], { labels }));
  api.put(
    sliceOf('b', 'finch', [POD_2], { labels: { app: 'vllm', model: 'finch-3b', dialects: 'latin', weight: 'x' } }),
  );
  api.put(sliceOf('c', 'nameless', [POD_2], { labels: { app: 'vllm' } }));
  api.put(sliceOf('d', 'other', [POD_2], { labels: { app: 'other', model: 'atlas-27b' } }));
  const run = start(t, api, {
    ...{ modelLabel: 'model', dialectsLabel: 'dialects', aliasLabel: 'alias', weightLabel: 'weight' },
    ...{ selector: 'app=vllm', dialects: ['completions'] },
  });
  t.same(await run.next(), ['atlas-27b http://10.0.0.1:8000', 'finch-3b http://10.0.0.2:8000']);
  t.match(run.models.get('atlas-27b'), {
    aliases: ['gpt-5'],
    servers: [{ dialects: ['chat', 'messages'], weight: 2.5 }],
  });
  t.match(
    run.servers('finch-3b'),
    [{ dialects: ['completions'], weight: undefined }],
    'what cannot be read is left out',
  );
  t.same(run.notes, [
    'label dialects of b is left out: it cannot be read',
    'label weight of b is left out: it cannot be read',
    'c is left out: it has no label model',
  ]);
});

t.test('labels of pods are joined to their endpoints', async (t) => {
  const api = await serve(t);
  api.put(sliceOf('a', 'vllm', [POD_1, POD_2]));
  api.put(podOf('vllm-1', { model: 'atlas-27b' }), 'pods');
  const run = start(t, api, { labels: 'pod', modelLabel: 'model' });
  await run.reach(['atlas-27b http://10.0.0.1:8000']);
  await api.watched(2);
  t.ok(api.accepted.some((accept) => accept.startsWith('application/json;as=PartialObjectMetadataList;')));
  api.put(podOf('vllm-2', {}), 'pods');
  await run.reach(['atlas-27b http://10.0.0.1:8000', 'm http://10.0.0.2:8000']);
  api.put(podOf('vllm-2', { model: 'atlas-27b' }), 'pods');
  await run.reach(['atlas-27b http://10.0.0.1:8000', 'atlas-27b http://10.0.0.2:8000']);
  api.delete('vllm-1', 'pods');
  await run.reach(['atlas-27b http://10.0.0.2:8000']);
});

t.test('labels of the former pod of a name do not count for the next one', async (t) => {
  const api = await serve(t);
  api.put(sliceOf('a', 'vllm', [POD_1]));
  api.put(podOf('vllm-1', { model: 'old' }), 'pods');
  const run = start(t, api, { labels: 'pod', modelLabel: 'model' });
  await run.reach(['old http://10.0.0.1:8000']);
  await api.watched(2);
  api.put(sliceOf('a', 'vllm', [{ ...POD_1, uid: 'next' }]));
  await run.reach([]);
  api.put(podOf('vllm-1', { model: 'new' }, 'next'), 'pods');
  await run.reach(['new http://10.0.0.1:8000']);
});

t.test('endpoints without a pod have no labels of one, and a note says so', async (t) => {
  const api = await serve(t);
  const byPod = sliceOf('a', 'vllm', [POD_1]);
  const endpoints = [{ addresses: [POD_2.address], conditions: { ready: true } }];
  api.put({ ...sliceOf('b', 'vllm', []), endpoints } as typeof byPod);
  api.put(byPod);
  api.put(podOf('vllm-1', {}), 'pods');
  const run = start(t, api, { labels: 'pod' });
  await run.reach(ONE);
  t.same(run.notes, ['endpoints of b are left out: they are of no pod, whose labels would count']);
});

t.test('an API server behind a path', async (t) => {
  const api = await serve(t);
  api.prefix = '/k8s/clusters/c-1';
  api.put(sliceOf('vllm-a', 'vllm', [POD_1]));
  const run = start(t, api, { server: api.url + api.prefix });
  t.same(await run.next(), ONE);
  await api.watched();
});

t.test('with https the service is the name in Host and TLS', async (t) => {
  const api = await serve(t);
  api.put(sliceOf('a', 'vllm', [POD_1]));
  const run = start(t, api, { scheme: 'https' });
  await run.next();
  t.match(run.servers('m'), [{ url: 'https://10.0.0.1:8000', host: 'vllm.default.svc' }]);
  const other = start(t, api, { host: 'models.example' });
  await other.next();
  t.match(other.servers('m'), [{ url: 'http://10.0.0.1:8000', host: 'models.example' }]);
});

t.test('long lists come in pages, and too long ones are refused', async (t) => {
  const api = await serve(t);
  for (let n = 0; n < 1100; n++) {
    api.put(sliceOf(`s-${n}`, 'vllm', [{ name: `p-${n}`, address: `10.0.${n >> 8}.${n & 255}` }]));
  }
  const run = start(t, api);
  await run.next();
  t.equal(run.servers('m').length, 1100);
  t.equal(api.asked.filter((path) => path.includes('limit=500')).length, 3);
  for (let n = 0; n < 10_000; n++) api.put(sliceOf(`t-${n}`, 'vllm', []));
  const late = start(t, api);
  t.match(await late.next(), /more than 10000 objects; name a service or a narrower selector/);
});

t.test('a list without an end is given up', async (t) => {
  const api = await serve(t);
  api.isEndless = true;
  t.match(await start(t, api).next(), /a list of more than 1000 pages/);
  t.equal(api.asked.length, 1000);
});

t.test('a source that ends leaves the list that is under way', async (t) => {
  const api = await serve(t);
  api.holdsLists = true;
  const asked = api.requested();
  const run = start(t, api);
  await asked;
  t.equal(api.heldLists.size, 1);
  await run.test.system.terminate();
  await api.written();
  t.equal(api.heldLists.size, 0);
});

t.test('a watch that ends goes on where it was', async (t) => {
  const api = await serve(t);
  api.put(sliceOf('vllm-a', 'vllm', [POD_1]));
  const run = start(t, api);
  t.same(await run.next(), ONE);
  await api.watched();
  api.bookmark();
  run.test.clock.advance(1500);
  api.end();
  api.put(sliceOf('vllm-b', 'vllm', [POD_2]));
  await run.reach(BOTH);
  t.equal(api.asked.filter((path) => path.includes('limit=')).length, 1, 'no second list');
  t.notOk(
    run.reports.some((report) => typeof report === 'string'),
    'and no failure',
  );
});

t.test('a connection that is cut in the middle of an event', async (t) => {
  const api = await serve(t);
  api.put(sliceOf('vllm-a', 'vllm', [POD_1]));
  const run = start(t, api);
  t.same(await run.next(), ONE);
  await api.watched();
  api.send('{"type":"MODIFIED","object":{"metadata":{"name":"vllm-a","resourceVersion":"102"},"endpo');
  await api.written();
  api.cut();
  await run.reach(/the API server cannot be reached/);
  t.same(run.urls, ONE, 'half an event is none');
  api.put(sliceOf('vllm-b', 'vllm', [POD_2]));
  await run.reach(BOTH);
  t.equal(api.asked.filter((path) => path.includes('limit=')).length, 1, 'no second list');
});

t.test('a version that is too old begins with a new list, and is no failure', async (t) => {
  for (const how of ['event', 'status']) {
    const api = await serve(t);
    api.put(sliceOf('vllm-a', 'vllm', [POD_1]));
    const run = start(t, api);
    t.same(await run.next(), ONE);
    await api.watched();
    api.oldest = api.version + 1;
    api.put(sliceOf('vllm-b', 'vllm', [POD_2]), 'pods');
    if (how === 'event') api.fail(410);
    else api.end();
    run.test.clock.advance(1500);
    api.put(sliceOf('vllm-c', 'vllm', [POD_2]));
    await run.reach(BOTH);
    await api.watched();
    t.equal(api.asked.filter((path) => path.includes('limit=')).length, 2, how);
    t.notOk(run.reports.some((report) => typeof report === 'string'));
  }
});

t.test('a list whose version no watch takes is read again less and less', async (t) => {
  const api = await serve(t);
  api.put(sliceOf('vllm-a', 'vllm', [POD_1]));
  for (let n = 0; n < 3; n++) api.refusals.push({ watch: true, status: 410 });
  const run = start(t, api);
  const { clock } = run.test;
  const startMs = clock.now();
  while (api.watches === 0) {
    await new Promise((resolve) => void setImmediate(resolve));
    // The timers of connections are longer.
    if (clock.nextDueMs - clock.now() <= 2000) await run.turn();
  }
  const waitedMs = clock.now() - startMs;
  t.ok(waitedMs >= 1750, `${waitedMs} ms: half of 500, 1,000 and 2,000 at least`);
  t.same(run.urls, ONE);
});

t.test('an object that was deleted while the version was too old is gone after the new list', async (t) => {
  const api = await serve(t);
  api.put(sliceOf('vllm-a', 'vllm', [POD_1]));
  api.put(sliceOf('vllm-b', 'vllm', [POD_2]));
  const run = start(t, api);
  t.same(await run.next(), BOTH);
  await api.watched();
  api.cut();
  api.delete('vllm-b');
  api.oldest = api.version;
  await run.reach(ONE);
});

t.test('an error event of another kind is a failure, and begins with a new list', async (t) => {
  const api = await serve(t);
  api.put(sliceOf('vllm-a', 'vllm', [POD_1]));
  const run = start(t, api);
  t.same(await run.next(), ONE);
  await api.watched();
  api.fail(500);
  await run.reach(/the watch ended with error 500/);
  await run.reach(ONE);
  t.equal(api.asked.filter((path) => path.includes('limit=')).length, 2);
});

t.test('an event that cannot be read is a failure, and begins with a new list', async (t) => {
  const deep = `{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"999"},"deep":${'['.repeat(2000)}${']'.repeat(2000)}}}\n`;
  for (const text of ['nonsense\n', '{"type":"ADDED","object":{}}\n', 'null\n', deep]) {
    const api = await serve(t);
    api.put(sliceOf('vllm-a', 'vllm', [POD_1]));
    const run = start(t, api);
    t.same(await run.next(), ONE);
    await api.watched();
    api.send(text);
    await run.reach(/sent an event/);
    await run.reach(ONE);
    t.equal(api.asked.filter((path) => path.includes('limit=')).length, 2);
  }
});

t.test('an event that is too long is a failure, and begins with a new list', async (t) => {
  const api = await serve(t);
  api.put(sliceOf('vllm-a', 'vllm', [POD_1]));
  const run = start(t, api);
  t.same(await run.next(), ONE);
  await api.watched();
  api.send(Buffer.alloc(5 * 1024 * 1024, 'x'));
  await run.reach(/an event is longer than 4194304 bytes/);
  await run.reach(ONE);
});

t.test('a token that was replaced is read again', async (t) => {
  const api = await serve(t);
  api.token = 'first';
  api.put(sliceOf('vllm-a', 'vllm', [POD_1]));
  const run = start(t, api);
  t.same(await run.next(), ONE);
  await api.watched();
  await run.reach(ONE);
  api.token = 'second';
  api.cut();
  await run.reach(/answered 401: the token of the service account is not accepted/);
  api.write('token', 'second\n');
  api.put(sliceOf('vllm-b', 'vllm', [POD_2]));
  await run.reach(BOTH);
});

t.test('an API server that asks to wait is waited for', async (t) => {
  const api = await serve(t);
  api.put(sliceOf('vllm-a', 'vllm', [POD_1]));
  api.refusals.push({ watch: false, status: 429, retryAfter: 3 }, { watch: true, status: 429, retryAfter: 4 });
  const run = start(t, api);
  t.match(await run.next(), /answered 429: too many requests/);
  t.equal(await run.turn(), 3000);
  t.same(await run.next(), ONE);
  t.match(await run.next(), /answered 429/);
  t.same(run.urls, ONE);
  const startMs = run.test.clock.now();
  api.put(sliceOf('vllm-b', 'vllm', [POD_2]));
  await run.reach(BOTH);
  t.equal(run.test.clock.now() - startMs, 4020);
});

t.test('an API server that asks to wait for an hour is asked again after a minute', async (t) => {
  const api = await serve(t);
  api.put(sliceOf('vllm-a', 'vllm', [POD_1]));
  api.refusals.push({ watch: false, status: 503, retryAfter: 3600 });
  const run = start(t, api);
  t.match(await run.next(), /answered 503/);
  const { clock } = run.test;
  const startMs = clock.now();
  while (run.urls.length === 0) {
    await new Promise((resolve) => void setImmediate(resolve));
    if (clock.nextDueMs - startMs <= 60_000) await run.turn();
  }
  t.equal(clock.now() - startMs, 60_000);
  t.same(run.urls, ONE);
});

t.test('what was found stays while the API server refuses', async (t) => {
  const api = await serve(t);
  api.put(sliceOf('vllm-a', 'vllm', [POD_1]));
  const run = start(t, api);
  t.same(await run.next(), ONE);
  await api.watched();
  await run.reach(ONE);
  for (let n = 0; n < 3; n++) api.refusals.push({ watch: true, status: 500 });
  api.cut();
  await run.reach(/cannot be reached/);
  for (let n = 0; n < 3; n++) await run.reach(/the API server answered 500/);
  t.same(run.urls, ONE);
  await run.reach(ONE);
});

t.test('a right that is missing is named', async (t) => {
  const api = await serve(t);
  api.refusals.push({ watch: false, status: 403 });
  const run = start(t, api);
  t.match(await run.next(), /answered 403: the service account needs a Role that allows get, list and watch/);
});

t.test('a silent watch is given up when its time is over', async (t) => {
  const api = await serve(t);
  api.put(sliceOf('vllm-a', 'vllm', [POD_1]));
  const run = start(t, api);
  t.same(await run.next(), ONE);
  await api.watched();
  await run.reach(ONE);
  const seconds = Number(/timeoutSeconds=(\d+)/.exec(api.asked.at(-1) ?? '')?.[1]);
  t.ok(seconds >= 90 && seconds <= 150);
  run.test.clock.advance(seconds * 1000);
  await run.test.settle();
  t.same(run.reports, []);
  run.test.clock.advance(15_000);
  await run.reach(/the watch is silent/);
  api.put(sliceOf('vllm-b', 'vllm', [POD_2]));
  await run.reach(BOTH);
});

t.test('bookmarks move the version on, and older ones do not move it back', async (t) => {
  const api = await serve(t);
  api.put(sliceOf('vllm-a', 'vllm', [POD_1]));
  const run = start(t, api);
  t.same(await run.next(), ONE);
  await api.watched();
  api.bookmark(150);
  api.bookmark(120);
  // An event that is older than the copy has been seen.
  const old = sliceOf('vllm-a', 'vllm', [POD_2]);
  api.send(
    `${JSON.stringify({ type: 'MODIFIED', object: { ...old, metadata: { ...old.metadata, resourceVersion: '130' } } })}\n`,
  );
  await api.written();
  run.test.clock.advance(1500);
  api.end();
  const asked = api.asked.length;
  while (api.asked.length === asked) {
    await new Promise((resolve) => void setImmediate(resolve));
    if (run.test.clock.nextDueMs - run.test.clock.now() < 1000) await run.turn();
  }
  t.match(api.asked.at(-1), /resourceVersion=150&/);
  t.same(run.urls, ONE);
});

t.test('over TLS with the certificate authority of the service account, also when it is replaced', async (t) => {
  const api = await new FakeKubernetes(t, { cert: CERTIFICATE, key: KEY }).listen();
  api.put(sliceOf('vllm-a', 'vllm', [POD_1]));
  const run = start(t, api);
  t.match(await run.next(), /cannot be reached \(TLS certificate is self-signed\)/);
  api.write('ca.crt', CERTIFICATE);
  await run.reach(ONE);
});

t.test('a namespace that is not known, and an API server that is not', async (t) => {
  const api = await serve(t);
  const account = t.testdir({});
  const run = start(t, api, { account });
  t.match(await run.next(), /namespace does not exist; set namespace/);
  const named = start(t, api, { account, namespace: 'default' });
  t.same(await named.next(), []);
  const inPod = new SourceRun(
    t,
    (system, deps) =>
      void system.spawn(
        kubernetesSource(
          {
            kind: 'kubernetes',
            service: 'vllm',
            model: 'm',
            labels: 'service',
            scheme: 'http',
            account,
            namespace: 'default',
          },
          deps,
        ),
      ),
  );
  t.match(await inPod.next(), /KUBERNETES_SERVICE_HOST is not set; set server/);
});
