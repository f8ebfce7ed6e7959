// The head of every message between gateways: protocol version, sender, topic. What arrives is checked like the input of a stranger.
//
//   1 byte   protocol version
//   8 bytes  instance of the sender
//   1 byte   code of the topic
//   rest     body, up to 1 MiB

import { MAX_BODY_BYTES, type Topic } from './link.ts';

/** Raised when the head or a body changes so that older versions would misread them. */
export const PROTOCOL_VERSION = 2;

const CODE_OFFSET = 1 + 8;
const BODY_OFFSET = CODE_OFFSET + 1;

/** A code is never given to another topic. */
const CODES: Readonly<Record<Topic, number>> = {
  'roll-call': 1,
  acts: 2,
  keys: 3,
  placements: 4,
  snapshot: 5,
  suspensions: 6,
  shares: 7,
  limits: 8,
  cancels: 9,
};

const BY_CODE: ReadonlyMap<number, Topic> = new Map(
  Object.entries(CODES).map(([topic, code]) => [code, topic as Topic]),
);

/** The head of the messages of one sender on one topic. */
export function envelopeHead(instance: string, topic: Topic): Buffer {
  return Buffer.concat([Buffer.of(PROTOCOL_VERSION), Buffer.from(instance, 'hex'), Buffer.of(CODES[topic])]);
}

/** Why a message is ignored. `version`: of another protocol. `topic`: unknown. `invalid`: no message of ours. */
export type EnvelopeProblem = 'invalid' | 'version' | 'topic' | 'too_large';

export interface Envelope {
  readonly from: string;
  readonly topic: Topic;
  /** A view of the message. */
  readonly body: Buffer;
}

export function readEnvelope(message: Buffer): Envelope | EnvelopeProblem {
  const version = message[0];
  if (version === undefined || version === 0) return 'invalid';
  if (version !== PROTOCOL_VERSION) return 'version';
  const code = message[CODE_OFFSET];
  if (code === undefined) return 'invalid';
  if (message.length - BODY_OFFSET > MAX_BODY_BYTES) return 'too_large';
  const topic = BY_CODE.get(code);
  if (topic === undefined) return 'topic';
  return { from: message.toString('hex', 1, CODE_OFFSET), topic, body: message.subarray(BODY_OFFSET) };
}
