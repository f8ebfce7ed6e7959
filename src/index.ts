// The library door: re-exports only.
export type { Settings, SettingsInput } from './config/settings.ts';
export type { Mistake } from './config/load.ts';
export { type ErrorCode, type ErrorEntry, ERRORS, type ErrorSource, HeadraceError } from './errors.ts';
export {
  ConfigError,
  createGateway,
  type Gateway,
  type GatewayOptions,
  type Listening,
  type Reloaded,
} from './gateway.ts';
export type { InjectRequest, InjectResponse } from './ingress/inject.ts';
export { createHost, type Host, type HostSettings } from './host/index.ts';
