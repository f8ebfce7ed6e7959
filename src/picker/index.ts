// Public names of the picker module. Re-exports only.
export { createPickerServer, type Grpc, loadGrpc, type PickerServer, type TlsIdentity } from './picker-server.ts';
