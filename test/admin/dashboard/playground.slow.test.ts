// The playground in a real browser, in front of a CRN that plays what a test scripts: chats with tools, images and reasoning, streams
// that are stopped and that break, refusals, search and fetch.

import { mkdirSync, writeFileSync } from 'node:fs';
import type { ServerResponse } from 'node:http';
import { join } from 'node:path';
import type { Locator, Page } from 'playwright-core';
import t, { type Test } from 'tap';
import type { SettingsInput } from '../../../src/config/settings.ts';
import { createGateway } from '../../../src/gateway/gateway.ts';
import { checkView, focusedName, openPage, startBrowser, tabTo } from '../../support/browser.ts';
import type { Answer } from '../../support/fake-engine.ts';
import { bearer, endow, openTestLedger, PRICING } from '../../support/ledger-fixture.ts';
import {
  CHAT_PATH,
  chatAnswer,
  chatStream,
  chunk,
  eventOf,
  finish,
  startScriptedChat,
  type ScriptedChat,
  usageChunk,
} from '../../support/scripted-chat.ts';
import { KEY, MODEL, settingsFor, until } from '../../support/system.ts';
import { temporaryFolder } from '../../support/temporary-folder.ts';

const OWNER = 'sesame';
const HOSTILE = '<img src=x onerror=window.hit=1>';
const PHONE = { viewport: { width: 360, height: 740 } };
const WEATHER = { name: 'weather', parameters: { type: 'object', properties: { place: { type: 'string' } } } };

startBrowser(t);

interface Running {
  readonly url: string;
  readonly adminUrl: string;
  readonly crn: ScriptedChat;
}

async function start(t: Test, settings: SettingsInput = {}): Promise<Running> {
  const crn = await startScriptedChat(t);
  crn.play(chatAnswer({ content: 'Nothing was scripted.' }));
  const gateway = createGateway({
    ...settingsFor([], { admin: '127.0.0.1:0', adminToken: OWNER }),
    models: { [MODEL]: { servers: [crn.url], pricing: PRICING }, other: { servers: [crn.url] } },
    ...settings,
  });
  t.teardown(() => gateway.close());
  const { adminUrl, url } = await gateway.listen();
  await gateway.ready();
  return { url, adminUrl: adminUrl ?? '', crn };
}

/** Opens the playground with an API key. */
async function open(
  t: Test,
  { adminUrl }: Running,
  options: Parameters<typeof openPage>[2] = {},
  expected?: RegExp,
  key: string = KEY,
): Promise<Page> {
  const page = await openPage(t, `${adminUrl}/#/playground`, options, expected);
  await page.getByLabel('API key').fill(key);
  await until('models', async () => (await modelField(page).inputValue()) === MODEL);
  return page;
}

const modelField = (page: Page): Locator => page.getByRole('combobox', { name: 'Model' });
const message = (page: Page): Locator => page.getByRole('textbox', { name: 'Message' });

async function say(page: Page, text: string): Promise<void> {
  await message(page).fill(text);
  await page.keyboard.press('Enter');
}

/** The last turn of the conversation. */
const lastTurn = (page: Page): Locator => page.locator('.turn').last();

/** Waits until the answer to the last message has ended. */
async function ended(page: Page): Promise<void> {
  await page.getByRole('button', { name: 'Send', exact: true }).waitFor();
}

async function textOf(locator: Locator, text: RegExp): Promise<void> {
  let seen = '';
  await until(String(text), async () => {
    seen = (await locator.textContent()) ?? '';
    return text.test(seen);
  }).catch((error: unknown) => {
    throw new Error(`${String(error)}; it says ${seen}`);
  });
}

/** A stream that a test continues by hand. */
function held(): { readonly answer: Answer; readonly stream: Promise<ServerResponse> } {
  const { promise, resolve } = Promise.withResolvers<ServerResponse>();
  const answer: Answer = (_, response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    resolve(response);
  };
  return { answer, stream: promise };
}

const USAGE = usageChunk({ prompt_tokens: 20, completion_tokens: 9, prompt_tokens_details: { cached_tokens: 12 } });

t.test('a chat streams, is text whatever it says, and tells how it came about', async (t) => {
  const running = await start(t);
  const { crn } = running;
  const page = await open(t, running);
  const { answer, stream } = held();
  crn.play(answer);
  await page.getByLabel('System prompt').fill('Be brief.');
  await page.getByLabel('Temperature').fill('0.5');
  await say(page, `Hello ${HOSTILE}`);
  const response = await stream;
  await textOf(lastTurn(page), /Waiting for the first token/);
  response.write(
    eventOf(chunk({ reasoning_content: `Think ${HOSTILE}` })) + eventOf(chunk({ content: `${HOSTILE}\n\n` })),
  );
  await textOf(lastTurn(page).locator('.said').last(), /^<img/);
  t.equal(await page.getByRole('button', { name: 'Stop' }).isVisible(), true, 'while it runs');
  t.equal(await lastTurn(page).getByText('Think').isVisible(), false, 'reasoning is folded');
  response.write(eventOf(chunk({ content: '```html\n<b>bold</b>\n```\nDone.' })));
  response.end([finish('stop'), USAGE].map(eventOf).join('') + eventOf('data: [DONE]\n\n'));
  await ended(page);
  t.equal(await lastTurn(page).locator('pre code').first().textContent(), '<b>bold</b>');
  t.equal(await page.locator('img[src="x"], .turn b').count(), 0);
  t.equal(await page.evaluate('window.hit'), undefined);
  await lastTurn(page).getByText('Reasoning').click();
  t.equal(await lastTurn(page).getByText('Think').isVisible(), true);
  await textOf(
    lastTurn(page).locator('.facts'),
    /First token[\d.]+ m?s.*Tokens20 in, 9 out.*Cached12 of 20.*Ended bystop/,
  );
  await textOf(lastTurn(page).locator('.facts'), new RegExp(`CRN${crn.url}`));
  const { headers } = crn.last(CHAT_PATH);
  const link = lastTurn(page).getByRole('link', { name: String(headers['x-request-id']) });
  t.equal(await link.getAttribute('href'), `#/requests?q=${String(headers['x-request-id'])}`);
  t.match(crn.last(CHAT_PATH).body, {
    ...{ model: MODEL, stream: true, temperature: 0.5 },
    messages: [
      { role: 'system', content: 'Be brief.' },
      { role: 'user', content: `Hello ${HOSTILE}` },
    ],
  });

  await lastTurn(page).getByText('As a curl command').click();
  const command = (await lastTurn(page).locator('.curl pre').textContent()) ?? '';
  t.ok(
    command.startsWith(
      `curl -N '${running.url}/v1/chat/completions' \\\n  -H "authorization: Bearer $HEADRACE_API_KEY"`,
    ),
    command,
  );
  t.notMatch(command, KEY);

  crn.play(chatAnswer({ content: 'Whole.' }));
  await page.getByLabel('Stream the answer').uncheck();
  await say(page, 'And now?');
  await textOf(lastTurn(page), /Whole\..*Tokens9 in, 5 out/);
  const { body } = crn.last(CHAT_PATH);
  t.equal((body['messages'] as object[]).length, 4, 'with the conversation so far');
  t.equal(body['stream'], undefined);
});

t.test('tools are called, and their results are sent on, in every dialect', async (t) => {
  const running = await start(t);
  const { crn } = running;
  const page = await open(t, running);
  await page.getByText('Tools and further members').click();
  await page.getByLabel('Tools as JSON').fill('[{"name": 1}]');
  await say(page, 'Weather?');
  await page.getByText('Tool 1 has no name').last().waitFor();
  t.equal(crn.requests.filter(({ path }) => path === CHAT_PATH).length, 0, 'nothing is sent');
  await page.getByLabel('Tools as JSON').fill(JSON.stringify([WEATHER]));
  for (const dialect of ['chat', 'messages', 'responses']) {
    await page.getByRole('combobox', { name: 'Dialect' }).selectOption(dialect);
    const call = {
      id: `call_${dialect}`,
      type: 'function',
      function: { name: 'weather', arguments: `{"place":"${HOSTILE}"}` },
    };
    crn.play(
      chatStream(
        chunk({ content: 'I look.' }),
        chunk({ tool_calls: [{ index: 0, ...call }] }),
        finish('tool_calls'),
        USAGE,
      ),
      chatStream(chunk({ content: `It rains, says ${dialect}.` }), finish('stop'), USAGE),
    );
    await say(page, 'Weather?');
    await textOf(lastTurn(page), /I look\.Calls weather\{\s+"place": "<img/);
    await page.getByLabel('Result of weather').fill('Rain.');
    await page.getByRole('button', { name: 'Send the result' }).click();
    await textOf(lastTurn(page), new RegExp(`It rains, says ${dialect}\\.`));
    await ended(page);
    const { messages, tools } = crn.last(CHAT_PATH).body as { messages: object[]; tools: object[] };
    t.match(tools, [{ type: 'function', function: WEATHER }], dialect);
    t.match(messages.at(-1), { role: 'tool', tool_call_id: `call_${dialect}`, content: 'Rain.' }, dialect);
    t.match(messages.at(-2), { role: 'assistant', tool_calls: [call] }, dialect);
    await page.getByRole('button', { name: 'New conversation' }).click();
  }
  t.equal(await page.evaluate('window.hit'), undefined);
});

t.test('images go with a message: files as data URLs, and addresses', async (t) => {
  const running = await start(t);
  const { crn } = running;
  const page = await open(t, running);
  const png = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg==';
  await page
    .locator('input[type=file]')
    .setInputFiles({ name: 'dot.png', mimeType: 'image/png', buffer: Buffer.from(png, 'base64') });
  const attached = page.getByRole('list', { name: 'Attached images' });
  await attached.getByText('dot.png').waitFor();
  await until('shown', async () => (await page.evaluate("document.querySelector('.composer img').naturalWidth")) === 1);
  const asked: string[] = [];
  page.on('request', (request) => asked.push(new URL(request.url()).host));
  await page.getByLabel('Address of an image').fill('javascript:alert(1)');
  await page.keyboard.press('Enter');
  await page.getByText('begins with http://').waitFor();
  await page.getByLabel('Address of an image').fill('http://pictures.example/a.png');
  await page.getByRole('button', { name: 'Add', exact: true }).click();
  await page
    .locator('input[type=file]')
    .setInputFiles({ name: 'gone.png', mimeType: 'image/png', buffer: Buffer.from('x') });
  await page.getByRole('button', { name: 'Remove gone.png' }).click();
  crn.play(chatStream(chunk({ content: 'A dot.' }), finish('stop')));
  await say(page, 'What is this?');
  await textOf(lastTurn(page), /A dot\./);
  t.match(crn.last(CHAT_PATH).body, {
    messages: [
      {
        content: [
          { type: 'text', text: 'What is this?' },
          { image_url: { url: `data:image/png;base64,${png}` } },
          { image_url: { url: 'http://pictures.example/a.png' } },
        ],
      },
    ],
  });
  t.same([...new Set(asked)], [new URL(running.adminUrl).host], 'the page asks nobody but the gateway');
});

t.test('an answer can be stopped, and the CRN is told', async (t) => {
  const running = await start(t);
  const { crn } = running;
  const page = await open(t, running);
  const { answer, stream } = held();
  crn.play(answer);
  await say(page, 'Count to a million');
  (await stream).write(eventOf(chunk({ content: 'One, two' })));
  await textOf(lastTurn(page), /One, two/);
  await page.getByRole('button', { name: 'Stop' }).click();
  await crn.abandoned;
  await textOf(lastTurn(page).getByRole('alert'), /The answer is incomplete: stopped/);
  crn.play(chatStream(chunk({ content: 'Three.' }), finish('stop')));
  await page.getByRole('button', { name: 'Ask again' }).click();
  await textOf(lastTurn(page), /Three\./);
  t.equal(await page.locator('.turn').count(), 2, 'in its place');
});

t.test('a stream that breaks in the middle keeps its text and says what happened', async (t) => {
  const running = await start(t);
  const { crn } = running;
  const page = await open(t, running);
  for (const dialect of ['chat', 'messages', 'responses']) {
    await page.getByRole('combobox', { name: 'Dialect' }).selectOption(dialect);
    const { answer, stream } = held();
    crn.play(answer);
    await say(page, 'Where does the water go?');
    const response = await stream;
    response.write(eventOf(chunk({ content: 'Down the' })));
    await textOf(lastTurn(page), /Down the/);
    response.destroy();
    await textOf(lastTurn(page).getByRole('alert'), /The answer is incomplete: .{10}/);
    await textOf(lastTurn(page).locator('.said'), /^Down the$/);
    await ended(page);
  }
});

t.test('refusals are explained: a wrong key, no credit, a CRN that fails', async (t) => {
  const store = `sqlite:${join(temporaryFolder(t), 'ledger.db')}`;
  await endow(await openTestLedger(t, store), 0n);
  const running = await start(t, { store });
  const { adminUrl, crn, url } = running;
  await until(
    'the key is known',
    async () => (await fetch(`${url}/svc/auth/check`, { headers: bearer() })).status === 200,
  );
  const page = await open(t, running, {}, /status of (401|402|503)/, 'hr_wrong');
  await say(page, 'Hello');
  await textOf(lastTurn(page).getByRole('alert'), /^▲ 401: .+HR_/);
  await page.getByLabel('API key').fill('hr_Gb…');
  await page.getByRole('button', { name: 'Ask again' }).click();
  await textOf(lastTurn(page).getByRole('alert'), /^▲ 401: tokens and keys have no such characters/);
  await page.getByLabel('API key').fill(bearer()['authorization']?.slice('Bearer '.length) ?? '');
  await page.getByRole('button', { name: 'Ask again' }).click();
  await textOf(lastTurn(page).getByRole('alert'), /^▲ 402: .*USD.*HR_CREDIT_SHORT/);
  t.match(await lastTurn(page).locator('.facts').textContent(), /Request[\da-f-]{36}/);
  await page.getByLabel('API key').fill(OWNER);
  await page.getByRole('button', { name: 'Ask again' }).click();
  await textOf(lastTurn(page).getByRole('alert'), /this is an admin token/);
  t.equal(crn.requests.filter(({ path }) => path === CHAT_PATH).length, 0);
  await page.getByLabel('API key').fill(KEY);
  await modelField(page).selectOption('other');
  crn.play((_, response) => void response.writeHead(500).end('broken'));
  await page.getByRole('button', { name: 'Ask again' }).click();
  await textOf(lastTurn(page).getByRole('alert'), /^▲ 503: .+HR_/);
  t.equal((await fetch(adminUrl)).status, 200);
});

t.test('the key and the conversations stay in the tab', async (t) => {
  const running = await start(t);
  const { adminUrl, crn } = running;
  const page = await open(t, running);
  const sent: { path: string; authorization: string | undefined }[] = [];
  page.on('request', (request) => {
    sent.push({ path: new URL(request.url()).pathname, authorization: request.headers()['authorization'] });
  });
  crn.play(chatStream(chunk({ content: 'First answer.' }), finish('stop')));
  await say(page, 'First question');
  await textOf(lastTurn(page), /First answer\./);
  await ended(page);
  await page.getByRole('button', { name: 'Sign in' }).click();
  await page.getByLabel('Admin token').fill(OWNER);
  await page.keyboard.press('Enter');
  await page.getByRole('button', { name: /Sign out/ }).waitFor();
  await page.getByRole('button', { name: 'New conversation' }).click();
  t.equal(await page.locator('.turn').count(), 0);
  crn.play(chatStream(chunk({ content: 'Second answer.' }), finish('stop')));
  await say(page, 'Second question');
  await textOf(lastTurn(page), /Second answer\./);
  for (const { authorization, path } of sent) {
    if (authorization === undefined) continue;
    t.equal(authorization, `Bearer ${path.startsWith('/playground/') ? KEY : OWNER}`, path);
  }
  t.ok(sent.some(({ path }) => path === `/playground${CHAT_PATH}`));
  t.equal(crn.last(CHAT_PATH).headers.authorization, `Bearer ${KEY}`);
  t.equal(
    await page.evaluate('JSON.stringify([Object.values(localStorage), document.cookie])'),
    JSON.stringify([[], '']),
  );

  await page.reload();
  await textOf(lastTurn(page), /Second answer\./);
  t.equal(await page.getByLabel('API key').inputValue(), KEY);
  await page.getByRole('combobox', { name: 'Conversation of this tab' }).selectOption({ label: 'First question' });
  await textOf(lastTurn(page), /First answer\./);
  await page.getByRole('button', { name: 'Edit' }).click();
  t.equal(await message(page).inputValue(), 'First question');
  t.equal(await page.locator('.turn').count(), 0);
  await page.getByRole('combobox', { name: 'Conversation of this tab' }).selectOption({ label: 'Second question' });
  await page.getByRole('button', { name: 'Forget' }).click();
  t.notMatch(await page.evaluate('JSON.stringify(sessionStorage)'), 'Second question');
  const other = await openPage(t, `${adminUrl}/#/playground`);
  t.equal(await other.getByLabel('API key').inputValue(), '', 'another tab has none of it');
});

t.test('searches, and reads pages', async (t) => {
  const folder = join(temporaryFolder(t), 'pages');
  mkdirSync(folder);
  writeFileSync(join(folder, 'headrace.md'), `# The headrace\n\nA headrace leads water to the mill. ${HOSTILE}\n`);
  const running = await start(t, {
    search: { engines: { docs: { kind: 'local', path: folder }, more: { kind: 'local', path: folder } } },
  });
  const page = await open(t, running, {}, /status of 400/);
  await page.getByRole('link', { name: 'Search', exact: true }).click();
  await page.getByLabel('Search for').fill('headrace');
  await page.keyboard.press('Enter');
  await textOf(page.locator('.results'), /The headrace.*A headrace leads water.*found in docs, more/);
  t.equal(await page.locator('.results a').first().getAttribute('rel'), 'noopener noreferrer');
  t.equal(await page.evaluate('window.hit'), undefined);
  await page.getByLabel('more').uncheck();
  await page.getByRole('button', { name: 'Search', exact: true }).click();
  await textOf(page.locator('.results'), /found in docs$/);
  await textOf(page.locator('.facts'), /Status200Total.*Request/);
  await page.getByText('As a curl command').click();
  t.match(await page.locator('.curl pre').textContent(), new RegExp(`^curl '${running.url}/search'`));

  await page.getByRole('link', { name: 'Fetch', exact: true }).click();
  await page.getByLabel('Address of the page').fill(`${running.adminUrl}/metrics`);
  await page.keyboard.press('Enter');
  await textOf(page.locator('.problem'), /^▲ 400: /);
  t.equal(await page.locator('img[src="x"]').count(), 0);
});

t.test('works by keyboard alone', async (t) => {
  const running = await start(t);
  const { crn } = running;
  const page = await open(t, running);
  crn.play(
    chatStream(chunk({ content: 'Yes.' }), chunk({ tool_calls: [callOf('weather')] }), finish('tool_calls'), USAGE),
  );
  await message(page).focus();
  await page.keyboard.type('One');
  await page.keyboard.press('Shift+Enter');
  await page.keyboard.type('Two');
  t.equal(await message(page).inputValue(), 'One\nTwo');
  await page.keyboard.press('Enter');
  await page.getByLabel('Result of weather').focus();
  await page.keyboard.type('Rain');
  crn.play(chatStream(chunk({ content: 'It rains.' }), finish('stop')));
  await tabTo(page, 'Send the result');
  await page.keyboard.press('Enter');
  await textOf(lastTurn(page), /It rains\./);
  await ended(page);
  await tabTo(page, 'Fetch');
  await page.keyboard.press('Enter');
  await until('focus', async () => (await focusedName(page)) === 'Playground');
  await page.waitForURL(/#\/playground\/fetch$/);
});

function callOf(name: string): object {
  return { index: 0, id: 'call_1', type: 'function', function: { name, arguments: '{}' } };
}

t.test('fits on a phone and passes axe, light and dark', async (t) => {
  const running = await start(t, {
    search: { engines: { docs: { kind: 'local', path: t.testdir({ 'a.md': '# Water\n\nWater runs down.' }) } } },
  });
  const { crn } = running;
  const page = await open(t, running, { bypassCSP: true, ...PHONE }, /status of 422/);
  const check = (name: string): Promise<void> => checkView(t, page, name, [360, 800, 1920]);
  await check('empty');
  crn.play(
    chatStream(
      chunk({ reasoning_content: 'Hm.' }),
      chunk({ content: `${'long'.repeat(90)}\n\`\`\`ts\n${'const a = 1; '.repeat(30)}\n\`\`\`` }),
      chunk({ tool_calls: [callOf('weather')] }),
      finish('tool_calls'),
      USAGE,
    ),
  );
  await page.getByText('Tools and further members').click();
  await page.getByLabel('Further members').fill('{');
  await page
    .locator('input[type=file]')
    .setInputFiles({ name: 'a.png', mimeType: 'image/png', buffer: Buffer.from('x') });
  await page.getByText('a.png').waitFor();
  await check('a form with a mistake');
  await page.getByLabel('Further members').fill('');
  await say(page, 'a'.repeat(300));
  await page.getByLabel('Result of weather').waitFor();
  await page.getByText('As a curl command').click();
  await check('an answer');
  crn.play(
    (_, response) => void response.writeHead(422, { 'content-type': 'application/json' }).end('{"detail":"no"}'),
  );
  await page.getByRole('button', { name: 'Send the result' }).click();
  await textOf(lastTurn(page).getByRole('alert'), /422: no/);
  await check('a refusal');
  await page.getByRole('link', { name: 'Search', exact: true }).click();
  await page.getByLabel('Search for').fill('water');
  await page.keyboard.press('Enter');
  await page.locator('.results').waitFor();
  await check('search');
});
