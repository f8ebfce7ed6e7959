// Public names of the dialect module. Re-exports only.
export { type AnswerFailure, AnswerJudge, type AnswerState, choicesOf } from './answer.ts';
export { type Dialect, type DialectName, type Failure, sseEvent, tokenCount, type Usage } from './dialect.ts';
export { dialectOf, DIALECTS, errorEvent, upstreamPath, usualPath } from './dialects.ts';
export { brokenStreamEvent } from './openai.ts';
export {
  named,
  type NamedBody,
  type Scan,
  scanBody,
  type ScannedBody,
  TOO_MANY_VALUES,
  tooManyValues,
} from './body-scan.ts';
export { memberTable } from './member-table.ts';
export { tooDeep } from './json-scan.ts';
export { MAX_READ_VALUES } from './json-tape.ts';
export { chosenMembers } from './json-members.ts';
export { promptSize } from './prompt-size.ts';
export { formBounds, formWithModel, isForm, renamedForm, type ScannedForm, scanForm } from './multipart.ts';
export { contentOf, isNativePath, type NativeRequest, nativeRequest } from './native.ts';
export { type BodyEdit, dialectLimit, edited, limitEdits } from './output-limit.ts';
export { blockBytes, type PromptBlocks, promptBlocks } from './prompt-blocks.ts';
export { previousResponseId, responseIdOf } from './response-id.ts';
export {
  allItemsOf,
  arrayItemsOf,
  asForeground,
  inputItemsOf,
  inputOf,
  ITEM_REFERENCE,
  itemNameOf,
  type SocketMessage,
  socketMessageOf,
  type StateFields,
  stateFieldsOf,
  withEarlierItems,
  withInput,
} from './response-items.ts';
export {
  endingEventIn,
  endsResponse,
  endTypeOf,
  joinedResponse,
  responseDataOf,
  type ResponseEvent,
  responseEventOf,
  type ResponseParts,
  responsePartsOf,
  withMembers,
} from './response-object.ts';
export { TokenSizes } from './text-counter.ts';
export { FAILED_FINISHES, type ServerError } from './translation/chat-answer.ts';
export { type BlockKind, ChatBlocks, type ChatBlocksListener } from './translation/chat-blocks.ts';
export type {
  HostedPage,
  HostedPageError,
  HostedSearch,
  HostedSearchError,
  HostedSource,
  HostedStep,
} from './translation/hosted-search.ts';
export { CustomInput, customInputOf } from './translation/custom-input.ts';
export { emptyResponse } from './translation/response-echo.ts';
export { promptEstimate, type TokenBounds, tokenBounds } from './token-bounds.ts';
export { type Metered, usageEdit, usageIn, UsageWatch } from './usage.ts';
export {
  type AnswerTranslator,
  type Repeats,
  type TranslatedRequest,
  type Translation,
  translationOf,
} from './translation/translation.ts';
export { withoutVolatileSystem } from './volatile-system.ts';
export { membersOf, parsedJson } from '../net/json-object.ts';
