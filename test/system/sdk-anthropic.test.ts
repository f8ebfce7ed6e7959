// The official `@anthropic-ai/sdk`, unmodified, through the gateway, with its key as `x-api-key` and as a bearer token.

import Anthropic, { AuthenticationError, InternalServerError, NotFoundError } from '@anthropic-ai/sdk';
import t from 'tap';
import type { SettingsInput } from '../../src/config/settings.ts';
import type { FaultPlan } from '../../src/host/index.ts';
import { KEY, MODEL, SERVERS, startSystem, type System, until } from '../support/system.ts';

const ask = { model: MODEL, max_tokens: 6, messages: [{ role: 'user' as const, content: 'Where does the water go?' }] };

function client({ url }: System, options: object = { apiKey: KEY, authToken: null }): Anthropic {
  return new Anthropic({ baseURL: url, maxRetries: 0, ...options });
}

const BREAKS: Readonly<Record<string, FaultPlan>> = {
  'is reset': [{ fault: { resetAfter: 4 } }],
  'is reset in the middle of an event': [{ fault: { resetAfter: 4, partial: true } }],
  'is truncated': [{ fault: { truncateAfter: 4 } }],
  'ends cleanly without a finish': [{ fault: { endAfter: 4 } }],
};

async function thrownBy(run: () => Promise<unknown>): Promise<Error> {
  try {
    await run();
  } catch (error) {
    return error as Error;
  }
  throw new Error('succeeded');
}

function textOf(message: Anthropic.Message): string {
  return message.content.map((block) => (block.type === 'text' ? block.text : '')).join('');
}

for (const server of SERVERS) {
  const start = (t: Parameters<typeof startSystem>[0], settings: SettingsInput = {}): Promise<System> =>
    startSystem(t, { settings: { server, ...settings } });

  t.test(`${server}: messages, buffered and streamed, with either kind of key`, async (t) => {
    const system = await start(t);
    for (const keys of [
      { apiKey: KEY, authToken: null },
      { apiKey: null, authToken: KEY },
    ]) {
      const anthropic = client(system, keys);
      const whole = await anthropic.messages.create(ask);
      t.equal(textOf(whole).split(' ').length, 6);
      t.equal(whole.usage.output_tokens, 6);
      t.equal(textOf(await anthropic.messages.stream(ask).finalMessage()), textOf(whole));
      let text = '';
      for await (const event of await anthropic.messages.create({ ...ask, stream: true })) {
        if (event.type === 'content_block_delta' && event.delta.type === 'text_delta') text += event.delta.text;
      }
      t.equal(text, textOf(whole));
    }
    for (const request of system.host.requests.filter(({ method }) => method === 'POST')) {
      t.equal(request.headers.authorization, `Bearer ${KEY}`, 'the CRN is shown a bearer token either way');
    }
  });

  t.test(`${server}: an unknown model and a bad key throw, in both kinds of error body`, async (t) => {
    for (const errorBodies of ['contract', 'auto'] as const) {
      const system = await start(t, { errorBodies });
      const unknown = await thrownBy(() => client(system).messages.create({ ...ask, model: 'nobody' }));
      t.ok(unknown instanceof NotFoundError);
      t.match(unknown.message, /Model 'nobody' not found/);
      const denied = await thrownBy(() => client(system, { apiKey: 'hr_wrong', authToken: null }).messages.create(ask));
      t.ok(denied instanceof AuthenticationError);
      t.match(denied.message, /Invalid API key/);
      if (errorBodies === 'contract')
        t.strictSame((unknown as NotFoundError).error, { detail: "Model 'nobody' not found" });
      else t.match(unknown, { type: 'not_found_error' });
    }
  });

  t.test(`${server}: with every CRN gone it throws at once and does not retry`, async (t) => {
    const system = await start(t);
    await system.host.kill();
    await until('all CRNs are down', () => system.gateway.crns().every(({ standing }) => standing === 'down'));
    const anthropic = client(system, { apiKey: KEY, authToken: null, maxRetries: 5 });
    const before = performance.now();
    const error = await thrownBy(() => anthropic.messages.create(ask));
    t.ok(error instanceof InternalServerError);
    t.match(error, { status: 503, type: 'overloaded_error', message: /All servers unavailable for model atlas-27b/ });
    t.ok(performance.now() - before < 2500, 'five retries would have slept longer');
  });

  for (const [how, plan] of Object.entries(BREAKS)) {
    t.test(`${server}: a stream that ${how} throws`, async (t) => {
      const system = await start(t);
      const anthropic = client(system);
      await system.host.setFault(plan);
      const long = { ...ask, max_tokens: 64 };
      await t.rejects(anthropic.messages.stream(long).finalMessage());
      await t.rejects(async () => {
        for await (const _ of await anthropic.messages.create({ ...long, stream: true })) continue;
      });
    });
  }
}
