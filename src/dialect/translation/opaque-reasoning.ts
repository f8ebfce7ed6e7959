// Reasoning as the opaque text that clients send back in place of it: `encrypted_content` of the responses dialect. It hides nothing: the
// client has the reasoning itself beside it.

/** Its length is a multiple of three, so that it is a prefix in base64 too. */
const MARK = Buffer.from('headrace reasoning').toString('base64');

export function opaqueReasoning(text: string): string {
  return MARK + Buffer.from(text).toString('base64');
}

/** The reasoning in an opaque text; undefined where it was made by somebody else. */
export function reasoningIn(opaque: string): string | undefined {
  return opaque.startsWith(MARK) ? Buffer.from(opaque.slice(MARK.length), 'base64').toString() : undefined;
}
