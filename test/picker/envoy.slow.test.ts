// A picker behind a real Envoy, with real clients. Without an Envoy nothing is tested, and the output says so; with
// HEADRACE_TEST_ENVOY set and no program there, that is a failure.

import { spawn } from 'node:child_process';
import { existsSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import OpenAI from 'openai';
import t, { type Test } from 'tap';
import type { Host } from '../../src/host/index.ts';
import { startPicker, type Picker } from '../support/data-plane.ts';
import { freePort } from '../support/free-port.ts';
import { chat, MODEL, readStream, startHosts, until } from '../support/system.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

const GIVEN = process.env['HEADRACE_TEST_ENVOY'];
const PROGRAM = GIVEN ?? resolve('.envoy/envoy');

const FILTERS = 'type.googleapis.com/envoy.extensions.filters';

const address = (port: number): object => ({ socket_address: { address: '127.0.0.1', port_value: port } });

interface Modes {
  readonly request: string;
  readonly response: string;
}

function configuration(port: number, pickerPort: number, { request, response }: Modes): object {
  const trailers = (mode: string): string => (mode === 'FULL_DUPLEX_STREAMED' ? 'SEND' : 'SKIP');
  const picking = {
    '@type': `${FILTERS}.http.ext_proc.v3.ExternalProcessor`,
    grpc_service: { envoy_grpc: { cluster_name: 'picker' } },
    message_timeout: '10s',
    processing_mode: {
      ...{ request_header_mode: 'SEND', request_body_mode: request, request_trailer_mode: trailers(request) },
      ...{ response_header_mode: 'SEND', response_body_mode: response, response_trailer_mode: trailers(response) },
    },
    metadata_options: { receiving_namespaces: { untyped: ['envoy.lb'] } },
  };
  const manager = {
    '@type': `${FILTERS}.network.http_connection_manager.v3.HttpConnectionManager`,
    stat_prefix: 'front',
    route_config: {
      virtual_hosts: [
        {
          name: 'all',
          domains: ['*'],
          routes: [{ match: { prefix: '/' }, route: { cluster: 'hosts', timeout: '0s' } }],
        },
      ],
    },
    http_filters: [
      { name: 'picking', typed_config: picking },
      { name: 'router', typed_config: { '@type': `${FILTERS}.http.router.v3.Router` } },
    ],
  };
  const http2 = {
    '@type': 'type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions',
    explicit_http_config: { http2_protocol_options: {} },
  };
  return {
    static_resources: {
      listeners: [
        { address: address(port), filter_chains: [{ filters: [{ name: 'manager', typed_config: manager }] }] },
      ],
      clusters: [
        {
          ...{ name: 'hosts', type: 'ORIGINAL_DST', lb_policy: 'CLUSTER_PROVIDED', connect_timeout: '3s' },
          original_dst_lb_config: { use_http_header: true, http_header_name: 'x-gateway-destination-endpoint' },
        },
        {
          ...{ name: 'picker', type: 'STATIC', connect_timeout: '3s' },
          typed_extension_protocol_options: { 'envoy.extensions.upstreams.http.v3.HttpProtocolOptions': http2 },
          load_assignment: {
            cluster_name: 'picker',
            endpoints: [{ lb_endpoints: [{ endpoint: { address: address(pickerPort) } }] }],
          },
        },
      ],
    },
  };
}

const DUPLEX: Modes = { request: 'FULL_DUPLEX_STREAMED', response: 'FULL_DUPLEX_STREAMED' };

/** Starts an Envoy in front of a picker. Resolves with its base URL. */
async function startEnvoy(t: Test, picker: Picker, modes: Modes): Promise<string> {
  const port = await freePort();
  const file = join(temporaryFolder(t), 'envoy.json');
  writeFileSync(file, JSON.stringify(configuration(port, picker.port, modes)));
  const args = ['-c', file, '--concurrency', '1', '--disable-hot-restart', '--log-level', 'error'];
  const envoy = spawn(PROGRAM, args, { stdio: 'ignore' });
  t.teardown(async () => {
    const ended = new Promise((done) => envoy.once('exit', done));
    envoy.kill('SIGKILL');
    await ended;
  });
  const url = `http://127.0.0.1:${port}`;
  await until('Envoy answers', () =>
    fetch(`${url}/v1/models`).then(
      ({ ok }) => ok,
      () => false,
    ),
  );
  return url;
}

const inFlight = ({ gateway }: Picker): number => gateway.crns().reduce((sum, crn) => sum + crn.inFlight, 0);

async function start(
  t: Test,
  modes: Modes,
  count = 3,
): Promise<{ readonly url: string; readonly picker: Picker; readonly hosts: readonly Host[] }> {
  const hosts = await startHosts(
    t,
    Array.from({ length: count }, () => ({})),
  );
  const picker = await startPicker(t, hosts);
  return { url: await startEnvoy(t, picker, modes), picker, hosts };
}

if (GIVEN === undefined && !existsSync(PROGRAM)) {
  t.pass('no Envoy: the picker is not tested behind one (HEADRACE_TEST_ENVOY names its program)');
} else {
  t.test('an OpenAI client through Envoy: conversations stay with their server, streams are whole', async (t) => {
    const { picker, url } = await start(t, DUPLEX);
    const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: 'none', maxRetries: 0 });
    for (let conversation = 0; conversation < 4; conversation++) {
      const messages: OpenAI.ChatCompletionMessageParam[] = [
        { role: 'system', content: `rules of conversation ${conversation}: ${'be brief. '.repeat(300)}` },
      ];
      const served = new Set<string>();
      for (let turn = 0; turn < 4; turn++) {
        messages.push({ role: 'user', content: `question ${turn}` });
        const { data, response } = await client.chat.completions
          .create({ model: MODEL, messages, max_tokens: 20 })
          .withResponse();
        served.add(response.headers.get('x-host') ?? '');
        messages.push({ role: 'assistant', content: data.choices[0]?.message.content ?? '' });
      }
      t.equal(served.size, 1);
      const stream = await client.chat.completions.create({ model: MODEL, messages, max_tokens: 50, stream: true });
      let pieces = 0;
      for await (const { choices } of stream) if (choices[0]?.delta.content) pieces++;
      t.equal(pieces, 50);
    }
    await until('all have ended', () => inFlight(picker) === 0);
  });

  t.test('64 requests at once, bodies of 1 MB, clients that leave', async (t) => {
    const { picker, url } = await start(t, DUPLEX);
    const statuses = await Promise.all(
      Array.from({ length: 64 }, async (_, n) => {
        const text = n % 16 === 0 ? 'x'.repeat(1_000_000) : `question ${n}`;
        const response = await chat(url, { text, stream: n % 2 === 0, tokens: 5 });
        if (response.ok && n % 2 === 0) return (await readStream(response)).complete ? 200 : 0;
        await response.text();
        return response.status;
      }),
    );
    // A prompt beyond the context of the host is its own refusal.
    t.strictSame(
      statuses.filter((status) => status !== 200 && status !== 400),
      [],
    );
    const leaving = Array.from({ length: 16 }, async () => {
      const controller = new AbortController();
      const response = await chat(url, { stream: true, tokens: 10_000, signal: controller.signal });
      controller.abort();
      await response.text().catch(() => undefined);
    });
    await Promise.all(leaving);
    await until('all are given back', () => inFlight(picker) === 0 && picker.server.streams === 0);
    t.equal(picker.gateway.plane.budget.usedBytes, 0);
  });

  t.test('errors of the picker reach the client; a server that ends is avoided', async (t) => {
    const { hosts, picker, url } = await start(t, DUPLEX, 2);
    const unknown = await chat(url, { model: 'other' });
    t.equal(unknown.status, 404);
    t.equal(unknown.headers.get('x-headrace-error'), 'HR_ROUTE_UNKNOWN_MODEL');
    await hosts[0]?.kill();
    await until('it is down', () => picker.gateway.crns().some(({ standing }) => standing === 'down'));
    for (let n = 0; n < 8; n++) t.equal((await chat(url, { text: `question ${n}` })).status, 200);
    await hosts[1]?.kill();
    await until('all are down', () => picker.gateway.crns().every(({ standing }) => standing === 'down'));
    t.equal((await chat(url)).status, 503);
  });

  for (const modes of [
    { request: 'BUFFERED', response: 'NONE' },
    { request: 'NONE', response: 'NONE' },
    { request: 'BUFFERED', response: 'STREAMED' },
  ]) {
    t.test(`bodies ${modes.request}, answers ${modes.response}`, async (t) => {
      const { picker, url } = await start(t, modes);
      for (let n = 0; n < 3; n++) t.equal((await chat(url)).status, 200);
      t.ok((await readStream(await chat(url, { stream: true, tokens: 30 }))).complete);
      await until('all are given back', () => inFlight(picker) === 0 && picker.server.streams === 0);
    });
  }
}
