// The playground: a chat with the models of the gateway, as clients of the public API have it. What a model says is shown as text.

import type { ComponentChildren, TargetedKeyboardEvent, VNode } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { speak } from '../components/announcement.tsx';
import { CopyButton } from '../components/copy-button.tsx';
import { Page } from '../components/page.tsx';
import { Problem } from '../components/states.tsx';
import { Facts } from '../components/tile.tsx';
import { countText, latencyText, plural, rateText, shareText } from '../format.ts';
import {
  type Answer,
  type AttachedImage,
  readExtra,
  readTools,
  textParts,
  type ToolCall,
  type ToolResult,
  type Turn,
} from '../playground/conversation.ts';
import { DEFAULT_MAX_TOKENS, DIALECTS, type DialectName } from '../playground/dialects.ts';
import { curlOf, readModels, running, send } from '../playground/run.ts';
import {
  type Chat,
  changeDraft,
  changeSettings,
  chats,
  type Draft,
  EMPTY_DRAFT,
  type Entry,
  type Exchange,
  keepChats,
  newChat,
  type PlaygroundSettings,
  removeChat,
  setEntries,
  settings,
  shownChat,
  useDraft,
} from '../playground/session.ts';
import { CurlCommand, KeyField, publicBase, RequestLink, Tabs, useTarget } from '../playground/shared.tsx';
import { href } from '../router.ts';
import { useStore } from '../store.ts';

/** What is refused as an image: requests are limited too. */
const MOST_IMAGE_BYTES = 20 * 1024 * 1024;

export function PlaygroundView(): VNode {
  const all = useStore(chats);
  const shown = useStore(shownChat);
  const chat = all.find(({ id }) => id === shown) ?? (all[0] as Chat);
  return (
    <Page title="Playground" actions={<Tabs at="/playground" />}>
      <div class="playground">
        <RequestForm />
        <div class="conversation">
          <ChatPicker chat={chat} all={all} />
          <Conversation key={chat.id} chat={chat} />
        </div>
      </div>
    </Page>
  );
}

/** What requests ask for. */
function RequestForm(): VNode {
  const given = useStore(settings);
  const { models, problem, retry } = useModels();
  const choose = (change: Partial<PlaygroundSettings>): void => changeSettings(change);
  const isUnlisted = given.model !== '' && !models.includes(given.model);
  return (
    <form class="request" aria-label="Request" onSubmit={(event) => event.preventDefault()}>
      <KeyField onSet={retry} />
      <label>
        Model
        <select value={given.model} onChange={(event) => choose({ model: event.currentTarget.value })}>
          {models.length === 0 && given.model === '' && <option value="">No model is known</option>}
          {isUnlisted && <option value={given.model}>{given.model}</option>}
          {models.map((model) => (
            <option key={model} value={model}>
              {model}
            </option>
          ))}
        </select>
      </label>
      {problem !== null && <Problem text={`Models: ${problem}`} retry={retry} />}
      <label>
        Dialect
        <select
          value={given.dialect}
          onChange={(event) => choose({ dialect: event.currentTarget.value as DialectName })}
        >
          {DIALECTS.map(({ label, name, path }) => (
            <option key={name} value={name}>{`${label} (${path})`}</option>
          ))}
        </select>
      </label>
      <label>
        System prompt
        <textarea rows={3} value={given.system} onInput={(event) => choose({ system: event.currentTarget.value })} />
      </label>
      <div class="numbers">
        <NumberField
          label="Most tokens"
          placeholder={given.dialect === 'messages' ? String(DEFAULT_MAX_TOKENS) : 'unset'}
          value={given.maxTokens}
          set={(maxTokens) => choose({ maxTokens })}
        />
        <NumberField label="Temperature" value={given.temperature} set={(temperature) => choose({ temperature })} />
        <NumberField label="Top p" value={given.topP} set={(topP) => choose({ topP })} />
      </div>
      <label class="check">
        <input
          type="checkbox"
          checked={given.stream}
          onChange={(event) => choose({ stream: event.currentTarget.checked })}
        />
        Stream the answer
      </label>
      <details open={given.tools !== '' || given.extra !== ''}>
        <summary>Tools and further members</summary>
        <JsonField
          label="Tools as JSON"
          hint="A list in the form of any dialect, or one JSON Schema with a title."
          value={given.tools}
          set={(tools) => choose({ tools })}
          check={readTools}
        />
        <JsonField
          label="Further members of the body"
          hint={'Such as {"seed": 1}. They win over the fields above.'}
          value={given.extra}
          set={(extra) => choose({ extra })}
          check={readExtra}
        />
      </details>
    </form>
  );
}

interface Models {
  readonly models: readonly string[];
  readonly problem: string | null;
  readonly retry: () => void;
}

/** The models of the gateway; chooses the first one when none is chosen. */
function useModels(): Models {
  const [state, setState] = useState<Omit<Models, 'retry'>>({ models: [], problem: null });
  const retry = (): void => {
    readModels().then(
      (models) => {
        setState({ models, problem: null });
        if (settings.value.model === '' && models[0] !== undefined) changeSettings({ model: models[0] });
      },
      (error: unknown) => {
        const problem = error instanceof Error ? error.message : String(error);
        setState(({ models }) => ({ models, problem }));
      },
    );
  };
  useEffect(retry, []);
  return { ...state, retry };
}

interface TextFieldProps {
  readonly label: string;
  readonly value: string;
  readonly set: (value: string) => void;
}

function NumberField({
  label,
  placeholder = 'unset',
  set,
  value,
}: TextFieldProps & { readonly placeholder?: string }): VNode {
  return (
    <label>
      {label}
      <input
        inputMode="decimal"
        autocomplete="off"
        placeholder={placeholder}
        value={value}
        onInput={(event) => set(event.currentTarget.value)}
      />
    </label>
  );
}

interface JsonFieldProps extends TextFieldProps {
  readonly hint: string;
  /** Throws what is wrong. */
  readonly check: (text: string) => unknown;
}

function JsonField({ check, hint, label, set, value }: JsonFieldProps): VNode {
  const problem = problemOf(() => check(value));
  return (
    <label>
      {label}
      <textarea
        class="code"
        rows={4}
        spellcheck={false}
        aria-invalid={problem !== null}
        value={value}
        onInput={(event) => set(event.currentTarget.value)}
      />
      <small class={problem === null ? undefined : 'bad'}>{problem ?? hint}</small>
    </label>
  );
}

/** What the work throws, as a sentence; null when it does not. */
function problemOf(work: () => unknown): string | null {
  try {
    work();
    return null;
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}

function titleOf({ entries }: Chat): string {
  for (const { turn } of entries) if (turn.role === 'user' && turn.text !== '') return turn.text.slice(0, 60);
  return entries.length === 0 ? 'New conversation' : 'Conversation with an image';
}

function ChatPicker({ all, chat }: { readonly all: readonly Chat[]; readonly chat: Chat }): VNode {
  const run = useStore(running);
  return (
    <div class="picker">
      <label>
        <span class="hidden-label">Conversation of this tab</span>
        <select value={chat.id} onChange={(event) => shownChat.set(Number(event.currentTarget.value))}>
          {all.map((each) => (
            <option key={each.id} value={each.id}>
              {titleOf(each)}
            </option>
          ))}
        </select>
      </label>
      <button type="button" disabled={chat.entries.length === 0} onClick={newChat}>
        New conversation
      </button>
      <button
        type="button"
        disabled={chat.entries.length === 0 || run?.chat === chat.id}
        onClick={() => removeChat(chat.id)}
      >
        Forget
      </button>
    </div>
  );
}

function Conversation({ chat }: { readonly chat: Chat }): VNode {
  const { entries } = chat;
  const run = useStore(running);
  const [problem, setProblem] = useState<string | null>(null);
  const draft = useDraft(chat.id);
  const message = useRef<HTMLTextAreaElement>(null);
  const isRunning = run !== null;
  const last = entries.at(-1);
  useEndWords(last, run?.chat === chat.id);

  /** True when the request was sent. */
  const ask = (before: readonly Entry[], turn: Turn | null): boolean => {
    const refusal = problemOf(() => send(chat.id, before, turn));
    setProblem(refusal);
    return refusal === null;
  };
  const edit = (index: number): void => {
    const turn = entries[index]?.turn;
    if (turn?.role !== 'user') return;
    changeDraft(chat.id, { text: turn.text, images: turn.images });
    setEntries(chat.id, entries.slice(0, index));
    keepChats();
    message.current?.focus();
  };
  return (
    <>
      <ol class="turns" aria-label="Conversation">
        {entries.map((entry, index) => (
          <li key={entry.id} class={`turn ${entry.turn.role}`}>
            {entry.turn.role === 'user' && (
              <TurnHead name="You">
                <button type="button" disabled={isRunning} onClick={() => edit(index)}>
                  Edit
                </button>
              </TurnHead>
            )}
            {entry.turn.role === 'tool' && <TurnHead name="Results of tools" />}
            {entry.turn.role === 'assistant' && (
              <TurnHead name={entry.exchange?.model ?? 'Assistant'}>
                {entry === last && !isRunning && (
                  <button type="button" onClick={() => ask(entries.slice(0, -1), null)}>
                    Ask again
                  </button>
                )}
              </TurnHead>
            )}
            {entry.turn.role === 'user' && <Said text={entry.turn.text} images={entry.turn.images} />}
            {entry.turn.role === 'tool' &&
              entry.turn.results.map((result) => <Result key={result.id} result={result} />)}
            {entry.turn.role === 'assistant' && (
              <Answered
                answer={entry.turn.answer}
                exchange={entry.exchange}
                sendResults={
                  entry === last && !isRunning ? (results) => void ask(entries, { role: 'tool', results }) : null
                }
              />
            )}
          </li>
        ))}
      </ol>
      {entries.length === 0 && (
        <p class="state">
          Requests go to the public API with the key above, and count like those of any client. The conversation is kept
          in this tab only.
        </p>
      )}
      {problem !== null && <Problem text={problem} />}
      <Composer
        inputRef={message}
        draft={draft}
        change={(change) => changeDraft(chat.id, change)}
        stop={run?.stop ?? null}
        isElsewhere={run !== null && run.chat !== chat.id}
        onSend={() => {
          if (ask(entries, { role: 'user', ...draft })) changeDraft(chat.id, EMPTY_DRAFT);
        }}
      />
    </>
  );
}

/** Reads out how an answer has ended. */
function useEndWords(last: Entry | undefined, isRunning: boolean): void {
  const was = useRef(isRunning);
  useEffect(() => {
    if (was.current && !isRunning && last?.turn.role === 'assistant') {
      const { calls, error } = last.turn.answer;
      speak(
        error !== null
          ? `The answer failed: ${error}`
          : calls.length > 0
            ? 'The model calls a tool'
            : 'The answer is complete',
      );
    }
    was.current = isRunning;
  }, [isRunning]);
}

function TurnHead({ children, name }: { readonly name: string; readonly children?: ComponentChildren }): VNode {
  return (
    <div class="turn-head">
      <h2>{name}</h2>
      {children}
    </div>
  );
}

/** Text with its blocks of code. */
function Said({ images = [], text }: { readonly text: string; readonly images?: readonly AttachedImage[] }): VNode {
  return (
    <>
      {textParts(text).map((part, index) =>
        part.code ? (
          <div class="code-block" key={index}>
            <span class="code-head">
              {part.language === '' ? 'code' : part.language}
              <CopyButton text={part.text} what="code" />
            </span>
            <pre tabIndex={0}>
              <code>{part.text}</code>
            </pre>
          </div>
        ) : (
          <p class="said" key={index}>
            {part.text}
          </p>
        ),
      )}
      {images.length > 0 && (
        <ul class="images" aria-label="Images">
          {images.map((image, index) => (
            <li key={index}>
              <Thumbnail image={image} />
              {image.name}
            </li>
          ))}
        </ul>
      )}
    </>
  );
}

/** A small picture of an attached file. That of an address is not loaded: the page asks nobody but the gateway. */
function Thumbnail({ image }: { readonly image: AttachedImage }): VNode | null {
  return image.url.startsWith('data:') ? <img src={image.url} alt="" width={48} height={48} /> : null;
}

function Result({ result }: { readonly result: ToolResult }): VNode {
  return (
    <div class="call">
      <h3>
        <code>{result.name}</code>
      </h3>
      <pre tabIndex={0}>{result.output}</pre>
    </div>
  );
}

interface AnsweredProps {
  readonly answer: Answer;
  readonly exchange: Exchange | null;
  /** Null where results cannot be sent. */
  readonly sendResults: ((results: readonly ToolResult[]) => void) | null;
}

function Answered({ answer, exchange, sendResults }: AnsweredProps): VNode {
  const { calls, error, reasoning, text } = answer;
  const isRunning = exchange !== null && exchange.totalMs === null;
  const isWaiting = isRunning && text === '' && reasoning === '' && calls.length === 0;
  return (
    <div aria-busy={isRunning}>
      {reasoning !== '' && (
        <details class="reasoning">
          <summary>Reasoning, {plural(reasoning.length, 'character')}</summary>
          <p class="said">{reasoning}</p>
        </details>
      )}
      <Said text={text} />
      {isWaiting && <p class="state">Waiting for the first token…</p>}
      {calls.length > 0 && sendResults !== null && error === null ? (
        <CallForm calls={calls} onSend={sendResults} />
      ) : (
        calls.map((call, index) => <Call key={index} call={call} />)
      )}
      {error !== null && <Failure error={error} exchange={exchange} hasText={text !== '' || reasoning !== ''} />}
      {exchange !== null && exchange.totalMs !== null && <ExchangeFacts answer={answer} exchange={exchange} />}
    </div>
  );
}

function Failure({
  error,
  exchange,
  hasText,
}: Pick<AnsweredProps, 'exchange'> & { readonly error: string; readonly hasText: boolean }): VNode {
  const code = exchange?.code ?? '';
  return (
    <div class="problem" role="alert">
      <p>
        <span aria-hidden="true">▲ </span>
        {hasText ? `The answer is incomplete: ${error}` : error}
        {code !== '' && (
          <>
            {' '}
            <code>{code}</code>
          </>
        )}
      </p>
    </div>
  );
}

/** Arguments that are JSON are laid out. */
function argumentText(text: string): string {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}

function Call({ call }: { readonly call: ToolCall }): VNode {
  return (
    <div class="call">
      <h3>
        Calls <code>{call.name}</code>
      </h3>
      <pre tabIndex={0}>{argumentText(call.arguments)}</pre>
    </div>
  );
}

/** Calls of tools whose results are typed in. */
function CallForm({
  calls,
  onSend,
}: {
  readonly calls: readonly ToolCall[];
  readonly onSend: (results: readonly ToolResult[]) => void;
}): VNode {
  const [outputs, setOutputs] = useState<readonly string[]>(() => calls.map(() => ''));
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        onSend(calls.map(({ id, name }, index) => ({ id, name, output: outputs[index] ?? '' })));
      }}
    >
      {calls.map((call, index) => (
        <div key={index}>
          <Call call={call} />
          <label>
            Result of {call.name}
            <textarea
              class="code"
              rows={3}
              spellcheck={false}
              value={outputs[index]}
              onInput={(event) => {
                const { value } = event.currentTarget;
                setOutputs(outputs.map((output, at) => (at === index ? value : output)));
              }}
            />
          </label>
        </div>
      ))}
      <button type="submit" class="main">
        {calls.length === 1 ? 'Send the result' : 'Send the results'}
      </button>
    </form>
  );
}

/** Tokens a second behind the first one; null where there are too few. `isCounted`: by events, and not by the server. */
function speedOf(
  { usage }: Answer,
  { firstTokenMs, pieces, totalMs }: Exchange,
): { readonly perS: number; readonly isCounted: boolean } | null {
  const tokens = usage?.output ?? pieces;
  if (firstTokenMs === null || totalMs === null || tokens < 2 || totalMs <= firstTokenMs) return null;
  return { perS: ((tokens - 1) / (totalMs - firstTokenMs)) * 1000, isCounted: usage === null };
}

function ExchangeFacts({ answer, exchange }: { readonly answer: Answer; readonly exchange: Exchange }): VNode {
  const { attempts, costUsd, crn, firstTokenMs, predictedHit, requestId, totalMs, translation } = exchange;
  const { finish, usage } = answer;
  const speed = speedOf(answer, exchange);
  const target = useTarget();
  const curl = curlOf(publicBase(target), exchange);
  const facts: [name: string, value: ComponentChildren][] = [];
  if (firstTokenMs !== null) facts.push(['First token', latencyText(firstTokenMs)]);
  if (speed !== null) facts.push(['Tokens a second', `${rateText(speed.perS)}${speed.isCounted ? ', by events' : ''}`]);
  facts.push(['Total', latencyText(totalMs)]);
  if (usage !== null) facts.push(['Tokens', `${countText(usage.input)} in, ${countText(usage.output)} out`]);
  if (usage?.cached != null) facts.push(['Cached', `${countText(usage.cached)} of ${countText(usage.input)}`]);
  if (predictedHit !== null) facts.push(['Cached, predicted', shareText(predictedHit)]);
  if (costUsd !== null) facts.push(['Cost', `$${costUsd}`]);
  if (finish !== '') facts.push(['Ended by', finish]);
  if (crn !== '') facts.push(['CRN', <a href={href(`/crns/${encodeURIComponent(crn)}`)}>{crn}</a>]);
  if (attempts !== null && attempts > 1) facts.push(['Attempts', countText(attempts)]);
  if (translation !== '') facts.push(['Translated', translation]);
  if (requestId !== '') {
    facts.push(['Request', <RequestLink id={requestId} />]);
  }
  return (
    <>
      <Facts of={facts} />
      <CurlCommand text={curl} />
    </>
  );
}

interface ComposerProps {
  readonly inputRef: { current: HTMLTextAreaElement | null };
  readonly draft: Draft;
  readonly change: (change: Partial<Draft> | ((draft: Draft) => Partial<Draft>)) => void;
  /** Stops the request that runs; null: none does. */
  readonly stop: (() => void) | null;
  /** The request that runs belongs to another conversation. */
  readonly isElsewhere: boolean;
  readonly onSend: () => void;
}

function Composer({ change, draft, inputRef, isElsewhere, onSend, stop }: ComposerProps): VNode {
  const [problem, setProblem] = useState<string | null>(null);
  const file = useRef<HTMLInputElement>(null);
  const { images, text } = draft;
  const isEmpty = text.trim() === '' && images.length === 0;
  const attach = async (files: readonly File[]): Promise<void> => {
    const large = files.find(({ size }) => size > MOST_IMAGE_BYTES);
    setProblem(large === undefined ? null : `${large.name} is larger than 20 MiB`);
    if (large !== undefined) return;
    try {
      const added = await Promise.all(files.map(async (each) => ({ name: each.name, url: await dataUrl(each) })));
      change((now) => ({ images: [...now.images, ...added] }));
    } catch (error) {
      setProblem((error as Error).message);
    }
  };
  const addAddress = (address: string): boolean => {
    const isUrl = /^https?:\/\//i.test(address);
    setProblem(isUrl ? null : 'The address of an image begins with http:// or https://');
    if (isUrl) change({ images: [...images, { name: address, url: address }] });
    return isUrl;
  };
  const keyDown = (event: TargetedKeyboardEvent<HTMLTextAreaElement>): void => {
    if (event.key !== 'Enter' || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    if (!isEmpty && stop === null) onSend();
  };
  return (
    <form
      class="composer"
      aria-label="Message"
      onSubmit={(event) => {
        event.preventDefault();
        if (!isEmpty && stop === null) onSend();
      }}
    >
      <label>
        <span class="hidden-label">Message</span>
        <textarea
          ref={inputRef}
          rows={3}
          placeholder="Message. Enter sends, Shift and Enter begin a new line."
          value={text}
          onInput={(event) => change({ text: event.currentTarget.value })}
          onKeyDown={keyDown}
          onPaste={(event) => {
            const files = [...(event.clipboardData?.files ?? [])].filter(({ type }) => type.startsWith('image/'));
            if (files.length > 0) void attach(files);
          }}
        />
      </label>
      {images.length > 0 && (
        <AttachedImages
          images={images}
          remove={(index) => change({ images: images.filter((_, at) => at !== index) })}
        />
      )}
      {problem !== null && (
        <p class="refused" role="alert">
          {problem}
        </p>
      )}
      <div class="composer-actions">
        <input
          ref={file}
          type="file"
          accept="image/*"
          multiple
          hidden
          onChange={(event) => {
            const { currentTarget } = event;
            void attach([...(currentTarget.files ?? [])]);
            currentTarget.value = '';
          }}
        />
        <button type="button" onClick={() => file.current?.click()}>
          Attach an image
        </button>
        <ImageAddress add={addAddress} />
        {stop === null ? (
          <button type="submit" class="main" disabled={isEmpty}>
            Send
          </button>
        ) : (
          <button type="button" class="main" onClick={stop}>
            {isElsewhere ? 'Stop the other answer' : 'Stop'}
          </button>
        )}
      </div>
    </form>
  );
}

interface AttachedImagesProps {
  readonly images: readonly AttachedImage[];
  readonly remove: (index: number) => void;
}

function AttachedImages({ images, remove }: AttachedImagesProps): VNode {
  return (
    <ul class="images" aria-label="Attached images">
      {images.map((image, index) => (
        <li key={index}>
          <Thumbnail image={image} />
          <span class="name">{image.name}</span>
          <button type="button" aria-label={`Remove ${image.name}`} onClick={() => remove(index)}>
            Remove
          </button>
        </li>
      ))}
    </ul>
  );
}

/** `add` returns whether it took the address: one that it did not take stays in the field. */
function ImageAddress({ add }: { readonly add: (address: string) => boolean }): VNode {
  const [address, setAddress] = useState('');
  const submit = (): void => {
    if (add(address.trim())) setAddress('');
  };
  return (
    <span class="address">
      <label>
        <span class="hidden-label">Address of an image</span>
        <input
          type="url"
          placeholder="https://… of an image"
          value={address}
          onInput={(event) => setAddress(event.currentTarget.value)}
          onKeyDown={(event) => {
            if (event.key !== 'Enter') return;
            event.preventDefault();
            submit();
          }}
        />
      </label>
      <button type="button" disabled={address.trim() === ''} onClick={submit}>
        Add
      </button>
    </span>
  );
}

function dataUrl(file: File): Promise<string> {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(reader.result as string);
    reader.onerror = () => reject(new Error(`${file.name} could not be read`));
    reader.readAsDataURL(file);
  });
}
