// One page in a browser: a context of its own, whose requests go through the page's own proxy, with one tab. The tab loads the page, waits
// until it shows its text, and takes what it shows. Whatever happens, the context is disposed of, and nothing of the page stays.

import type { Clock } from '../../actor/index.ts';
import { HeadraceError } from '../../errors.ts';
import { isChallengeHead } from '../challenge.ts';
import { membersOf } from '../../net/json-object.ts';
import { type DevTools, DevToolsError, type Fields, textOf } from './devtools.ts';
import { PAGE_STATE, type PageState, REMOVE_WEBRTC, snapshotOf } from './page-scripts.ts';

/** How the browser reaches the proxy of the page. */
export interface TabProxy {
  /** `HOST:PORT`. */
  readonly address: string;
  readonly username: string;
  readonly password: string;
}

export interface TabOptions {
  readonly devtools: DevTools;
  readonly clock: Clock;
  readonly proxy: TabProxy;
  readonly userAgent: string;
  /** Most memory of the page's scripts and documents, as the browser counts it. */
  readonly memoryBytes: number;
  /** Most characters of the document. */
  readonly maxCharacters: number;
  /** When what the page shows is taken, ready or not; by the clock. */
  readonly untilMs: number;
  /** Checks a URL before the page is loaded from it; rejects with a `HeadraceError`. */
  readonly admit: (url: string) => Promise<URL>;
}

/** What a page shows. */
export interface Snapshot {
  readonly url: string;
  readonly html: string;
  /** False when its time was over first. */
  readonly isSettled: boolean;
}

/** Time that a page gets to answer when it is asked for its text. */
const TAKE_MS = 2000;

/** How often a page is asked how far it is. */
const POLL_MS = 100;

/** A page without requests is taken once its document has not changed for so long. */
const QUIET_MS = 100;

/** A page that goes on to send requests, or to load, once its text has not changed for so long. */
const LONG_QUIET_MS = 600;

/** From here on a page has text: the same number that asks for a browser. */
const TEXT_CHARACTERS = 200;

/** Documents that a page may lead to, one after the other. */
const MAX_NAVIGATIONS = 20;

/** Frames, workers and windows of a page. */
const MAX_CHILDREN = 64;

/** Requests that the browser asks about: documents, pictures and the like. */
const MAX_PAUSED = 5000;

/** High, so that what is loaded when it comes into view is loaded. */
const VIEWPORT = { width: 1280, height: 4000, deviceScaleFactor: 1, mobile: false } as const;

/** Requests of these types do not bring text. */
const BLOCKED_TYPES = 'Image Media Font Ping'.split(' ');

const PATTERNS = [
  { resourceType: 'Document', requestStage: 'Request' },
  { resourceType: 'Document', requestStage: 'Response' },
  ...BLOCKED_TYPES.map((resourceType) => ({ resourceType, requestStage: 'Request' })),
] as const;

const HTML_TYPE = /^(?:text\/html|application\/xhtml\+xml)/i;

/**
 * Loads a page and returns what it shows. Rejects with `HR_FETCH_RENDERER` when the browser fails, with the errors of `admit`,
 * `HR_FETCH_CHALLENGE`, `HR_FETCH_FAILED`, `HR_FETCH_TYPE`, `HR_FETCH_TOO_LARGE`, `HR_FETCH_TIMEOUT`, or with the reason of `signal`.
 * `onDisposed` is called once, when nothing of the page is left in the browser, or the browser is gone.
 */
export async function showPage(
  url: string,
  options: TabOptions,
  signal: AbortSignal,
  onDisposed: () => void,
): Promise<Snapshot> {
  const tab = new Tab(options);
  const left = (): void => tab.fail(signal.reason as Error);
  try {
    signal.throwIfAborted();
    signal.addEventListener('abort', left, { once: true });
    return await tab.show(url);
  } catch (error) {
    throw error instanceof DevToolsError ? rendererError(error) : error;
  } finally {
    signal.removeEventListener('abort', left);
    void tab.dispose().then(onDisposed);
  }
}

/** A browser that does not do what it should. */
export function rendererError(cause: Error): HeadraceError {
  return new HeadraceError('HR_FETCH_RENDERER', { subject: cause.message, cause });
}

/** The contexts of a connection, by id, so that windows that pages open find their way to them. */
export class Contexts {
  readonly #tabs = new Map<string, (targetId: string) => void>();

  get size(): number {
    return this.#tabs.size;
  }

  add(contextId: string, onTarget: (targetId: string) => void): void {
    this.#tabs.set(contextId, onTarget);
  }

  delete(contextId: string): void {
    this.#tabs.delete(contextId);
  }

  /** Takes events of the browser. */
  receive(method: string, params: Fields): void {
    if (method !== 'Target.targetCreated') return;
    const { browserContextId, targetId } = membersOf(params['targetInfo']);
    if (typeof targetId === 'string' && typeof browserContextId === 'string')
      this.#tabs.get(browserContextId)?.(targetId);
  }
}

const contextsOf = new WeakMap<DevTools, Contexts>();

/** Follows the windows of a connection's pages; asked once for a connection. */
export async function watchWindows(devtools: DevTools): Promise<Contexts> {
  const contexts = new Contexts();
  contextsOf.set(devtools, contexts);
  devtools.listen('', (method, params) => contexts.receive(method, params));
  await devtools.send('Target.setDiscoverTargets', { discover: true, filter: [{ type: 'page', exclude: false }] });
  return contexts;
}

class Tab {
  readonly #options: TabOptions;
  readonly #devtools: DevTools;
  readonly #failure = Promise.withResolvers<never>();
  #failed = false;
  #contextId = '';
  #targetId = '';
  #sessionId = '';
  readonly #children = new Set<string>();
  /** The world of the probes in the present document; null: to be made. */
  #world: unknown = null;
  #isIdle = false;
  #isAlmostIdle = false;
  #navigations = 0;
  #paused = 0;
  /** The head of a document has come. */
  #hasDocument = false;
  /** The document that is shown. */
  #status = 0;

  constructor(options: TabOptions) {
    this.#options = options;
    this.#devtools = options.devtools;
    // A page may fail when nobody waits for it.
    this.#failure.promise.catch(() => undefined);
  }

  /** Ends the page with an error; no effect after the first one. */
  fail(error: Error): void {
    this.#failed = true;
    this.#failure.reject(error);
  }

  async show(url: string): Promise<Snapshot> {
    const { clock, untilMs } = this.#options;
    const late = (): void => {
      if (!this.#hasDocument)
        this.fail(new HeadraceError('HR_FETCH_TIMEOUT', { subject: 'no document in the browser' }));
    };
    const timer = clock.setTimeout(late, Math.max(0, untilMs - clock.now()));
    try {
      await this.#open();
      return await Promise.race([this.#failure.promise, this.#load(url)]);
    } finally {
      clock.clearTimeout(timer);
    }
  }

  /** Never rejects: when the browser does not answer, its connection ends, and the browser disposes of the contexts itself. */
  async dispose(): Promise<void> {
    this.#failed = true;
    contextsOf.get(this.#devtools)?.delete(this.#contextId);
    for (const sessionId of [this.#sessionId, ...this.#children])
      if (sessionId !== '') this.#devtools.forget(sessionId);
    if (this.#contextId === '') return;
    await this.#devtools
      .send('Target.disposeBrowserContext', { browserContextId: this.#contextId })
      .catch(() => undefined);
  }

  /** Not ended halfway by the client that leaves: the browser answers, or its connection is closed. */
  async #open(): Promise<void> {
    const { proxy } = this.#options;
    const context = await this.#devtools.send('Target.createBrowserContext', {
      disposeOnDetach: true,
      proxyServer: `http://${proxy.address}`,
      // Else loopback addresses would be asked directly.
      proxyBypassList: '<-loopback>',
    });
    const browserContextId = textOf(context, 'browserContextId');
    this.#contextId = browserContextId;
    const [target] = await Promise.all([
      this.#devtools.send('Target.createTarget', { url: 'about:blank', browserContextId }),
      this.#devtools.send('Browser.setDownloadBehavior', { behavior: 'deny', browserContextId }),
      // Grants nothing, and refuses the rest.
      this.#devtools.send('Browser.grantPermissions', { permissions: [], browserContextId }),
    ]);
    const targetId = textOf(target, 'targetId');
    this.#targetId = targetId;
    contextsOf.get(this.#devtools)?.add(browserContextId, (opened) => {
      if (opened !== targetId) this.#quietly('Target.closeTarget', { targetId: opened });
    });
    const attached = await this.#devtools.send('Target.attachToTarget', { targetId, flatten: true });
    this.#sessionId = textOf(attached, 'sessionId');
    this.#devtools.listen(this.#sessionId, (method, params) => this.#receive(method, params));
  }

  async #load(url: string): Promise<Snapshot> {
    const { userAgent } = this.#options;
    await Promise.all([
      this.#send('Target.setAutoAttach', { autoAttach: true, waitForDebuggerOnStart: true, flatten: true }),
      this.#send('Page.enable'),
      this.#send('Page.setLifecycleEventsEnabled', { enabled: true }),
      this.#send('Page.setInterceptFileChooserDialog', { enabled: true }),
      this.#send('Page.addScriptToEvaluateOnNewDocument', { source: REMOVE_WEBRTC, runImmediately: true }),
      this.#send('Network.enable', { maxTotalBufferSize: 0, maxResourceBufferSize: 0 }),
      this.#send('Network.setBypassServiceWorker', { bypass: true }),
      this.#send('Fetch.enable', { handleAuthRequests: true, patterns: PATTERNS }),
      this.#send('Emulation.setUserAgentOverride', { userAgent }),
      this.#send('Emulation.setDeviceMetricsOverride', VIEWPORT),
    ]);
    const { errorText } = await this.#send('Page.navigate', { url });
    if (typeof errorText === 'string' && errorText !== '')
      throw new HeadraceError('HR_FETCH_FAILED', { subject: 'not in a browser' });
    this.#hasDocument = true;
    const isSettled = await this.#settle();
    return { ...(await this.#take()), isSettled };
  }

  /** Waits until the page shows its text; false when its time is over first. */
  async #settle(): Promise<boolean> {
    const { clock, untilMs } = this.#options;
    while (!this.#failed && clock.now() < untilMs) {
      const asked = Promise.withResolvers<PageState | null>();
      const timer = clock.setTimeout(() => asked.resolve(null), untilMs - clock.now());
      this.#state().then(asked.resolve, asked.reject);
      const state = await asked.promise.finally(() => clock.clearTimeout(timer));
      if (state !== null && this.#isSettled(state)) return true;
      await this.#wait(Math.min(POLL_MS, untilMs - clock.now()));
    }
    return false;
  }

  #isSettled({ characters, isLoaded, quietMs }: PageState): boolean {
    if (isLoaded && this.#isIdle && quietMs >= QUIET_MS) return true;
    return (isLoaded || this.#isAlmostIdle) && characters >= TEXT_CHARACTERS && quietMs >= LONG_QUIET_MS;
  }

  /** How far the page is; null between two documents. Ends a page that takes too much memory. */
  async #state(): Promise<PageState | null> {
    const [value, heap] = await Promise.all([this.#evaluate(PAGE_STATE), this.#send('Runtime.getHeapUsage')]);
    const used = [heap['usedSize'], heap['embedderHeapUsedSize'], heap['backingStorageSize']];
    const bytes = used.reduce<number>((sum, part) => sum + (typeof part === 'number' ? part : 0), 0);
    if (bytes > this.#options.memoryBytes)
      throw new HeadraceError('HR_FETCH_TOO_LARGE', { subject: String(this.#options.memoryBytes) });
    const { characters, isLoaded, quietMs } = membersOf(value);
    if (typeof characters !== 'number' || typeof quietMs !== 'number') return null;
    return { characters, quietMs, isLoaded: isLoaded === true };
  }

  async #take(): Promise<Pick<Snapshot, 'html' | 'url'>> {
    const { admit, clock, maxCharacters } = this.#options;
    const late = (): void =>
      this.fail(new HeadraceError('HR_FETCH_TIMEOUT', { subject: 'the browser did not answer' }));
    const timer = clock.setTimeout(late, TAKE_MS);
    try {
      if (this.#status >= 400)
        throw new HeadraceError('HR_FETCH_FAILED', { subject: `status ${this.#status} in a browser` });
      const { html, url } = membersOf(await this.#evaluate(snapshotOf(maxCharacters)));
      if (html === null) throw new HeadraceError('HR_FETCH_TOO_LARGE', { subject: String(maxCharacters) });
      if (typeof html !== 'string' || typeof url !== 'string')
        throw new HeadraceError('HR_FETCH_FAILED', { subject: 'no document in the browser' });
      return { html, url: (await admit(url)).href };
    } finally {
      clock.clearTimeout(timer);
    }
  }

  /** The value of an expression in the world of the probes; undefined when the document changes meanwhile. */
  async #evaluate(expression: string): Promise<unknown> {
    try {
      this.#world ??= membersOf(
        await this.#send('Page.createIsolatedWorld', { frameId: this.#targetId, worldName: 'probe' }),
      )['executionContextId'];
      const answer = await this.#send('Runtime.evaluate', { expression, contextId: this.#world, returnByValue: true });
      return membersOf(answer['result'])['value'];
    } catch (error) {
      if (!(error instanceof DevToolsError) || this.#failed) throw error;
      this.#world = null;
      return undefined;
    }
  }

  #wait(delayMs: number): Promise<void> {
    return new Promise((resolve) => {
      if (delayMs <= 0) resolve();
      else this.#options.clock.setTimeout(resolve, delayMs);
    });
  }

  #send(method: string, params: Fields = {}, sessionId = this.#sessionId): Promise<Fields> {
    return this.#devtools.send(method, params, sessionId);
  }

  /** Sends a command of whose failure nobody has to hear: its page, frame or request has gone. */
  #quietly(method: string, params: Fields, sessionId = ''): void {
    this.#devtools.send(method, params, sessionId).catch(() => undefined);
  }

  #receive(method: string, params: Fields): void {
    switch (method) {
      case 'Fetch.requestPaused':
        this.#requestPaused(params, this.#sessionId);
        break;
      case 'Fetch.authRequired':
        this.#authorize(params, this.#sessionId);
        break;
      case 'Page.lifecycleEvent':
        if (params['frameId'] === this.#targetId) this.#advance(params['name']);
        break;
      case 'Page.javascriptDialogOpening':
        this.#quietly('Page.handleJavaScriptDialog', { accept: false }, this.#sessionId);
        break;
      case 'Target.attachedToTarget':
        this.#attach(params);
        break;
      case 'Inspector.targetCrashed':
      case 'Inspector.detached':
        this.fail(new HeadraceError('HR_FETCH_RENDERER', { subject: 'the page crashed' }));
        break;
    }
  }

  #advance(name: unknown): void {
    if (name === 'init') {
      this.#isIdle = false;
      this.#isAlmostIdle = false;
      this.#world = null;
    } else if (name === 'networkIdle') {
      this.#isIdle = true;
    } else if (name === 'networkAlmostIdle') {
      this.#isAlmostIdle = true;
    }
  }

  /** Frames and workers wait until they are set up; windows are closed. */
  #attach({ sessionId, targetInfo }: Fields): void {
    const { targetId, type } = membersOf(targetInfo);
    if (typeof sessionId !== 'string' || this.#failed) return;
    if (type === 'page' || this.#children.size >= MAX_CHILDREN) {
      this.#quietly('Target.closeTarget', { targetId });
      if (type !== 'page')
        this.fail(new HeadraceError('HR_FETCH_RENDERER', { subject: 'the page has too many frames' }));
      return;
    }
    this.#children.add(sessionId);
    this.#devtools.listen(sessionId, (method, params) => {
      if (method === 'Fetch.requestPaused') this.#requestPaused(params, sessionId);
      else if (method === 'Fetch.authRequired') this.#authorize(params, sessionId);
      else if (method === 'Target.attachedToTarget') this.#attach(params);
    });
    const commands: [string, Fields][] = [
      ['Target.setAutoAttach', { autoAttach: true, waitForDebuggerOnStart: true, flatten: true }],
      ['Page.addScriptToEvaluateOnNewDocument', { source: REMOVE_WEBRTC, runImmediately: true }],
      ['Fetch.enable', { handleAuthRequests: true, patterns: PATTERNS }],
      ['Emulation.setUserAgentOverride', { userAgent: this.#options.userAgent }],
      ['Runtime.runIfWaitingForDebugger', {}],
    ];
    // Not every kind of target knows all of them.
    for (const [method, params] of commands) this.#quietly(method, params, sessionId);
  }

  /** The proxy asks for the credentials of the page, once. */
  #authorize({ authChallenge, requestId }: Fields, sessionId: string): void {
    const { password, username } = this.#options.proxy;
    const isProxy = membersOf(authChallenge)['source'] === 'Proxy';
    const response = isProxy ? { response: 'ProvideCredentials', username, password } : { response: 'CancelAuth' };
    if (++this.#paused > MAX_PAUSED)
      this.fail(new HeadraceError('HR_FETCH_RENDERER', { subject: 'too many requests' }));
    else this.#quietly('Fetch.continueWithAuth', { requestId, authChallengeResponse: response }, sessionId);
  }

  #requestPaused(params: Fields, sessionId: string): void {
    const { frameId, requestId, resourceType } = params;
    if (++this.#paused > MAX_PAUSED) {
      this.fail(new HeadraceError('HR_FETCH_RENDERER', { subject: 'too many requests' }));
      return;
    }
    const go = (): void => this.#quietly('Fetch.continueRequest', { requestId }, sessionId);
    const block = (errorReason = 'BlockedByClient'): void =>
      this.#quietly('Fetch.failRequest', { requestId, errorReason }, sessionId);
    if (resourceType !== 'Document' || frameId !== this.#targetId || sessionId !== this.#sessionId) {
      block();
    } else if (params['responseStatusCode'] !== undefined) {
      if (this.#acceptsHead(params)) go();
      // Of a navigation that is aborted, the page goes on.
      else block('Aborted');
    } else if (params['responseErrorReason'] !== undefined) {
      go();
    } else {
      this.#admit(membersOf(params['request'])['url']).then(go, (error: Error) => {
        block();
        this.fail(error);
      });
    }
  }

  async #admit(url: unknown): Promise<void> {
    if (++this.#navigations > MAX_NAVIGATIONS)
      throw new HeadraceError('HR_FETCH_FAILED', { subject: 'too many redirects' });
    await this.#options.admit(String(url));
  }

  /** Whether an answer may become the document. A document that is there stays where it leads to a file. */
  #acceptsHead({ responseHeaders, responseStatusCode }: Fields): boolean {
    const status = typeof responseStatusCode === 'number' ? responseStatusCode : 0;
    const headers: Record<string, string> = {};
    if (Array.isArray(responseHeaders))
      for (const entry of responseHeaders as unknown[]) {
        const { name, value } = membersOf(entry);
        if (typeof name === 'string' && typeof value === 'string') headers[name.toLowerCase()] = value;
      }
    if (status >= 300 && status < 400) return true;
    const isFile = status < 300 && !HTML_TYPE.test(headers['content-type'] ?? 'text/html');
    if (isFile && this.#hasDocument) return false;
    this.#status = status;
    if (isChallengeHead(status, headers)) this.fail(new HeadraceError('HR_FETCH_CHALLENGE'));
    else if (isFile) this.fail(new HeadraceError('HR_FETCH_TYPE', { subject: 'in a browser' }));
    return !this.#failed;
  }
}
