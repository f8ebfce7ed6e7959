// `GET /configuration` on the admin listener: every setting in force. Takes the role viewer where there are admin tokens, and is open
// where there are none; it has no secrets.

import type { SettingInForce } from '../config/in-force.ts';
import { askForToken, refusesMethod, respondJson } from './admin-exchange.ts';
import type { AdminTokens } from './admin-tokens.ts';
import type { AdminRoutes } from './admin.ts';

export interface ConfigurationRoutesOptions {
  readonly tokens: AdminTokens;
  /** Whether `POST /reload` has a file to read again. */
  readonly reloadable: boolean;
  readonly settings: () => readonly SettingInForce[];
}

export function configurationRoutes({ reloadable, settings, tokens }: ConfigurationRoutesOptions): AdminRoutes {
  return {
    answer(req, res, path) {
      if (path !== '/configuration') return false;
      if (refusesMethod(req, res, 'GET', 'HEAD')) return true;
      // Every role includes that of a viewer.
      if (tokens.any && tokens.identify(req.headers.authorization) === null) askForToken(req, res);
      else respondJson(res, 200, { reloadable, settings: settings() }, { 'cache-control': 'no-store' });
      return true;
    },
  };
}
