// Public names of stored responses. Re-exports only.
export { ResponseRecorder, type ResponseOrigin } from './response-recorder.ts';
export { ResponseService } from './response-service.ts';
export { responseOf, type ResponseStoreCommand } from './response-store.ts';
export { StoredResponses, unknownResponse } from './stored-responses.ts';
