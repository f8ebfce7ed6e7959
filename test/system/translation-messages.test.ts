// Clients of the messages dialect, unmodified, through a gateway whose only CRN speaks chat completions alone.

import t from 'tap';
import { createGateway, type Gateway } from '../../src/gateway/gateway.ts';
import {
  CHAT_PATH,
  chatAnswer,
  chatStream,
  chunk,
  finish,
  type ScriptedChat,
  startScriptedChat,
} from '../support/scripted-chat.ts';
import { KEY, MODEL } from '../support/system.ts';

interface ChatSystem {
  readonly url: string;
  readonly gateway: Gateway;
  readonly crn: ScriptedChat;
}

async function startChatSystem(t: Parameters<typeof startScriptedChat>[0]): Promise<ChatSystem> {
  const crn = await startScriptedChat(t);
  const gateway = createGateway({
    listen: '127.0.0.1:0',
    models: { [MODEL]: { servers: [crn.url] } },
    keys: { static: [{ key: KEY, account: 'tests' }] },
    log: { level: 'silent' },
  });
  t.teardown(() => gateway.close());
  const { url } = await gateway.listen();
  await gateway.ready();
  return { url, gateway, crn };
}

t.test('the scripted CRN plays its answers one after another', async (t) => {
  const { crn, url } = await startChatSystem(t);
  crn.play(chatAnswer({ content: 'whole' }), chatStream(chunk({ content: 'stream' }), finish('stop')));
  const ask = async (): Promise<string> => {
    const response = await fetch(url + CHAT_PATH, {
      method: 'POST',
      headers: { authorization: `Bearer ${KEY}`, 'content-type': 'application/json' },
      body: JSON.stringify({ model: MODEL, messages: [] }),
    });
    return response.text();
  };
  t.match(JSON.parse(await ask()), { choices: [{ message: { content: 'whole' } }] });
  t.match(await ask(), /"stream".*\[DONE\]\n\n$/s);
  t.match(await ask(), /"stream"/, 'the last one is repeated');
});
