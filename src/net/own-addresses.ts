// The addresses of this machine.

import { type NetworkInterfaceInfo, networkInterfaces } from 'node:os';

/** None where the system refuses to tell them, as systemd does to a unit whose `RestrictAddressFamilies` lacks `AF_NETLINK`. */
export function ownAddresses(): readonly NetworkInterfaceInfo[] {
  try {
    return Object.values(networkInterfaces()).flatMap((each) => each ?? []);
  } catch {
    return [];
  }
}
