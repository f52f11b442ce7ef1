// What should not be there: hostile text, wrong input, no mouse, no script.

import { assert, equal, until } from './harness.mjs';
import { INPUTS, fits, form, hasText, send, stands, start, status } from './steps.mjs';

// Each of these has to show as text, and as nothing else. The last one turns around what stands after it.
const HOSTILE = [
  '<script>document.title="hacked"</script>',
  '"><img src=x onerror=alert(1)>',
  "';alert(String.fromCharCode(88))//",
  '</textarea></pre></title><svg onload=alert(2)>',
  '{{7*7}} ${7*7} javascript:alert(3)',
  'a\u0000b\u001b[31mc\u0007',
  'evil\u202etxt.exe',
];
const LONG = 'x'.repeat(20_000);

export async function strange(suite, page) {
  await suite.test('hostile text in an input shows as text on every page', async () => {
    const goal = HOSTILE.join('\n');
    const run = await start(page, { workflow: 'competitive-brief', input: { goal, vendors: ['velloria'], to: HOSTILE[1] } });
    await stands(page, 'waiting');
    for (const path of [`/runs/${run}`, '/runs', '/dashboard', '/approvals', '/unknowns', '/parked']) await unharmed(page, path);
    await page.goto(`/runs/${run}`);
    const source = await page.content();
    assert(source.includes('&lt;script&gt;document.title='), 'the input is on the page of its run, as text');
    assert(!/[\u202a-\u202e\u2066-\u2069]/.test(await page.locator('main').innerText()), 'a mark that turns text around is shown as it is');
    await suite.screenshot(page, 'hostile run');
  });

  await suite.test('hostile text in what is to be approved shows as text', async () => {
    const order = `sofa-90000<img src=x onerror=alert(4)>`;
    const run = await start(page, { workflow: 'refund', input: { order, reason: HOSTILE[0] } });
    await until('it comes to rest', async () => ['waiting', 'failed'].includes(await status(page)) || null);
    await unharmed(page, `/runs/${run}`);
    await unharmed(page, '/approvals');
  });

  await suite.test('hostile text in reasons shows as text', async () => {
    const run = await start(page, INPUTS.overBudget('vase-99'));
    await stands(page, 'parked');
    const discard = await form(page, `/v1/runs/${run}/discard`);
    await discard.getByLabel(/^Why/).fill(HOSTILE.slice(0, 4).join(' '));
    const button = (await discard.locator('button[type=submit]').innerText()).trim();
    assert((await send(page, discard, button)) < 300, 'it is given up');
    await stands(page, 'failed');
    await unharmed(page, `/runs/${run}`);
    await hasText(page, HOSTILE[0]);
  });

  await suite.test('a very long text breaks no page', async () => {
    const run = await start(page, { workflow: 'competitive-brief', input: { goal: LONG, vendors: ['velloria'], to: LONG } });
    await stands(page, 'waiting');
    for (const path of [`/runs/${run}`, '/runs']) {
      await page.goto(path);
      await fits(page);
    }
  });

  await suite.test('hostile text in an address is shown as text', async () => {
    for (const path of ['/runs?workflow=%3Cscript%3Ealert(5)%3C/script%3E', '/runs?after=%22%3E%3Cimg%20src=x%20onerror=alert(6)%3E']) {
      await page.goto(path);
      equal(await page.locator('main script, main img').count(), 0, `what ${path} has made`);
    }
  }, { expects: [/^400 to GET \/runs/] });

  await suite.test('an input that is no JSON is said beside its field, and nothing is started', async () => {
    await page.goto('/start');
    await page.getByLabel('Input, as JSON').fill('{"from": ');
    await page.getByRole('button', { name: 'Start', exact: true }).click();
    await page.getByRole('alert').filter({ visible: true }).first().waitFor();
    equal(new URL(page.url()).pathname, '/start', 'the page');
  });

  await suite.test('an input that does not fit is said with the place in it', async () => {
    await page.goto('/start');
    await page.getByLabel('Workflow').selectOption('countdown');
    await page.getByLabel('Input, as JSON').fill('{"from": "ten"}');
    await page.getByRole('button', { name: 'Start', exact: true }).click();
    const alert = page.getByRole('alert').filter({ visible: true }).first();
    await alert.waitFor();
    assert((await alert.innerText()).includes('from'), `it names the field: ${await alert.innerText()}`);
  }, { expects: [/^422 to POST \/v1\/runs/] });

  await suite.test('a run that is not there is said, with a way on', async () => {
    await page.goto('/runs/no-such-run');
    assert((await page.locator('main').innerText()).length > 20, 'the page says something');
    await page.getByRole('link', { name: 'Runs', exact: true }).waitFor();
  }, { expects: [/^404 to GET \/runs\/no-such-run/] });

  await suite.test('an approval is found and given with the keyboard alone', async () => {
    const run = await start(page, INPUTS.approval);
    await stands(page, 'waiting');
    await page.goto('/runs');
    await press(page, 'Skip to the content', 'link');
    await page.keyboard.press('Enter');
    equal(await page.evaluate(() => document.activeElement.id), 'main', 'where the first link leads to');
    await page.goto('/runs');
    await press(page, /^Approvals/, 'link');
    await page.keyboard.press('Enter');
    await page.waitForURL('**/approvals');
    const path = `/v1/runs/${run}/approvals/`;
    await tabTo(page, (path) => {
      const at = document.activeElement;
      return at?.name === 'why' && at.form?.dataset.path.startsWith(path);
    }, path);
    assert(await focusIsSeen(page), 'one sees where one is');
    await page.keyboard.type('by hand');
    const answered = page.waitForResponse((answer) => new URL(answer.url()).pathname.startsWith(path));
    await page.keyboard.press('Tab');
    equal(await page.evaluate(() => document.activeElement.textContent.trim()), 'Approve', 'what comes after the reason');
    assert(await focusIsSeen(page), 'one sees where one is');
    await page.keyboard.press('Space');
    equal((await answered).status(), 200, 'the answer');
    const lost = await page.evaluate(() => document.activeElement === document.body);
    assert(!lost, 'the focus is somewhere after the answer');
    await page.goto(`/runs/${run}`);
    await stands(page, 'completed');
    await hasText(page, 'by hand');
  });

  await suite.test('without its script a page can be read, and says what it lacks', async () => {
    const bare = await suite.browser({ baseURL: process.env.CONSOLE_DEV, javaScriptEnabled: false });
    const read = bare.pages()[0];
    await read.goto('/runs');
    await read.getByRole('table').waitFor();
    assert((await read.locator('body').innerText()).includes('JavaScript'), 'it says what it lacks');
    await read.locator('main tbody a').first().click();
    await read.locator('main .badge').first().waitFor();
    await bare.close();
  });

  await suite.test('a page is light: what it takes the first time', async () => {
    const fresh = await suite.browser({ baseURL: process.env.CONSOLE_DEV });
    const first = fresh.pages()[0];
    const bytes = { script: 0, stylesheet: 0, document: 0 };
    const sized = [];
    first.on('response', (response) => {
      const kind = response.request().resourceType();
      if (kind in bytes) sized.push(response.body().then((body) => { bytes[kind] += body.length; }));
    });
    await first.goto('/runs', { waitUntil: 'networkidle' }).catch(() => {});
    await Promise.all(sized);
    const painted = await first.evaluate(() => performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? 0);
    await fresh.close();
    suite.figure('script', bytes.script / 1000, 'kB', 100);
    suite.figure('style', bytes.stylesheet / 1000, 'kB');
    suite.figure('first page', bytes.document / 1000, 'kB');
    suite.figure('first contentful paint', Math.round(painted), 'ms', 1000);
    assert(bytes.script > 0 && bytes.script < 100_000, `the script has ${bytes.script} bytes`);
  });
}

// Nothing of what was typed has become a part of the page.
async function unharmed(page, path) {
  await page.goto(path);
  await page.locator('main').waitFor();
  equal(await page.locator('main img, main script, main svg[onload], main [onerror]').count(), 0, `what ${path} has made of it`);
  assert(!(await page.title()).includes('hacked'), `the title of ${path}`);
  await fits(page);
}

async function tabTo(page, is, argument) {
  for (let presses = 0; presses < 200; presses += 1) {
    await page.keyboard.press('Tab');
    if (await page.evaluate(is, argument)) return;
  }
  throw new Error(`not reached by the Tab key: ${is}`);
}

// To the link or button of this name.
async function press(page, name) {
  const source = typeof name === 'string' ? `^${name}` : name.source;
  await tabTo(page, (source) => new RegExp(source).test(document.activeElement?.textContent?.trim() ?? '')
    && ['A', 'BUTTON'].includes(document.activeElement.tagName), source);
}

async function focusIsSeen(page) {
  return page.evaluate(() => {
    const style = getComputedStyle(document.activeElement);
    return (style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) > 0) || style.boxShadow !== 'none';
  });
}
