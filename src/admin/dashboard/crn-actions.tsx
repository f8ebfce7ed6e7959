// Actions on CRNs and on the configuration: buttons where the gateway has admin tokens, each with a confirmation.

import type { VNode } from 'preact';
import { identity, may, request } from './api.ts';
import { type Action, openAction } from './components/dialog.tsx';
import { useStore } from './store.ts';

type Verb = 'drain' | 'eject' | 'return';

const WORDS: Readonly<Record<Verb, { readonly title: string; readonly text: string; readonly done: string }>> = {
  drain: {
    title: 'Drain this CRN?',
    text: 'gets no new requests until it is returned or the gateway restarts. Requests in flight finish; conversations move to other CRNs.',
    done: 'is drained',
  },
  eject: {
    title: 'Eject this CRN?',
    text: 'gets no requests for a while and comes back through one trial request.',
    done: 'is ejected',
  },
  return: {
    title: 'Return this CRN?',
    text: 'gets requests again as soon as its probes are good.',
    done: 'is returned',
  },
};

function crnAction(verb: Verb, url: string): Action {
  const { done, text, title } = WORDS[verb];
  return {
    title,
    text: (
      <>
        <code>{url}</code> {text}
      </>
    ),
    destructive: verb !== 'return',
    fields:
      verb === 'eject'
        ? [{ name: 'for', label: 'Duration', hint: 'Such as 5m. Empty: the duration of the next automatic ejection.' }]
        : [],
    run: async (given) => {
      await request('POST', `/crns/${verb}`, { body: { url, ...given } });
      return `${url} ${done}`;
    },
  };
}

export interface CrnButtonsProps {
  readonly url: string;
  /** `drained` and `ejected` CRNs can be returned. */
  readonly word: string;
  /** Whether the gateway has admin tokens. */
  readonly enabled: boolean;
}

const NAMES: Readonly<Record<Verb, string>> = { drain: 'Drain', eject: 'Eject', return: 'Return' };

/**
 * Drain or return, and eject or return. There are always two buttons, so that the focus stays on the one that was pressed when
 * the standing changes.
 */
export function CrnButtons({ enabled, url, word }: CrnButtonsProps): VNode {
  const holder = useStore(identity);
  const disabled = !enabled || (holder !== null && holder !== undefined && !may('operator', holder));
  const button = (slot: string, verb: Verb, isOff = false): VNode => (
    <button
      key={slot}
      type="button"
      aria-label={`${NAMES[verb]} ${url}`}
      disabled={disabled || isOff}
      onClick={() => openAction(crnAction(verb, url))}
    >
      {NAMES[verb]}
    </button>
  );
  return (
    <span class="actions">
      {button('drain', word === 'drained' ? 'return' : 'drain')}
      {button('eject', word === 'ejected' ? 'return' : 'eject', word === 'drained')}
    </span>
  );
}

/** Why the buttons are disabled; null when they are not. */
export function useActionNote(enabled: boolean | undefined): string | null {
  const holder = useStore(identity);
  if (enabled === false)
    return 'Admin actions are disabled: adminToken is not set in the configuration of this gateway.';
  if (holder === null || holder === undefined || may('operator', holder)) return null;
  return `The role ${holder.role} may not steer CRNs: it takes operator.`;
}

interface Reloaded {
  readonly applied: readonly string[];
  readonly needRestart: readonly string[];
}

/** Reads the configuration file again. */
export const RELOAD: Action = {
  title: 'Reload the configuration?',
  text: 'The file is read again. A file with mistakes changes nothing.',
  run: async () => {
    const { applied, needRestart } = await request<Reloaded>('POST', '/reload');
    const now = applied.length > 0 ? `in force: ${applied.join(', ')}` : 'nothing changed';
    return `Reloaded, ${now}${needRestart.length > 0 ? `; after a restart: ${needRestart.join(', ')}` : ''}`;
  },
};
