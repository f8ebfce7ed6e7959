// A browser on loopback that speaks as much of the DevTools protocol as the renderer asks for, with faults at any command. It loads
// pages through their proxy as a browser does, and its document is what the test says.

import { once } from 'node:events';
import { createServer, request } from 'node:http';
import type { AddressInfo } from 'node:net';
import { type WebSocket, WebSocketServer } from 'ws';

interface Scope {
  teardown(end: () => unknown): void;
}

type Fields = Record<string, unknown>;

interface Command {
  readonly id: number;
  readonly method: string;
  readonly params: Fields;
  readonly sessionId?: string;
}

/** In place of an answer to a command. */
export type Fault = 'hang' | 'garbage' | 'binary' | 'disconnect' | 'error' | 'empty' | 'crash';

export interface FakeBrowserOptions {
  /** The fault of a command, asked with the number of commands so far; null for none. */
  readonly fault?: (method: string, count: number) => Fault | null;
  /** The document. */
  readonly html?: string | null;
  /** Navigations are answered when it resolves. */
  readonly gate?: Promise<void>;
  /** What the probe of WebRTC says. Default: `silent`. */
  readonly webRtc?: string;
  /** Sends requests past the proxy. */
  readonly isDirect?: boolean;
  /** Query that connections must carry, such as `token=x`. */
  readonly query?: string;
  /** Names in the Host field that are refused, as Chrome refuses them. */
  readonly refusesHost?: (host: string) => boolean;
}

export interface FakeBrowser {
  readonly port: number;
  readonly url: string;
  /** Commands in order. */
  readonly commands: string[];
  /** With their parameters. */
  readonly asked: Command[];
  /** Contexts that have not been disposed of. */
  readonly contexts: Set<string>;
  readonly connections: () => number;
  options: FakeBrowserOptions;
  /** Sends an event to all sessions. */
  emit(method: string, params: Fields): void;
  /** Cuts all connections. */
  cut(): void;
}

export async function fakeBrowser(t: Scope, options: FakeBrowserOptions = {}): Promise<FakeBrowser> {
  const server = createServer();
  const sockets = new WebSocketServer({ noServer: true });
  const commands: string[] = [];
  const asked: Command[] = [];
  const contexts = new Set<string>();
  const proxies = new Map<string, string>();
  const sessions = new Map<string, { context: string; target: string; socket: WebSocket }>();
  const targets = new Map<string, string>();
  let opened = 0;
  let ids = 0;
  const isRefused = (url: string, host: string): boolean =>
    (fake.options.query !== undefined && !url.includes(fake.options.query)) ||
    fake.options.refusesHost?.(host) === true;

  server.on('request', (incoming, response) => {
    const { host = '' } = incoming.headers;
    if (isRefused(incoming.url ?? '', host)) response.writeHead(500).end('Host header is not an IP address');
    else response.end(JSON.stringify({ webSocketDebuggerUrl: `ws://${host}/devtools/browser/1` }));
  });
  server.on('upgrade', (incoming, socket, head) => {
    if (isRefused(incoming.url ?? '', incoming.headers.host ?? '')) {
      socket.end('HTTP/1.1 500 Internal Server Error\r\ncontent-length: 0\r\n\r\n');
      return;
    }
    sockets.handleUpgrade(incoming, socket, head, (connected) => {
      opened++;
      const own = new Set<string>();
      connected.on('message', (data) => void serve(connected, own, JSON.parse((data as Buffer).toString()) as Command));
      connected.on('error', () => undefined);
      connected.on('close', () => {
        // disposeOnDetach
        for (const context of own) contexts.delete(context);
      });
    });
  });

  const send = (socket: WebSocket, message: Fields): void => {
    if (socket.readyState === socket.OPEN) socket.send(JSON.stringify(message));
  };

  const serve = async (socket: WebSocket, own: Set<string>, command: Command): Promise<void> => {
    const { id, method, sessionId } = command;
    commands.push(method);
    asked.push(command);
    const fault = fake.options.fault?.(method, commands.length) ?? null;
    if (fault === 'hang') return;
    if (fault === 'garbage') socket.send('{"id": 1, "result"');
    else if (fault === 'binary') socket.send(Buffer.from([1, 2, 3]));
    else if (fault === 'disconnect') socket.terminate();
    else if (fault === 'error') send(socket, { id, error: { code: -32_000, message: 'no' }, sessionId });
    else if (fault === 'crash')
      for (const [session] of sessions)
        send(socket, { method: 'Inspector.targetCrashed', params: {}, sessionId: session });
    else send(socket, { id, result: fault === 'empty' ? {} : await answer(socket, own, command), sessionId });
  };

  const answer = async (
    socket: WebSocket,
    own: Set<string>,
    { method, params, sessionId = '' }: Command,
  ): Promise<Fields> => {
    const session = sessions.get(sessionId);
    switch (method) {
      case 'Target.createBrowserContext': {
        const context = `context-${++ids}`;
        contexts.add(context);
        own.add(context);
        proxies.set(context, String(params['proxyServer']));
        return { browserContextId: context };
      }
      case 'Target.disposeBrowserContext':
        contexts.delete(String(params['browserContextId']));
        return {};
      case 'Target.createTarget': {
        const target = `target-${++ids}`;
        targets.set(target, String(params['browserContextId']));
        return { targetId: target };
      }
      case 'Target.attachToTarget': {
        const target = String(params['targetId']);
        const name = `session-${++ids}`;
        sessions.set(name, { context: targets.get(target) ?? '', target, socket });
        return { sessionId: name };
      }
      case 'Page.navigate':
        return session === undefined ? {} : await navigate(session, sessionId, String(params['url']));
      case 'Page.createIsolatedWorld':
        return { executionContextId: 7 };
      case 'Runtime.getHeapUsage':
        return { usedSize: 1000 };
      case 'Runtime.evaluate':
        return { result: { value: await evaluate(session, String(params['expression'])) } };
      default:
        return {};
    }
  };

  const pages = new Map<string, string>();

  /** Asks as Chromium does: the document waits for leave, then goes through the proxy. */
  const navigate = async (
    { context, socket, target }: { context: string; target: string; socket: WebSocket },
    sessionId: string,
    url: string,
  ): Promise<Fields> => {
    await fake.options.gate;
    pages.set(sessionId, url);
    const paused = { requestId: 'request-1', resourceType: 'Document', frameId: target, request: { url } };
    send(socket, { method: 'Fetch.requestPaused', params: paused, sessionId });
    if (fake.options.isDirect !== true) {
      send(socket, {
        method: 'Fetch.authRequired',
        params: { requestId: 'request-1', authChallenge: { source: 'Proxy' } },
        sessionId,
      });
      await through(proxies.get(context) ?? '', url, sessionId);
    }
    send(socket, { method: 'Page.lifecycleEvent', params: { frameId: target, name: 'networkIdle' }, sessionId });
    return { frameId: target };
  };

  const evaluate = async (session: { context: string } | undefined, expression: string): Promise<unknown> => {
    const sessionId = [...sessions].find(([, known]) => known === session)?.[0] ?? '';
    if (expression.includes('RTCPeerConnection')) {
      if (fake.options.isDirect !== true)
        await through(proxies.get(session?.context ?? '') ?? '', 'http://127.0.0.1/probe', sessionId);
      return fake.options.webRtc ?? 'silent';
    }
    if (expression.includes('changedMs')) return { isLoaded: true, quietMs: 1000, characters: 500 };
    const { html = '<html><body><main>made by a script</main></body></html>' } = fake.options;
    return { url: pages.get(sessionId) ?? '', html };
  };

  /** One request through a proxy, with the credentials that the session was given. */
  const through = (proxy: string, url: string, sessionId: string, tries = 200): Promise<void> =>
    new Promise((resolve) => {
      const given = asked.findLast(
        (command) => command.method === 'Fetch.continueWithAuth' && command.sessionId === sessionId,
      );
      const { password, username } = (given?.params['authChallengeResponse'] ?? {}) as Record<string, string>;
      if (username === undefined) {
        if (tries === 0) resolve();
        else setImmediate(() => through(proxy, url, sessionId, tries - 1).then(resolve));
        return;
      }
      const { hostname, port } = new URL(proxy);
      const authorization = `Basic ${Buffer.from(`${username}:${password}`).toString('base64')}`;
      const sent = request({
        host: hostname,
        port,
        path: url,
        headers: { 'proxy-authorization': authorization },
        agent: false,
      });
      sent.on('response', (response) => response.resume()).on('close', () => resolve());
      sent.on('error', () => undefined).end();
    });

  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const fake: FakeBrowser = {
    ...{ port, url: `http://127.0.0.1:${port}`, commands, asked, contexts, options },
    connections: () => opened,
    emit: (method, params) => {
      for (const [sessionId, { socket }] of sessions) send(socket, { method, params, sessionId });
    },
    cut: () => {
      for (const socket of sockets.clients) socket.terminate();
    },
  };
  t.teardown(() => {
    fake.cut();
    sockets.close();
    server.close();
    server.closeAllConnections();
  });
  return fake;
}
