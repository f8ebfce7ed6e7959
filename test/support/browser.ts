// A real browser for the tests of pages: Chromium as the system has it, driven by playwright-core. Where it is found
// elsewhere, `HEADRACE_TEST_CHROMIUM` says so. Whatever a page complains of fails its test.

import { type Browser, type BrowserContextOptions, chromium, type Page } from 'playwright-core';
import type { Test } from 'tap';

let running: Promise<Browser> | null = null;

/** The browser of this test file; closed with the test that is given first. */
export function startBrowser(t: Test): void {
  const executablePath = process.env['HEADRACE_TEST_CHROMIUM'] ?? '/usr/bin/chromium';
  running = chromium.launch({ executablePath, chromiumSandbox: false });
  t.teardown(async () => (await running)?.close());
}

/** A page in a profile of its own. Checks at the end that it has complained of nothing but what is expected. */
export async function openPage(
  t: Test,
  url: string,
  options: BrowserContextOptions = {},
  expected: RegExp = /^$/,
): Promise<Page> {
  if (running === null) throw new Error('startBrowser comes first');
  const context = await (await running).newContext(options);
  const page = await context.newPage();
  const complaints: string[] = [];
  page.on('console', (message) => {
    if (['error', 'warning'].includes(message.type())) complaints.push(message.text());
  });
  page.on('pageerror', (error) => complaints.push(String(error)));
  t.teardown(async () => {
    await context.close();
    const unexpected = complaints.filter((complaint) => !expected.test(complaint));
    if (unexpected.length > 0) throw new Error(`the browser complains: ${unexpected.join('; ')}`);
  });
  await page.goto(url);
  return page;
}

/** Presses Tab until an element with this accessible name has the focus; the name of every stop on the way. */
export async function tabTo(page: Page, name: string): Promise<string[]> {
  const stops: string[] = [];
  while (stops.length < 200) {
    await page.keyboard.press('Tab');
    stops.push(await focusedName(page));
    if (stops.at(-1) === name) return stops;
  }
  throw new Error(`no Tab leads to ${name}, only to ${stops.join(', ')}`);
}

/** What has the focus: its label, or its text. */
export function focusedName(page: Page): Promise<string> {
  return page.evaluate(
    "document.activeElement.getAttribute('aria-label') || document.activeElement.textContent.trim().slice(0, 60)",
  );
}
