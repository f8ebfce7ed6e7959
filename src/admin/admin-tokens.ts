// Who may use the admin interface: tokens with a name and a role, known by their SHA-256. `adminToken` is an owner.

import { createHash, timingSafeEqual } from 'node:crypto';
import type { IncomingMessage } from 'node:http';

/** `viewer` reads; `operator` also runs accounts, keys and servers; `owner` also moves money. Each may what the one before may. */
export const ADMIN_ROLES = ['viewer', 'operator', 'owner'] as const;
export type AdminRole = (typeof ADMIN_ROLES)[number];

export interface AdminIdentity {
  readonly name: string;
  readonly role: AdminRole;
}

/** The settings that name tokens. */
export interface AdminTokenSettings {
  readonly adminToken: string | null;
  /** `sha256`: of the token, in hex. */
  readonly adminTokens: readonly (AdminIdentity & { readonly sha256: string })[];
}

/** Name of the holder of `adminToken` in the log of acts. */
const OWNER: AdminIdentity = { name: 'adminToken', role: 'owner' };

/** Whether a role includes another. */
export function isAllowed(role: AdminRole, needed: AdminRole): boolean {
  return ADMIN_ROLES.indexOf(role) >= ADMIN_ROLES.indexOf(needed);
}

export function hashToken(token: string): Buffer {
  return createHash('sha256').update(token).digest();
}

interface KnownToken {
  readonly identity: AdminIdentity;
  readonly hash: Buffer;
}

/** The tokens of the settings in force. */
export class AdminTokens {
  #known: readonly KnownToken[] = [];

  constructor(settings: AdminTokenSettings) {
    this.configure(settings);
  }

  /** Takes over other settings. */
  configure({ adminToken, adminTokens }: AdminTokenSettings): void {
    const named = adminTokens.map(({ name, role, sha256 }) => ({
      identity: { name, role },
      hash: Buffer.from(sha256, 'hex'),
    }));
    this.#known = adminToken === null ? named : [{ identity: OWNER, hash: hashToken(adminToken) }, ...named];
  }

  /** False: nobody may use what needs a token. */
  get any(): boolean {
    return this.#known.length > 0;
  }

  /**
   * Who sends a value of `Authorization` (RFC 6750, section 2.1); null for a token that is missing or unknown. All tokens are
   * compared, each in constant time, so that the time says nothing about them.
   */
  identify(authorization: string | undefined): AdminIdentity | null {
    const [, given] = /^bearer +(\S+) *$/i.exec(authorization ?? '') ?? [];
    if (given === undefined) return null;
    const hash = hashToken(given);
    let found: AdminIdentity | null = null;
    for (const known of this.#known) if (timingSafeEqual(known.hash, hash)) found ??= known.identity;
    return found;
  }
}

/** Where an act comes from, for the log of acts. */
export function peerOf(req: IncomingMessage): string {
  return `http ${req.socket.remoteAddress ?? ''}`.trimEnd();
}
