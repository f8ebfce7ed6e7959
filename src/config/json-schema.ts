// The JSON Schema of the configuration file, for completion and checks in editors. A file that it accepts can still have
// mistakes; a file that it refuses has some.

import { toJSONSchema } from 'zod/mini';
import { SCHEMA } from './settings.ts';
import { JSON_SCHEMA } from './value-types.ts';

/** Text of `headrace.schema.json`. Draft 7 is what the YAML language server supports best. */
export function settingsJsonSchema(): string {
  const schema = toJSONSchema(SCHEMA.schema, { io: 'input', target: 'draft-7', metadata: JSON_SCHEMA });
  const properties = { $schema: { description: 'Path or URL of this schema.', type: 'string' }, ...schema.properties };
  const named = { ...schema, properties, title: 'Headrace configuration', description: undefined };
  return `${JSON.stringify(named, null, 2)}\n`;
}
