// The forms of a request: as the client wrote it, and translated to another dialect. Each attempt sends one of them, and its answer
// is read in the dialect of that form. An answer to a translated form reaches the client translated back, and whole in every part.

import type { Dialect, TranslatedRequest, Translation } from '../dialect/index.ts';
import type { RequestLines } from './headers.ts';

/** What an attempt sends. */
export interface RequestForm {
  /** Path and query below the CRN's base URL. */
  readonly path: string;
  readonly lines: RequestLines;
  readonly body: Buffer;
  /** Bytes before `body` in its memory that the attempt that is made may write over. Default: none. */
  readonly room?: number;
  /** What the CRN is asked in; undefined on paths whose bytes are only passed on. */
  readonly dialect: Dialect | undefined;
  /** Answers that the request asks for: `choicesOf`. */
  readonly choices: number;
  /**
   * What it means when a CRN answers that it does not know the path, unless its dialects are declared. `taught`: it lacks the dialect, which
   * is remembered. `believed`: the same, for this request alone. `passed`: nothing, and the answer passes to the client.
   */
  readonly unknownPath: 'taught' | 'believed' | 'passed';
  /** Null: the client's own form, whose answers pass as they are. */
  readonly translator: FormTranslator | null;
}

/** Carries answers to a translated form back. */
export interface FormTranslator {
  readonly name: Translation['name'];
  readonly request: TranslatedRequest;
  /** Attempts whose request has not left whole: they need the memory of its body. */
  unsent: number;
}

/** A longer whole answer is not translated, since all of it is held for that. Ten thousand tokens with 20 log-probabilities each have 12 MB. */
export const MAX_TRANSLATED_BYTES: number = 16 * 1024 * 1024;

/**
 * The request in another dialect: without the query and the headers of its own. Throws `HR_REQUEST_UNTRANSLATABLE` when it cannot be carried.
 * @param own as the client wrote it
 * @param continues of the exchange
 */
export function translatedForm(own: RequestForm, translation: Translation, continues = ''): RequestForm {
  return new TranslatedForm(own, translation, continues);
}

class TranslatedForm implements RequestForm {
  readonly path: string;
  readonly lines: RequestLines;
  readonly dialect: Dialect;
  // Answers of the dialects that are translated have one choice.
  readonly choices = 1;
  readonly unknownPath = 'taught';
  readonly translator: FormTranslator;

  constructor(own: RequestForm, translation: Translation, continues: string) {
    this.path = translation.path;
    this.lines = { ...own.lines, dialect: '' };
    this.dialect = translation.to;
    this.translator = { name: translation.name, request: translation.request(own.body, { continues }), unsent: 0 };
  }

  get body(): Buffer {
    return this.translator.request.body;
  }

  get room(): number {
    // An attempt that is still being sent has its head there.
    return this.translator.unsent === 1 ? this.translator.request.room : 0;
  }
}

/** Tells of a body that the client does not get. */
const BODY_HEADERS: ReadonlySet<string> = new Set([
  'content-type',
  'content-encoding',
  'content-md5',
  'digest',
  'content-digest',
  'repr-digest',
  'etag',
]);

/** Headers of an answer whose body is translated, and which translation did that. */
export function translatedHeaders(headers: readonly string[], name: Translation['name'], type: string): string[] {
  const out = ['content-type', type, TRANSLATED_HEADER, name];
  for (let at = 0; at < headers.length; at += 2) {
    const header = headers[at] as string;
    if (!BODY_HEADERS.has(header)) out.push(header, headers[at + 1] as string);
  }
  return out;
}

/** Names the translation behind an answer. */
const TRANSLATED_HEADER = 'x-headrace-translated';
