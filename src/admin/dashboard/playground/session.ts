// What the playground keeps in this tab: the API key, what requests ask for, and the conversations. All of it lives in the session
// storage of the tab; nothing is sent but in requests of the user.

import { Store, useStore } from '../store.ts';
import type { AttachedImage, Turn } from './conversation.ts';
import type { DialectName } from './dialects.ts';

const API_KEY = 'headrace-api-key';
const SETTINGS = 'headrace-playground';
const CHATS = 'headrace-playground-chats';

/** Conversations that are kept; the oldest is dropped first. */
const MOST_CHATS = 20;

/** Characters of conversations that are kept: browsers take 5 Mi in a tab, and keys and the form need some. */
const MOST_CHARACTERS = 4 * 1024 * 1024;

/** What the form asks for, as texts: an empty one is not sent. */
export interface PlaygroundSettings {
  readonly dialect: DialectName;
  readonly model: string;
  readonly system: string;
  readonly maxTokens: string;
  readonly temperature: string;
  readonly topP: string;
  readonly stream: boolean;
  /** JSON. */
  readonly tools: string;
  readonly extra: string;
}

/** How one answer came about. Times in milliseconds since the request was sent. */
export interface Exchange {
  readonly path: string;
  readonly dialect: DialectName;
  readonly model: string;
  /** Body of the request. */
  readonly body: string;
  /** '' before the head of the answer. */
  readonly requestId: string;
  /** 0 before the head of the answer. */
  readonly status: number;
  /** Error code of the gateway; '' without one. */
  readonly code: string;
  readonly headMs: number | null;
  readonly firstTokenMs: number | null;
  /** Null while it runs. */
  readonly totalMs: number | null;
  /** Events with a part of the answer: a count of tokens where the server reports none. */
  readonly pieces: number;
  readonly crn: string;
  readonly attempts: number | null;
  readonly translation: string;
  readonly predictedHit: number | null;
  readonly costUsd: string | null;
}

export interface Entry {
  readonly id: number;
  readonly turn: Turn;
  /** Of turns of the assistant. */
  readonly exchange: Exchange | null;
}

export interface Chat {
  readonly id: number;
  readonly entries: readonly Entry[];
}

/** A message that is being written. */
export interface Draft {
  readonly text: string;
  readonly images: readonly AttachedImage[];
}

export const EMPTY_DRAFT: Draft = { text: '', images: [] };

const DEFAULTS: PlaygroundSettings = {
  ...{ dialect: 'chat', model: '', system: '', maxTokens: '', temperature: '', topP: '' },
  ...{ stream: true, tools: '', extra: '' },
};

function stored<T extends object>(name: string, preset: T): T {
  try {
    const value = JSON.parse(sessionStorage.getItem(name) ?? 'null') as Partial<T> | null;
    return value === null ? preset : Array.isArray(preset) ? (value as T) : { ...preset, ...value };
  } catch {
    // Written by another version of this page.
    return preset;
  }
}

export const apiKey: Store<string> = new Store(sessionStorage.getItem(API_KEY) ?? '');
export const settings: Store<PlaygroundSettings> = new Store(stored(SETTINGS, DEFAULTS));
/** The newest first; never empty. */
export const chats: Store<readonly Chat[]> = new Store(restoredChats());
/** Id of the conversation that is shown. */
export const shownChat: Store<number> = new Store(chats.value[0]?.id ?? 0);

let lastId = Math.max(0, ...chats.value.flatMap(({ entries, id }) => [id, ...entries.map((entry) => entry.id)]));

export function newId(): number {
  lastId++;
  return lastId;
}

function restoredChats(): readonly Chat[] {
  const found = stored<Chat[]>(CHATS, []);
  return found.length === 0 ? [{ id: 1, entries: [] }] : found;
}

/** By conversation; kept while the page is. */
const drafts: Store<ReadonlyMap<number, Draft>> = new Store<ReadonlyMap<number, Draft>>(new Map());

export function useDraft(chat: number): Draft {
  return useStore(drafts).get(chat) ?? EMPTY_DRAFT;
}

export function changeDraft(chat: number, change: Partial<Draft> | ((draft: Draft) => Partial<Draft>)): void {
  const draft = drafts.value.get(chat) ?? EMPTY_DRAFT;
  const changed = { ...draft, ...(typeof change === 'function' ? change(draft) : change) };
  drafts.set(new Map(drafts.value).set(chat, changed));
}

export function setApiKey(key: string): void {
  apiKey.set(key);
  if (key === '') sessionStorage.removeItem(API_KEY);
  else sessionStorage.setItem(API_KEY, key);
}

export function changeSettings(change: Partial<PlaygroundSettings>): void {
  settings.set({ ...settings.value, ...change });
  sessionStorage.setItem(SETTINGS, JSON.stringify(settings.value));
}

export function chatOf(id: number): Chat | undefined {
  return chats.value.find((chat) => chat.id === id);
}

/** Replaces the entries of a conversation; one that was removed meanwhile stays removed. */
export function setEntries(id: number, entries: readonly Entry[]): void {
  chats.set(chats.value.map((chat) => (chat.id === id ? { ...chat, entries } : chat)));
}

/** Shows a conversation without entries: the one that is there, or a new one. */
export function newChat(): void {
  const empty = chats.value.find(({ entries }) => entries.length === 0);
  const chat = empty ?? { id: newId(), entries: [] };
  if (empty === undefined) chats.set([chat, ...chats.value].slice(0, MOST_CHATS));
  shownChat.set(chat.id);
}

export function removeChat(id: number): void {
  const rest = chats.value.filter((chat) => chat.id !== id);
  chats.set(rest.length === 0 ? [{ id: newId(), entries: [] }] : rest);
  if (shownChat.value === id) shownChat.set(chats.value[0]?.id ?? 0);
  drafts.set(new Map([...drafts.value].filter(([chat]) => chat !== id)));
  keepChats();
}

/** Writes the conversations to the session storage, as many as it takes: images are large. */
export function keepChats(): void {
  let left = MOST_CHARACTERS;
  const texts = chats.value.filter(({ entries }) => entries.length > 0).map((chat) => JSON.stringify(chat));
  const tooMany = texts.findIndex((text) => (left -= text.length + 1) < 0);
  sessionStorage.setItem(CHATS, `[${texts.slice(0, tooMany < 0 ? texts.length : tooMany).join(',')}]`);
}
