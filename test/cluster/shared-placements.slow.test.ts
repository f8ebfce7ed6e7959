// Three gateways with memory of their own in front of three hosts, siblings through a real Redis or Valkey: a prompt that one has sent
// somewhere goes there from the others, and from one that starts later.

import t from 'tap';
import type { RequestExplanation } from '../../src/api/explain.ts';
import { readAffinity } from '../../src/routing/index.ts';
import { type Member, startMember, TOKEN } from '../support/cluster-member.ts';
import { startRedis } from '../support/redis.ts';
import { KEY, MODEL, startHosts, until } from '../support/system.ts';

const bodyOf = (topic: number): string => {
  const content = `Report ${topic} on the water levels of the river ${topic}. `.repeat(200);
  return JSON.stringify({ model: MODEL, max_tokens: 1, messages: [{ role: 'user', content }] });
};

/** Bytes of a prompt that a gateway takes a CRN to hold. */
async function held({ adminUrl }: Member, topic: number, crn: string): Promise<number> {
  const response = await fetch(`${adminUrl}/explain?path=/v1/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${TOKEN}` },
    body: bodyOf(topic),
  });
  const { crns } = (await response.json()) as RequestExplanation;
  return crns.find((each) => each.crn === crn)?.matchedBytes ?? -1;
}

/** Sends a prompt without a cookie; resolves with the CRN that the answer's cookie names. */
async function send(gateway: Member, topic: number): Promise<string> {
  const response = await fetch(`${gateway.url}/v1/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${KEY}`, 'content-type': 'application/json' },
    body: bodyOf(topic),
  });
  await response.text();
  const value = /preferred_instances=([^;]+)/.exec(response.headers.get('set-cookie') ?? '')?.[1];
  return readAffinity(value).get(MODEL) ?? `${response.status}`;
}

async function siblings(gateway: Member): Promise<unknown> {
  const health = (await (await fetch(`${gateway.url}/health`)).json()) as { cluster?: { gateways?: number } };
  return health.cluster?.gateways;
}

t.test('a prompt goes to the same CRN from every gateway, and from one that starts later', async (t) => {
  const redis = await startRedis();
  t.teardown(() => redis.stop());
  const hosts = await startHosts(t, [{}, {}, {}]);
  const gateways = await Promise.all([1, 2, 3].map(() => startMember(t, hosts, redis)));
  for (const gateway of gateways) await until('all are in the roll call', async () => (await siblings(gateway)) === 3);
  const chosen: string[] = [];
  for (let topic = 0; topic < 12; topic++) chosen.push(await send(gateways[topic % 3] as Member, topic));
  t.ok(new Set(chosen).size > 1, 'prompts are spread');
  const knows = async (gateway: Member): Promise<boolean> => {
    for (const [topic, crn] of chosen.entries()) if ((await held(gateway, topic, crn)) <= 7000) return false;
    return true;
  };
  for (const gateway of gateways) await until('it knows where the prompts went', () => knows(gateway));
  for (let topic = 0; topic < 12; topic++)
    for (const gateway of gateways) t.equal(await send(gateway, topic), chosen[topic], `prompt ${topic}`);
  const late = await startMember(t, hosts, redis);
  await until('it knows where the prompts went before it started', () => knows(late));
  for (let topic = 0; topic < 12; topic++) t.equal(await send(late, topic), chosen[topic], `prompt ${topic}, late`);
});
