// The dialog of actions: what will happen, fields, the admin token where the tab has none, and what the gateway refuses. One
// dialog serves the page; the focus returns to where it was.

import type { ComponentChildren, VNode } from 'preact';
import { useId, useLayoutEffect, useRef, useState } from 'preact/hooks';
import { type Identity, identity, problemText, signIn } from '../api.ts';
import { Store, useStore } from '../store.ts';
import { announce } from './announcement.tsx';

export interface Field {
  readonly name: string;
  readonly label: string;
  /** Default `text`. */
  readonly type?: 'text' | 'number' | 'date' | 'password' | 'checkbox';
  /** Words to choose from. */
  readonly options?: readonly string[];
  readonly value?: string;
  readonly required?: boolean;
  /** Below the field: units, examples, what empty means. */
  readonly hint?: string;
}

/** What was filled in: empty fields and unchecked boxes are left out. */
export type Given = Readonly<Record<string, string | boolean>>;

export interface Action {
  readonly title: string;
  readonly text: ComponentChildren;
  /** On the button; default: the first word of the title. */
  readonly verb?: string;
  /** It takes something away: the button says so by its colour. */
  readonly destructive?: boolean;
  readonly fields?: readonly Field[];
  /** False where the gateway has no admin tokens or the action needs none. Default true. */
  readonly needsToken?: boolean;
  /** Carries it out. Resolves with a message; or with what the dialog shows until it is closed, such as a new key. */
  readonly run: (given: Given) => Promise<string | { readonly message: string; readonly show: ComponentChildren }>;
}

const open: Store<Action | null> = new Store<Action | null>(null);

/** Asks for confirmation and carries the action out. */
export function openAction(action: Action): void {
  open.set(action);
}

/** Signs in with a token. */
export const SIGN_IN: Action = {
  title: 'Sign in',
  verb: 'Sign in',
  text: 'The token decides what you may see and do. It is kept in this tab until you sign out.',
  run: () => Promise.resolve(`Signed in as ${identity.value?.name ?? ''}, ${identity.value?.role ?? ''}`),
};

export function ActionDialog(): VNode | null {
  const action = useStore(open);
  if (action === null) return null;
  // Not another one that has been opened since.
  const close = (): void => {
    if (open.value === action) open.set(null);
  };
  return <OpenDialog key={action.title} action={action} close={close} />;
}

function givenOf(form: HTMLFormElement): Given {
  const inputs = [...form.querySelectorAll<HTMLInputElement | HTMLSelectElement>('[data-field]')];
  const all = inputs.map((input): [string, string | boolean] => [
    input.name,
    input instanceof HTMLInputElement && input.type === 'checkbox' ? input.checked : input.value.trim(),
  ]);
  return Object.fromEntries(all.filter(([, value]) => value !== '' && value !== false));
}

function OpenDialog({ action, close }: { readonly action: Action; readonly close: () => void }): VNode {
  const { fields = [], needsToken = true, text, title, verb = title.split(' ')[0] } = action;
  const box = useRef<HTMLDialogElement>(null);
  const form = useRef<HTMLFormElement>(null);
  const token = useRef<HTMLInputElement>(null);
  const [refusal, setRefusal] = useState('');
  const [isSending, setSending] = useState(false);
  const [result, setResult] = useState<ComponentChildren>(null);
  const holder = useStore(identity);
  // Asked for at the beginning, and after a token was refused.
  const [asksToken, setAsksToken] = useState(needsToken && isUnknown(holder));
  const id = useId();

  // At once: keys that follow go to the dialog.
  useLayoutEffect(() => {
    const node = box.current;
    const before = document.activeElement;
    node?.showModal();
    const first =
      form.current?.querySelector<HTMLElement>('input, select') ?? form.current?.querySelector<HTMLElement>('.main');
    first?.focus();
    return () => {
      node?.close();
      if (before instanceof HTMLElement && before.isConnected) before.focus();
    };
  }, []);

  // What had it is gone.
  useLayoutEffect(() => {
    if (result !== null) form.current?.querySelector<HTMLElement>('.choice button')?.focus();
  }, [result]);

  const send = async (): Promise<void> => {
    if (form.current === null || isSending) return;
    setSending(true);
    setRefusal('');
    try {
      if (asksToken) {
        await signIn(token.current?.value.trim() ?? '');
        setAsksToken(false);
      }
      const answer = await action.run(givenOf(form.current));
      if (typeof answer === 'string') {
        announce(answer);
        close();
        return;
      }
      announce(answer.message);
      setResult(answer.show);
    } catch (error) {
      setRefusal(problemText(error));
      if (needsToken && isUnknown(identity.value)) {
        setAsksToken(true);
        token.current?.select();
      }
    }
    setSending(false);
  };

  return (
    <dialog
      ref={box}
      aria-labelledby={`${id}-title`}
      aria-describedby={`${id}-text`}
      // What an action resolves with, such as a new key, must be shown: the dialog stays until then. Browsers close it all the same when
      // Escape is pressed twice.
      onCancel={(event) => {
        event.preventDefault();
        if (!isSending) close();
      }}
      onClose={() => {
        if (isSending) box.current?.showModal();
        else close();
      }}
    >
      <form
        ref={form}
        onSubmit={(event) => {
          event.preventDefault();
          void send();
        }}
      >
        <h2 id={`${id}-title`}>{title}</h2>
        {result === null ? (
          <>
            <p id={`${id}-text`}>{text}</p>
            {fields.map((field) => (
              <FieldInput key={field.name} field={field} />
            ))}
            {asksToken && (
              <label>
                Admin token
                <input ref={token} type="password" autocomplete="off" spellcheck={false} required />
                <small>Kept in this tab only.</small>
              </label>
            )}
          </>
        ) : (
          <div id={`${id}-text`} role="alert">
            {result}
          </div>
        )}
        <p class="refused" role="alert">
          {refusal}
        </p>
        <div class="choice">
          <button type="button" disabled={isSending} onClick={close}>
            {result === null ? 'Cancel' : 'Close'}
          </button>
          {result === null && (
            <button
              type="submit"
              class={action.destructive === true ? 'main destructive' : 'main'}
              disabled={isSending}
            >
              {verb}
            </button>
          )}
        </div>
      </form>
    </dialog>
  );
}

function isUnknown(holder: Identity | null | undefined): boolean {
  return holder === null || holder === undefined;
}

function FieldInput({ field }: { readonly field: Field }): VNode {
  const { hint, label, name, options, required = false, type = 'text', value = '' } = field;
  if (type === 'checkbox') {
    return (
      <label class="check">
        <input data-field type="checkbox" name={name} defaultChecked={value !== ''} /> {label}
      </label>
    );
  }
  return (
    <label>
      {label}
      {options === undefined ? (
        <input
          data-field
          name={name}
          // The types of JSX have one for each kind of input, but none for a choice of kinds.
          {...({ type } as { readonly type: 'text' })}
          defaultValue={value}
          required={required}
          autocomplete="off"
          spellcheck={false}
        />
      ) : (
        <select data-field name={name} defaultValue={value}>
          {options.map((option) => (
            <option key={option}>{option}</option>
          ))}
        </select>
      )}
      {hint !== undefined && <small>{hint}</small>}
    </label>
  );
}
