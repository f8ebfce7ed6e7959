// Searches that the gateway runs for a model as the tool of a hosted API, as the client sees them: they stand between the texts of an
// answer, and texts cite what they have found.

/** A call of the tool. */
export interface HostedSearch {
  /** As the client knows it, with the prefix of its dialect. */
  readonly id: string;
  readonly query: string;
}

/** A page that the model opens. */
export interface HostedPage {
  /** As the client knows it, with the prefix of its dialect. */
  readonly id: string;
  readonly url: string;
  /** The text that is looked for in the page; '': the model reads the page. */
  readonly pattern: string;
}

/** A page that a search has found. */
export interface HostedSource {
  readonly url: string;
  readonly title: string;
  /** When it was published; null where nobody says it. */
  readonly age: string | null;
  /** The beginning of its text. */
  readonly excerpt: string;
  /** What the client sends back, so that the model has its text again. */
  readonly opaque: string;
}

/** Why a search found nothing (`WebSearchToolResultErrorCode` of the Messages API). */
export type HostedSearchError =
  | 'invalid_tool_input'
  | 'unavailable'
  | 'max_uses_exceeded'
  | 'too_many_requests'
  | 'query_too_long';

/** Why a page could not be opened (`WebFetchToolResultErrorCode` of the Messages API). */
export type HostedPageError =
  | 'invalid_tool_input'
  | 'url_too_long'
  | 'url_not_allowed'
  | 'url_not_in_prior_context'
  | 'url_not_accessible'
  | 'unsupported_content_type'
  | 'content_too_large'
  | 'too_many_requests'
  | 'max_uses_exceeded'
  | 'unavailable';

/** What happens in an answer beside what the model writes. */
export type HostedStep =
  /** A search begins. */
  | { readonly kind: 'search'; readonly search: HostedSearch }
  /** It has ended. `opaque`: all that it found, as the client sends it back. */
  | {
      readonly kind: 'found';
      readonly search: HostedSearch;
      readonly sources: readonly HostedSource[];
      readonly opaque: string;
      readonly error: HostedSearchError | null;
    }
  /** A page is opened. */
  | { readonly kind: 'open'; readonly page: HostedPage }
  /** It was read, or could not be. `text`: what the model was told of it. */
  | {
      readonly kind: 'opened';
      readonly page: HostedPage;
      readonly source: HostedSource | null;
      readonly text: string;
      readonly opaque: string;
      /** When it was read, ISO 8601. */
      readonly readAt: string;
      readonly error: HostedPageError | null;
    }
  /** The text that was written last cites a source. Heard in dialects whose citations are no places in a text. */
  | { readonly kind: 'cite'; readonly source: HostedSource }
  /** The text that follows is a block of its own. */
  | { readonly kind: 'break' };
