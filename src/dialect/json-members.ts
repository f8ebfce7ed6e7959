// Members of a JSON object in an object of their own, as they are written.

import { CHECKED_DEPTH, scanMembers, skipSpace } from './json-scan.ts';
import { found, type MemberTable } from './member-table.ts';

/** JSON text of an object with those members of the object in `body` that are in `table`, in its order, and then `more`. */
export function chosenMembers(body: Buffer, table: MemberTable, more = ''): string {
  const members = found(table);
  scanMembers(body, skipSpace(body, 0, body.length), body.length, table, members, CHECKED_DEPTH);
  const texts: string[] = [];
  for (const [place, name] of table.names.entries()) {
    const [start = -1, end] = members.spans.slice(2 * place);
    if (start >= 0) texts.push(`"${name}":${body.toString('utf8', start, end)}`);
  }
  return `{${[...texts, ...(more === '' ? [] : [more])].join(',')}}`;
}
