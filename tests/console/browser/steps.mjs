// What a person does, in words of this console: by the names that its fields and buttons have for everybody.

import { SOON, assert, until } from './harness.mjs';

export const INPUTS = {
  approval: { workflow: 'refund', input: { order: 'sofa-90000', reason: 'arrived broken' } },
  undone: { workflow: 'refund', input: { order: 'yacht-500000', reason: 'too long' } },
  unknown: (order) => ({ workflow: 'parcel', input: { order, town: 'Farhaven', grams: 1200 } }),
  overBudget: (order) => ({ workflow: 'parcel', input: { order, town: 'Tarnwick', grams: 120000 } }),
  refused: (order) => ({ workflow: 'parcel', input: { order, town: 'Fernpass', grams: 900 } }),
  brief: (goal) => ({ workflow: 'competitive-brief', input: { goal, vendors: ['velloria'], to: 'board@example.com' } }),
  countdown: (from) => ({ workflow: 'countdown', input: { from } }),
};

// Starts a run from its page. Answers its name; the browser is on the run's page then.
export async function start(page, { workflow, input }) {
  await page.goto('/start');
  await page.getByLabel('Workflow').selectOption(workflow);
  await page.getByLabel('Input, as JSON').fill(typeof input === 'string' ? input : JSON.stringify(input));
  await page.getByRole('button', { name: 'Start', exact: true }).click();
  await page.waitForURL(/\/runs\/[^/?]+/);
  return decodeURIComponent(new URL(page.url()).pathname.split('/').at(-1));
}

// How the run stands that the page shows.
export async function status(page) {
  return (await page.locator('main .badge').first().innerText()).trim();
}

// Waits until the page says so by itself: it is not loaded again meanwhile.
export async function stands(page, wanted, most = SOON) {
  await until(`the run is ${wanted}`, async () => (await status(page)) === wanted || null, most)
    .catch(async (error) => { throw new Error(`${error.message}; it is ${await status(page)}`); });
}

// A mark in the page that is gone once it is loaded anew.
export async function mark(page) {
  await page.evaluate(() => { window.markOfTheTest = true; });
}

export async function isMarked(page) {
  return page.evaluate(() => window.markOfTheTest === true);
}

// The form of a page that goes to this path of the API, opened where it lies in something closed.
export async function form(page, path) {
  const found = page.locator(`form[data-path="${path}"]`).first();
  await found.waitFor({ state: 'attached' });
  await page.evaluate((path) => {
    for (let at = document.querySelector(`form[data-path="${path}"]`); at; at = at.parentElement) {
      if (at.tagName === 'DETAILS') at.open = true;
    }
  }, path);
  return found;
}

// Sends a form, and says yes where the page asks whether one is sure. Answers the API's status.
export async function send(page, form, button) {
  const path = await form.getAttribute('data-path');
  const answered = page.waitForResponse((response) =>
    new URL(response.url()).pathname === path && response.request().method() === 'POST');
  const asks = await form.evaluate((form) => 'confirm' in form.dataset || form.querySelector('[data-confirm]:checked') !== null);
  await form.getByRole('button', { name: button, exact: true }).click();
  if (asks) await page.locator('#confirm-yes').click();
  return (await answered).status();
}

export async function hasText(page, text) {
  const found = await until(`the page says ${JSON.stringify(text)}`, async () =>
    (await page.locator('main').innerText()).includes(text) || null);
  assert(found, text);
}

// No page is wider than its window: nobody has to scroll both ways.
export async function fits(page) {
  const [wide, window] = await page.evaluate(() => [document.documentElement.scrollWidth, document.documentElement.clientWidth]);
  assert(wide <= window, `${page.url()} is ${wide} px wide in a window of ${window} px`);
}
