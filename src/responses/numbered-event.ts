// An event of a background response as it is sent and kept: with its number, and with this response object if it has one.

import { withMembers } from '../dialect/index.ts';

/** `json`: the data of the event; null: it has none but the response. */
export function numberedEvent(type: string, json: Buffer | null, number: number, response: string | null): string {
  const members: Record<string, string> = { sequence_number: String(number) };
  if (json === null) members['type'] = JSON.stringify(type);
  if (response !== null) members['response'] = response;
  const data = withMembers(json ?? Buffer.from('{}'), members);
  // A server may have the data on several lines.
  return `event: ${type}\ndata: ${data.toString().replaceAll(/[\r\n]/g, ' ')}\n\n`;
}
