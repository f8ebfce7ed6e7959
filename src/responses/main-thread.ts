// Names of stored responses for main threads. Ingress threads load none of it.
export { ResponseService } from './response-service.ts';
