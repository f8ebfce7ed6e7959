// Finding servers of models: by a discovery map at a URL or in a file, by DNS, and by the EndpointSlices of Kubernetes.

export { Discovery, type SourceStatus } from './discovery.ts';
export { readDiscoveryMap } from './discovery-map.ts';
