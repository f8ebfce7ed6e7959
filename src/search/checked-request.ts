// Whether an engine gave a request that can be sent: it may be the embedder's own, or a module.

import { httpUrl } from '../config/units.ts';
import { EngineError, type EngineRequest } from './engine.ts';

/** The request, if it can be sent, with names of headers in lower case. */
export function checkedRequest(request: unknown): EngineRequest {
  const { body, headers, method, url } = (request ?? {}) as Readonly<Record<string, unknown>>;
  if ((method !== 'GET' && method !== 'POST') || typeof url !== 'string' || httpUrl(url) === null) throw invalid();
  const fields = Object.entries(headers ?? {}).map(([name, value]): [string, string] => {
    if (typeof value !== 'string' || !/^[\w!#$%&'*+.^`|~-]+$/.test(name) || /[^\t\x20-\x7e\x80-\xff]/.test(value))
      throw invalid();
    return [name.toLowerCase(), value];
  });
  if (body !== undefined && typeof body !== 'string' && !(body instanceof Uint8Array)) throw invalid();
  return { method, url, headers: Object.fromEntries(fields), ...(body !== undefined && { body }) };
}

/** With a cause, so that the log says what is wrong. */
function invalid(): EngineError {
  return new EngineError('invalid', { cause: new TypeError('no request that can be sent') });
}
