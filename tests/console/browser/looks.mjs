// How pages look, and whom they keep out: in light and dark, on a desk and on a phone.

import { assert, equal } from './harness.mjs';
import { INPUTS, fits, stands, start } from './steps.mjs';

const PHONE = { viewport: { width: 375, height: 740 }, isMobile: true, hasTouch: true, deviceScaleFactor: 2 };

export async function looks(suite, url) {
  for (const colorScheme of ['light', 'dark']) {
    const context = await suite.browser({ baseURL: url, colorScheme });
    const page = (suite.page = context.pages()[0]);
    let pages = [];
    await suite.test(`${colorScheme}: runs to look at`, async () => {
      pages = await toLookAt(page);
    });
    let light = 0;
    for (const [name, path] of pages) {
      await suite.test(`${colorScheme}: nothing keeps anybody out of ${name}`, async () => {
        await page.goto(path);
        await page.locator('main h1').waitFor();
        await open(page);
        const found = await suite.barriers(page);
        light += found.light;
        await suite.screenshot(page, `${colorScheme} ${name}`);
        assert(found.words.length === 0, found.words.join('\n'));
        equal(await page.locator('h1').count(), 1, 'headings of the first rank');
      });
    }
    suite.figure(`${colorScheme}: lesser findings of axe`, light, '', 0);
    await suite.test(`${colorScheme}: the colours are those that were asked for`, async () => {
      await page.goto('/runs');
      const bright = await page.evaluate(() => {
        const [r, g, b] = getComputedStyle(document.body).backgroundColor.match(/\d+/g).map(Number);
        return (r + g + b) / 3 > 128;
      });
      equal(bright, colorScheme === 'light', 'a bright ground');
    });
    await context.close();
  }

  const phone = await suite.browser({ baseURL: url, ...PHONE });
  const page = (suite.page = phone.pages()[0]);
  let pages = [];
  await suite.test('phone: runs to look at', async () => {
    pages = await toLookAt(page);
  });
  for (const [name, path] of pages) {
    await suite.test(`phone: ${name} fits`, async () => {
      await page.goto(path);
      await page.locator('main h1').waitFor();
      await open(page);
      await fits(page);
      await suite.screenshot(page, `phone ${name}`);
      const found = await suite.barriers(page);
      assert(found.words.length === 0, found.words.join('\n'));
    });
  }
  await suite.test('phone: an approval is given by touch', async () => {
    const run = await start(page, INPUTS.approval);
    await stands(page, 'waiting');
    await page.goto('/approvals');
    const answer = page.locator(`form[id^="answer-${run}-"]`);
    const answered = page.waitForResponse((response) => response.url().includes(`/v1/runs/${run}/approvals/`));
    await answer.getByRole('button', { name: 'Approve', exact: true }).tap();
    equal((await answered).status(), 200, 'the answer');
    await page.goto(`/runs/${run}`);
    await stands(page, 'completed');
  });
  await phone.close();
}

// Every page, with something on it: runs that wait, are parked, are unknown, have failed and have completed.
async function toLookAt(page) {
  const order = Date.now() % 1_000_000;
  const waiting = await start(page, INPUTS.approval);
  await stands(page, 'waiting');
  const unknown = await start(page, INPUTS.unknown(`lamp-${order}`));
  await stands(page, 'parked');
  const over = await start(page, INPUTS.overBudget(`vase-${order}`));
  await stands(page, 'parked');
  const failed = await start(page, INPUTS.refused(`desk-${order}`));
  await stands(page, 'failed');
  const completed = await start(page, INPUTS.countdown(30));
  await stands(page, 'completed');
  return [
    ['the list of runs', '/runs'],
    ['an empty list', '/runs?workflow=nobody-has-it'],
    ['a waiting run', `/runs/${waiting}`],
    ['a run with an unknown', `/runs/${unknown}`],
    ['a run over its budget', `/runs/${over}`],
    ['a failed run', `/runs/${failed}`],
    ['a completed run', `/runs/${completed}`],
    ['a run at a step', `/runs/${completed}?at=3`],
    ['the approvals', '/approvals'],
    ['the unknowns', '/unknowns'],
    ['the parked runs', '/parked'],
    ['the dashboard', '/dashboard'],
    ['the start', '/start'],
  ];
}

// What is folded away is looked at as well.
async function open(page) {
  await page.evaluate(() => document.querySelectorAll('main details').forEach((details) => { details.open = true; }));
}
