// A process that locks a SQLite file until it gets a message; started by `sqlite.test.ts`. Argument: path of the file.

import { once } from 'node:events';
import { DatabaseSync } from 'node:sqlite';

const connection = new DatabaseSync(process.argv[2] ?? '');
connection.exec('begin immediate');
process.send?.('locked');
await once(process, 'message');
connection.exec('commit');
connection.close();
process.disconnect();
