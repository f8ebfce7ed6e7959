// All versions of the schema, oldest first. Read by `migrate.ts`.

import type { Dialect } from '../database.ts';
import { first } from './first.ts';

export interface Migration {
  readonly version: number;
  readonly name: string;
  statements(dialect: Dialect): readonly string[];
}

export const MIGRATIONS: readonly Migration[] = [first];
