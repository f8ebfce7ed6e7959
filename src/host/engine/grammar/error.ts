// What is wrong with a grammar or a schema, in words for the client that sent it.

/** A grammar that cannot be used. The host answers it with 400 or 422; the message names the place. */
export class GrammarError extends Error {
  override readonly name = 'GrammarError';
}

/** A JSON schema that cannot be turned into a grammar. The message names the keyword and where it stands. */
export class SchemaError extends Error {
  override readonly name = 'SchemaError';
}
