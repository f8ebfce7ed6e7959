// Chromium for the tests of HTML pages, driven by playwright-core: the system's, or the one that `HEADRACE_TEST_CHROMIUM` names.
// The headless shell takes little more than half of the CPU time of the whole browser, so it comes first. A test fails if its page
// logs an error or a warning.

import { existsSync } from 'node:fs';
import axe from 'axe-core';
import { type Browser, type BrowserContextOptions, chromium, type Locator, type Page } from 'playwright-core';
import type { Test } from 'tap';
import { until } from './system.ts';

let running: Promise<Browser> | null = null;

/** Starts the browser of this test file; it is closed with the test `t`. */
export function startBrowser(t: Test): void {
  const installed = ['/usr/bin/chromium-headless-shell', '/usr/bin/chromium'].find((path) => existsSync(path));
  const executablePath = process.env['HEADRACE_TEST_CHROMIUM'] ?? installed ?? 'chromium';
  running = chromium.launch({ executablePath, chromiumSandbox: false, args: ['--disable-gpu'] });
  t.teardown(async () => (await running)?.close());
}

/** Opens a page in a browser context of its own. Fails the test if the page logs errors or warnings other than `expected`. */
export async function openPage(
  t: Test,
  url: string,
  options: BrowserContextOptions = {},
  expected: RegExp = /^$/,
): Promise<Page> {
  if (running === null) throw new Error('call startBrowser before openPage');
  const context = await (await running).newContext(options);
  const page = await context.newPage();
  const complaints: string[] = [];
  page.on('console', (message) => {
    if (['error', 'warning'].includes(message.type())) complaints.push(message.text());
  });
  page.on('pageerror', (error) => complaints.push(String(error)));
  t.teardown(async () => {
    // Behind all that the page has logged until now.
    await page.evaluate('0').catch(() => {});
    const unexpected = complaints.filter((complaint) => !expected.test(complaint));
    // A request of the page may be inside of a route, or meets none any more: what fails there from now on fails no test.
    await page.unrouteAll({ behavior: 'ignoreErrors' });
    await context.close();
    if (unexpected.length > 0) throw new Error(`the page logged ${unexpected.join('; ')}`);
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

/** Label or text of the element that has the focus. */
export function focusedName(page: Page): Promise<string> {
  return page.evaluate(
    "document.activeElement.getAttribute('aria-label') || document.activeElement.textContent.trim().slice(0, 60)",
  );
}

/** The row of a table that begins with this text. */
export function row(page: Page, table: string, head: string): Locator {
  return page.locator(`#${table} tbody tr`).filter({ has: page.getByRole('rowheader', { name: head, exact: true }) });
}

/**
 * Checks what a page shows in windows of these widths, from the narrowest to the widest: nothing is wider than the window, and axe finds
 * nothing in the narrowest and the widest. The dark theme differs from the light one in colours alone, and the widest shows all there are.
 */
export async function checkView(t: Test, page: Page, name: string, widths: readonly number[]): Promise<void> {
  const excess = 'document.documentElement.scrollWidth - document.documentElement.clientWidth';
  // Without motion colours change at once.
  await page.emulateMedia({ reducedMotion: 'reduce' });
  for (const width of widths) {
    await page.setViewportSize({ width, height: 740 });
    // Charts follow the width in a task of their own.
    await until(`no sideways scroll at ${width}: ${name}`, async () => (await page.evaluate(excess)) === 0);
    if (width === widths[0] || width === widths.at(-1)) t.same(await axeFindings(page), [], `axe at ${width}: ${name}`);
  }
  await page.emulateMedia({ colorScheme: 'dark' });
  t.same(await axeFindings(page, ['color-contrast']), [], `axe in the dark theme: ${name}`);
  await page.emulateMedia({ colorScheme: 'light' });
}

/** What axe finds wrong with the page, one text for each rule. Default: all rules. */
export async function axeFindings(page: Page, runOnly?: readonly string[]): Promise<string[]> {
  if (!(await page.evaluate("'axe' in window"))) await page.evaluate(axe.source);
  // Without them axe also writes down what is right, and loads style sheets a second time.
  const options = { resultTypes: ['violations'], preload: false, runOnly };
  const { violations } = await page.evaluate<{ violations: { id: string; nodes: unknown[] }[] }>(
    `axe.run(${JSON.stringify(options)})`,
  );
  return violations.map(({ id, nodes }) => `${id}: ${JSON.stringify(nodes).slice(0, 500)}`);
}

/** Waits until the text of an element matches. */
export async function shows(page: Page, selector: string, text: RegExp): Promise<void> {
  let seen = '';
  const holds = async (): Promise<boolean> => {
    seen = (await page.locator(selector).textContent()) ?? '';
    return text.test(seen);
  };
  await until(`${String(text)} in ${selector}`, holds).catch((error: unknown) => {
    throw new Error(`${String(error)}; it says ${seen}`);
  });
}
