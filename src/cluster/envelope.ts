// The head of every message between gateways: protocol version, sender, topic. What arrives is checked like the input of a stranger.
//
//   1 byte   protocol version
//   8 bytes  instance of the sender
//   1 byte   length of the topic, 1 to 32
//   n bytes  topic, in ASCII
//   rest     body, up to 1 MiB

import { MAX_BODY_BYTES, TOPICS, type Topic } from './link.ts';

/** Raised when bodies change so that older versions would misread them. */
export const PROTOCOL_VERSION = 1;

const INSTANCE_BYTES = 8;
const TOPIC_OFFSET = 1 + INSTANCE_BYTES;
const MAX_TOPIC_BYTES = 32;

/** The head of the messages of one sender on one topic. */
export function envelopeHead(instance: string, topic: Topic): Buffer {
  const name = Buffer.from(topic, 'latin1');
  return Buffer.concat([Buffer.of(PROTOCOL_VERSION), Buffer.from(instance, 'hex'), Buffer.of(name.length), name]);
}

/** Why a message is ignored. `version`: of another protocol. `topic`: unknown. `invalid`: no message of ours. */
export type EnvelopeProblem = 'invalid' | 'version' | 'topic' | 'too_large';

export interface Envelope {
  readonly from: string;
  readonly topic: Topic;
  /** A view of the message. */
  readonly body: Buffer;
}

const BY_NAME: ReadonlyMap<string, Topic> = new Map(TOPICS.map((topic) => [topic, topic]));

export function readEnvelope(message: Buffer): Envelope | EnvelopeProblem {
  const version = message[0];
  if (version === undefined || version === 0) return 'invalid';
  if (version !== PROTOCOL_VERSION) return 'version';
  const length = message[TOPIC_OFFSET];
  if (length === undefined || length === 0 || length > MAX_TOPIC_BYTES) return 'invalid';
  const bodyOffset = TOPIC_OFFSET + 1 + length;
  if (message.length < bodyOffset) return 'invalid';
  if (message.length - bodyOffset > MAX_BODY_BYTES) return 'too_large';
  const topic = BY_NAME.get(message.toString('latin1', TOPIC_OFFSET + 1, bodyOffset));
  if (topic === undefined) return 'topic';
  return { from: message.toString('hex', 1, TOPIC_OFFSET), topic, body: message.subarray(bodyOffset) };
}
