// `GET /configuration` on the admin listener: every setting in force. Takes the role viewer where there are admin tokens, and is open
// where there are none; it has no secrets.

import type { IncomingMessage, ServerResponse } from 'node:http';
import type { SettingInForce } from '../config/in-force.ts';
import { respondJson } from './admin-exchange.ts';
import type { AdminTokens } from './admin-tokens.ts';

export interface ConfigurationRoutesOptions {
  readonly tokens: AdminTokens;
  /** Whether `POST /reload` has a file to read again. */
  readonly reloadable: boolean;
  readonly settings: () => readonly SettingInForce[];
}

export class ConfigurationRoutes {
  readonly #options: ConfigurationRoutesOptions;
  #tokens: AdminTokens;

  constructor(options: ConfigurationRoutesOptions) {
    this.#options = options;
    this.#tokens = options.tokens;
  }

  /** Takes over other tokens. */
  configure(tokens: AdminTokens): void {
    this.#tokens = tokens;
  }

  /** Answers a request to its path; false for any other path. */
  answer(req: IncomingMessage, res: ServerResponse, path: string): boolean {
    if (path !== '/configuration') return false;
    if (req.method !== 'GET' && req.method !== 'HEAD') {
      respondJson(res, 405, { detail: 'Method Not Allowed' }, { allow: 'GET, HEAD' });
    } else if (this.#tokens.any && this.#tokens.identify(req.headers.authorization) === null) {
      // Every role includes that of a viewer.
      respondJson(res, 401, { detail: 'the admin token is required' }, { 'www-authenticate': 'Bearer' });
    } else {
      const { reloadable, settings } = this.#options;
      respondJson(res, 200, { reloadable, settings: settings() }, { 'cache-control': 'no-store' });
    }
    return true;
  }
}
