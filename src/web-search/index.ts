// Public names of the web search module. Re-exports only.
export { type AnswerWriter, type Output, wholeAnswer } from './answer-writer.ts';
export { type HostedRequest, hostedRequestOf, mayHost, type Members } from './hosted-request.ts';
export { type LoopIo, SearchLoop } from './search-loop.ts';
