// Sizes of what gateways send each other through the engine, in bytes: messages as RESP3 carries them, and the parts of their bodies.

/** Protocol version, instance, length and name of the topic before each body. */
const HEAD_BYTES = 20;

/** Member of a group of placements: hash of model and base URL, advance of its clock, number of blocks. */
export const GROUP_BYTES = 12;

/** What an entry costs besides its blocks. */
export const ENTRY_BYTES = 2;

/** A block: the bits of its hash that the index uses. */
export const HASH_BYTES = 6;

/** A member's backlog and requests in flight. */
export const BACKLOG_BYTES = 12;

/** Name, version, address and load of a gateway, twice a second. */
export const HEARTBEAT_BYTES = 160;

/** `PUBLISH` and a channel of usual length, with the lengths of the three words; the body follows. */
const PUBLISH_BYTES = 56;
/** A push to a subscriber: `message` and the channel with their lengths. */
const PUSH_BYTES = 50;

/** Bytes into the engine for a message with such a body, and out of it to one receiver. */
export function wireBytes(bodyBytes) {
  return { inBytes: PUBLISH_BYTES + HEAD_BYTES + bodyBytes, outBytes: PUSH_BYTES + HEAD_BYTES + bodyBytes };
}
