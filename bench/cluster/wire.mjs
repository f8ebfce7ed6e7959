// Sizes of what gateways send each other through the engine, in bytes: messages as RESP3 carries them, and the parts of their bodies.

/** Protocol version, instance, length and name of the topic before each body. */
const HEAD_BYTES = 20;

/** A member that got prompts: its hash, advance of its clock, number of runs. */
export const GROUP_BYTES = 6;

/** A run of blocks of a prompt: how many, advance of the clock, number of the first. */
export const ENTRY_BYTES = 4;

/** A block: the bits of its hash that the index uses. */
export const HASH_BYTES = 6;

/** A member's hash, backlog, streams and requests in flight. */
export const BACKLOG_BYTES = 9;

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
