// The connection to one browser: opened when a page needs it, probed before it is used, and opened again after it broke, with growing
// pauses. The probe makes sure that requests of pages go through the proxy, loopback addresses too, and that WebRTC does not go past it:
// a browser that fails it is not used.

import type { Clock } from '../../actor/index.ts';
import { membersOf } from '../../net/json-object.ts';
import { connectDevTools, type DevTools, DevToolsError, textOf } from './devtools.ts';
import { type PageProxy, PROBE_ORIGIN } from './guarding-proxy.ts';
import { PROBE_SCRIPT } from './page-scripts.ts';
import { watchWindows } from './tab.ts';

export interface BrowserOptions {
  /** A secret: its query may hold a token. */
  readonly url: string;
  readonly clock: Clock;
  /** Longest wait for a connection, and for the answer to a command of the browser itself. */
  readonly timeoutMs: number;
  /** Opens a proxy for the probe; the address is how the browser reaches it. */
  readonly openProxy: () => Promise<{ readonly proxy: PageProxy; readonly address: string }>;
  /** Called with each connection that works, and with each failure; the reason holds no secret. */
  readonly onState: (state: BrowserState, reason: string) => void;
}

export type BrowserState = 'connected' | 'away';

const FIRST_PAUSE_MS = 250;
const LONGEST_PAUSE_MS = 30_000;

/** Keeps a browser from sending UDP past its proxy: Chromium reads the first flag, its headless shell the second. */
export const WEBRTC_FLAGS = [
  '--webrtc-ip-handling-policy=disable_non_proxied_udp',
  '--force-webrtc-ip-handling-policy=disable_non_proxied_udp',
] as const;

export class Browser {
  readonly #options: BrowserOptions;
  #connection: Promise<DevTools> | null = null;
  #devtools: DevTools | null = null;
  #pauseMs = 0;
  #retryMs = -Infinity;
  #problem = '';
  #closed = false;
  /** Connections that were opened and passed the probe. */
  connects = 0;

  constructor(options: BrowserOptions) {
    this.#options = options;
  }

  get isConnected(): boolean {
    return this.#devtools !== null;
  }

  /** Rejects with a `DevToolsError`, at once where the last attempt has just failed. */
  connect(): Promise<DevTools> {
    if (this.#closed) return Promise.reject(new DevToolsError('the browser is not used any more'));
    if (this.#connection !== null) return this.#connection;
    if (this.#options.clock.now() < this.#retryMs) return Promise.reject(new DevToolsError(this.#problem));
    this.#connection = this.#open();
    return this.#connection;
  }

  close(): void {
    this.#closed = true;
    this.#devtools?.close('the browser is not used any more');
  }

  async #open(): Promise<DevTools> {
    const { clock, onState, timeoutMs, url } = this.#options;
    let devtools: DevTools | null = null;
    const onClose = (reason: string): void => {
      // A connection that has not been probed is reported below.
      if (this.#devtools !== devtools || devtools === null) return;
      this.#devtools = null;
      this.#connection = null;
      if (!this.#closed) onState('away', reason);
    };
    try {
      devtools = await connectDevTools({ url, clock, timeoutMs, onClose });
      await watchWindows(devtools);
      await this.#probe(devtools);
    } catch (error) {
      devtools?.close('it is not used');
      this.#connection = null;
      this.#problem = error instanceof DevToolsError ? error.message : 'its proxy failed';
      this.#pauseMs = Math.min(LONGEST_PAUSE_MS, Math.max(FIRST_PAUSE_MS, 2 * this.#pauseMs));
      this.#retryMs = clock.now() + this.#pauseMs;
      onState('away', this.#problem);
      throw error;
    }
    if (this.#closed) {
      devtools.close('the browser is not used any more');
      throw new DevToolsError('the browser is not used any more');
    }
    this.#devtools = devtools;
    this.#pauseMs = 0;
    this.connects++;
    onState('connected', '');
    return devtools;
  }

  async #probe(devtools: DevTools): Promise<void> {
    const { clock, openProxy, timeoutMs } = this.#options;
    const { address, proxy } = await openProxy();
    const late = clock.setTimeout(() => devtools.close('the probe took too long'), timeoutMs);
    try {
      const context = await devtools.send('Target.createBrowserContext', {
        disposeOnDetach: true,
        proxyServer: `http://${address}`,
        proxyBypassList: '<-loopback>',
      });
      const browserContextId = textOf(context, 'browserContextId');
      const target = await devtools.send('Target.createTarget', { url: 'about:blank', browserContextId });
      const targetId = textOf(target, 'targetId');
      const attached = await devtools.send('Target.attachToTarget', { targetId, flatten: true });
      const sessionId = textOf(attached, 'sessionId');
      devtools.listen(sessionId, (method, { requestId }) => {
        const { password, username } = proxy;
        const authChallengeResponse = { response: 'ProvideCredentials', username, password };
        const isAuth = method === 'Fetch.authRequired';
        if (isAuth)
          devtools.send('Fetch.continueWithAuth', { requestId, authChallengeResponse }, sessionId).catch(ignore);
        if (method === 'Fetch.requestPaused')
          devtools.send('Fetch.continueRequest', { requestId }, sessionId).catch(ignore);
      });
      await devtools.send('Fetch.enable', { handleAuthRequests: true }, sessionId);
      const { errorText } = await devtools.send('Page.navigate', { url: `${PROBE_ORIGIN}/` }, sessionId);
      if (typeof errorText === 'string' && errorText !== '')
        throw new DevToolsError(`it does not reach the proxy at ${address}`);
      const script = { expression: PROBE_SCRIPT, awaitPromise: true, returnByValue: true };
      const { result } = await devtools.send('Runtime.evaluate', script, sessionId);
      const answer = membersOf(result)['value'];
      devtools.forget(sessionId);
      await devtools.send('Target.disposeBrowserContext', { browserContextId });
      const { refused, requests } = proxy.counts();
      if (requests < 2 || refused < 1) throw new DevToolsError('it does not send all requests through the proxy');
      if (answer !== 'silent' && answer !== 'absent')
        throw new DevToolsError(`it sends UDP past the proxy; start it with ${WEBRTC_FLAGS.join(' ')}`);
    } finally {
      clock.clearTimeout(late);
      proxy.close();
    }
  }
}

/** The connection of a command that fails is closed, or its page has gone: the probe hears of it. */
function ignore(): void {}
