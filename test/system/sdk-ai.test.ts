// `ai` with `@ai-sdk/openai-compatible`, unmodified, through the gateway.

import { createOpenAICompatible, type OpenAICompatibleProvider } from '@ai-sdk/openai-compatible';
import { APICallError, generateText, streamText } from 'ai';
import t from 'tap';
import type { SettingsInput } from '../../src/config/settings.ts';
import type { FaultPlan } from '../../src/host/index.ts';
import { KEY, MODEL, SERVERS, startSystem, type System, until } from '../support/system.ts';

const ask = { prompt: 'Where does the water go?', maxOutputTokens: 6, maxRetries: 0 };

function provider({ url }: System, apiKey: string = KEY): OpenAICompatibleProvider {
  return createOpenAICompatible({ name: 'headrace', baseURL: `${url}/v1`, apiKey });
}

const BREAKS: Readonly<Record<string, FaultPlan>> = {
  'is reset': [{ fault: { resetAfter: 2 } }],
  'is reset in the middle of an event': [{ fault: { resetAfter: 2, partial: true } }],
  'is truncated': [{ fault: { truncateAfter: 2 } }],
  'ends cleanly without a finish': [{ fault: { endAfter: 2 } }],
};

for (const server of SERVERS) {
  const start = (t: Parameters<typeof startSystem>[0], settings: SettingsInput = {}): Promise<System> =>
    startSystem(t, { settings: { server, ...settings } });

  t.test(`${server}: generates and streams text`, async (t) => {
    const model = provider(await start(t))(MODEL);
    const whole = await generateText({ model, ...ask });
    t.equal(whole.text.split(' ').length, 6);
    const streamed = streamText({ model, ...ask });
    t.equal(await streamed.text, whole.text);
    t.equal(await streamed.finishReason, 'length');
  });

  t.test(
    `${server}: an unknown model and a bad key throw, with the message in the error object unless that is off`,
    async (t) => {
      for (const errorBodies of ['contract', 'auto'] as const) {
        const system = await start(t, { errorBodies });
        const message = errorBodies === 'contract' ? /./ : /Model 'nobody' not found/;
        await t.rejects(generateText({ model: provider(system)('nobody'), ...ask }), { statusCode: 404, message });
        const denied = errorBodies === 'contract' ? /./ : /Invalid API key/;
        const bad = provider(system, 'hr_wrong')(MODEL);
        await t.rejects(generateText({ model: bad, ...ask }), { statusCode: 401, message: denied });
      }
    },
  );

  t.test(`${server}: with every CRN gone it throws`, async (t) => {
    const system = await start(t);
    await system.host.kill();
    await until('all CRNs are down', () => system.gateway.crns().every(({ standing }) => standing === 'down'));
    const failed = generateText({ model: provider(system)(MODEL), ...ask });
    await t.rejects(failed, { statusCode: 503, message: /All servers unavailable/ });
    t.ok(APICallError.isInstance(await failed.catch((error: unknown) => error)));
  });

  for (const [how, plan] of Object.entries(BREAKS)) {
    t.test(`${server}: a stream that ${how} reports an error and no finish`, async (t) => {
      const system = await start(t);
      const model = provider(system)(MODEL);
      await system.host.setFault(plan);
      const errors: unknown[] = [];
      const streamed = streamText({
        model,
        ...ask,
        maxOutputTokens: 64,
        onError: ({ error }) => void errors.push(error),
      });
      let finished = false;
      for await (const part of streamed.fullStream) {
        if (part.type === 'finish-step' && part.finishReason !== 'error') finished = true;
      }
      t.not(errors.length, 0);
      t.notOk(finished);
    });
  }
}
