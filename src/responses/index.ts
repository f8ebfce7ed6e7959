// Public names of stored responses. Re-exports only.
export { BackgroundResponse, backgroundOf } from './background-response.ts';
export { EventFollower } from './event-follower.ts';
export { ResponseRecorder, type ResponseOrigin } from './response-recorder.ts';
export { responseOf, type ResponseStoreCommand } from './response-store.ts';
export { type ItemReader, StoredResponses, unknownResponse } from './stored-responses.ts';
export { UnreadResponses } from './unread-responses.ts';
