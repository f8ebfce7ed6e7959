// Reads and writes JSON on the admin listener. The admin token lives in the session storage of the tab and is sent as a header
// only. Addresses are relative to the page, so that a proxy may serve it below a prefix.

import { useEffect, useState } from 'preact/hooks';
import { Store } from './store.ts';

const TOKEN = 'headrace-admin-token';
const TIMEOUT_MS = 10_000;

export type Role = 'viewer' | 'operator' | 'owner';
const ROLES: readonly Role[] = ['viewer', 'operator', 'owner'];

/** The holder of the token. */
export interface Identity {
  readonly name: string;
  readonly role: Role;
}

/** The holder of the token of this tab; null without one; undefined until it is known. */
export const identity: Store<Identity | null | undefined> = new Store(tokenOf() === null ? null : undefined);

/** Whether polling is paused. */
export const paused: Store<boolean> = new Store(false);

/** Whether the holder of the token has a role or one above it. */
export function may(role: Role, holder: Identity | null | undefined = identity.value): boolean {
  return holder !== null && holder !== undefined && ROLES.indexOf(holder.role) >= ROLES.indexOf(role);
}

/** A refusal by the admin listener; the message begins with the status. */
export class ApiError extends Error {
  readonly status: number;

  constructor(status: number, message: string) {
    super(`${status}: ${message}`);
    this.status = status;
  }
}

export interface RequestOptions {
  readonly body?: object | undefined;
  readonly signal?: AbortSignal | undefined;
  /** Instead of the token of the tab. */
  readonly token?: string | undefined;
  /** Longest wait for the answer; default 10 s. */
  readonly timeoutMs?: number;
}

function tokenOf(): string | null {
  return sessionStorage.getItem(TOKEN);
}

/** Headers that identify the holder of a token or an API key. Throws for one that no header holds, such as a shortened one with its dots. */
export function bearer(secret: string): Record<string, string> {
  if (/^[\x21-\x7e]+$/.test(secret)) return { authorization: `Bearer ${secret}` };
  throw new ApiError(401, 'tokens and keys have no such characters or spaces: copy all of it again');
}

/** Those of the token; none without a token. */
function authorization(token: string | null = tokenOf()): Record<string, string> {
  return token === null ? {} : bearer(token);
}

/** Address of a path of the admin listener, relative to the page. */
export function urlOf(path: string): string {
  return `.${path}`;
}

/** Sends a request and resolves with the JSON of its answer. Rejects with an ApiError for other statuses than 2xx. */
export async function request<T>(method: string, path: string, options: RequestOptions = {}): Promise<T> {
  const { body, signal, timeoutMs = TIMEOUT_MS, token = tokenOf() } = options;
  const timeout = AbortSignal.timeout(timeoutMs);
  const response = await fetch(urlOf(path), {
    method,
    signal: signal === undefined ? timeout : AbortSignal.any([signal, timeout]),
    headers: {
      ...authorization(token),
      ...(body !== undefined && { 'content-type': 'application/json' }),
    },
    ...(body !== undefined && { body: JSON.stringify(body) }),
  });
  const text = await response.text();
  if (response.ok) return JSON.parse(text) as T;
  if (response.status === 401) refused(token);
  throw new ApiError(response.status, detailOf(text));
}

/** Reads a document. */
export function read<T>(path: string, signal?: AbortSignal): Promise<T> {
  return request<T>('GET', path, { signal });
}

/** Reads a text, such as CSV, with the headers of its answer. Rejects as `request` does. */
export async function readText(path: string): Promise<{ readonly text: string; readonly headers: Headers }> {
  const token = tokenOf();
  const response = await fetch(urlOf(path), {
    headers: authorization(token),
    signal: AbortSignal.timeout(TIMEOUT_MS),
  });
  const text = await response.text();
  if (response.ok) return { text, headers: response.headers };
  if (response.status === 401) refused(token);
  throw new ApiError(response.status, detailOf(text));
}

interface Mistake {
  readonly loc: readonly (string | number)[];
  readonly msg: string;
}

/** What an answer says of its refusal. */
function detailOf(text: string): string {
  try {
    const { detail } = JSON.parse(text) as { detail: string | readonly Mistake[] };
    if (typeof detail === 'string') return detail;
    return detail.map(({ loc, msg }) => [...loc.slice(1), msg].join(' ')).join('; ');
  } catch {
    return text.slice(0, 200) || 'no explanation was given';
  }
}

/** A message for what a request was rejected with. */
export function problemText(error: unknown): string {
  if (error instanceof ApiError) return error.message;
  return `the gateway does not answer (${error instanceof Error ? error.message : String(error)})`;
}

/** Keeps a token for this tab, when the gateway knows it. */
export async function signIn(token: string): Promise<Identity> {
  const holder = await request<Identity>('GET', '/whoami', { token });
  sessionStorage.setItem(TOKEN, token);
  identity.set(holder);
  return holder;
}

/** A token is not taken any more. One that was entered meanwhile stays. */
function refused(token: string | null): void {
  if (token === tokenOf()) forgetToken();
}

function forgetToken(): void {
  sessionStorage.removeItem(TOKEN);
  identity.set(null);
}

/** Forgets the token and loads the page again: nothing that the token has shown stays in it. */
export function signOut(): void {
  forgetToken();
  location.reload();
}

/** How long after a gateway has not said who holds the token it is asked again. */
const RESTORE_MS = 2000;

/** Finds out who holds the token of the tab. A gateway that does not answer is asked again: it may be starting. */
export async function restoreIdentity(): Promise<void> {
  const token = tokenOf();
  if (token === null) return;
  try {
    const holder = await request<Identity>('GET', '/whoami', { token });
    if (token === tokenOf()) identity.set(holder);
  } catch (error) {
    // The gateway has no admin tokens any more.
    if (error instanceof ApiError && error.status === 403) refused(token);
    // Else the token was refused, or the user has signed in.
    if (identity.value === undefined) setTimeout(() => void restoreIdentity(), RESTORE_MS);
  }
}

/** A document that is read again and again. */
export interface Polled<T> {
  /** The last one read; undefined before the first. */
  readonly data: T | undefined;
  /** The one before. */
  readonly previous: T | undefined;
  /** Why the last reading failed; null when it did not. */
  readonly error: string | null;
  /** Reads it at once. */
  readonly refresh: () => void;
}

/** Reads one document while components show it, the page is visible, and polling is not paused. */
class Poll<T> {
  readonly state: Store<Polled<T>>;
  readonly #path: string;
  readonly #intervalMs: number;
  #users = 0;
  #offPause: () => void = () => undefined;
  #timer: number | undefined;
  #running: AbortController | null = null;

  constructor(path: string, intervalMs: number) {
    this.#path = path;
    this.#intervalMs = intervalMs;
    const refresh = (): void => void this.#read();
    this.state = new Store({ data: undefined, previous: undefined, error: null, refresh });
  }

  /** Begins for its first user; the function that is returned ends it with its last one. */
  acquire(): () => void {
    this.#users++;
    if (this.#users === 1) {
      this.#offPause = paused.subscribe(this.#resume);
      document.addEventListener('visibilitychange', this.#resume);
      void this.#read();
    }
    return () => {
      this.#users--;
      if (this.#users > 0) return;
      this.#offPause();
      document.removeEventListener('visibilitychange', this.#resume);
      clearTimeout(this.#timer);
      this.#running?.abort();
      polls.delete(this.#path);
    };
  }

  readonly #resume = (): void => {
    clearTimeout(this.#timer);
    if (this.#users > 0 && !document.hidden && !paused.value) void this.#read();
  };

  async #read(): Promise<void> {
    clearTimeout(this.#timer);
    if (this.#running !== null) return;
    this.#running = new AbortController();
    const { signal } = this.#running;
    try {
      const data = await read<T>(this.#path, signal);
      this.state.set({ ...this.state.value, data, previous: this.state.value.data, error: null });
    } catch (error) {
      if (signal.aborted) return;
      this.state.set({ ...this.state.value, error: problemText(error) });
    }
    this.#running = null;
    if (this.#users > 0 && !document.hidden && !paused.value) {
      this.#timer = window.setTimeout(() => void this.#read(), this.#intervalMs);
    }
  }
}

const polls = new Map<string, Poll<never>>();

function pollOf<T>(path: string, intervalMs: number): Poll<T> {
  const known = polls.get(path) as unknown as Poll<T> | undefined;
  if (known !== undefined) return known;
  const poll = new Poll<T>(path, intervalMs);
  polls.set(path, poll as unknown as Poll<never>);
  return poll;
}

const NOTHING: Polled<never> = { data: undefined, previous: undefined, error: null, refresh: () => undefined };

/** A document of the admin listener, read now and then every `intervalMs`; components that name the same path share it. */
export function usePolled<T>(path: string, intervalMs: number): Polled<T> {
  const [shown, setShown] = useState<{ readonly path: string; readonly state: Polled<T> }>({ path, state: NOTHING });
  useEffect(() => {
    const poll = pollOf<T>(path, intervalMs);
    const show = (): void => setShown({ path, state: poll.state.value });
    const off = poll.state.subscribe(show);
    const release = poll.acquire();
    show();
    return () => {
      off();
      release();
    };
  }, [path, intervalMs]);
  return shown.path === path ? shown.state : NOTHING;
}
