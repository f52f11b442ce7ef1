// The whole of a run's life, from the browser alone.

import { assert, equal, until } from './harness.mjs';
import { INPUTS, form, hasText, isMarked, mark, send, stands, start, status } from './steps.mjs';

export async function life(suite, page) {
  await suite.test('the first page lists the demo runs', async () => {
    await page.goto('/');
    equal(new URL(page.url()).pathname, '/runs', 'where / leads to');
    await page.getByRole('table').waitFor();
    for (const workflow of ['refund', 'parcel', 'competitive-brief', 'hello']) await hasText(page, workflow);
    await suite.screenshot(page, 'runs');
  });

  await suite.test('a run is started, and watched to its end without loading the page again', async () => {
    const run = await start(page, INPUTS.countdown(400));
    await mark(page);
    const seen = new Set();
    await until('it completes', async () => {
      seen.add(await page.locator('main').innerText());
      return (await status(page)) === 'completed' || null;
    }, 60_000);
    assert(await isMarked(page), 'the page was loaded again');
    assert(seen.size > 1, 'nothing moved on the page');
    assert(run.length > 0, 'a run has a name');
    await suite.screenshot(page, 'run completed');
  });

  await suite.test('a list shows by itself what another has started', async () => {
    await start(page, INPUTS.countdown(1));
    await page.goto('/runs?workflow=countdown');
    await page.getByRole('table').waitFor();
    await mark(page);
    const rows = await page.locator('main tbody tr').count();
    const other = await page.context().newPage();
    await start(other, INPUTS.countdown(2));
    await other.close();
    await until('one more row', async () => (await page.locator('main tbody tr').count()) > rows || null);
    assert(await isMarked(page), 'the page was loaded again');
  });

  await suite.test('an approval is given from the inbox, and its run completes', async () => {
    const run = await start(page, INPUTS.approval);
    await stands(page, 'waiting');
    await page.goto('/approvals');
    await hasText(page, 'sofa-90000');
    await hasText(page, '90000');
    await suite.screenshot(page, 'approvals');
    const answer = page.locator(`form[id^="answer-${run}-"]`);
    await answer.getByLabel(/^Why/).fill('seen the picture');
    equal(await send(page, answer, 'Approve'), 200, 'the answer');
    await until('it is gone from the inbox', async () => (await answer.count()) === 0 || null);
    await page.goto(`/runs/${run}`);
    await stands(page, 'completed');
    await hasText(page, 'seen the picture');
  });

  await suite.test('an approval is refused on the page of its run, which fails with the reason', async () => {
    const run = await start(page, INPUTS.approval);
    await stands(page, 'waiting');
    await mark(page);
    const answer = page.locator(`form[id^="answer-${run}-"]`);
    await answer.getByLabel(/^Why/).fill('it was not broken');
    equal(await send(page, answer, 'Reject'), 200, 'the answer');
    await stands(page, 'failed');
    assert(await isMarked(page), 'the page was loaded again');
    await hasText(page, 'it was not broken');
    await suite.screenshot(page, 'run failed');
  });

  await suite.test('Enter in a reason decides nothing, in one line or several', async () => {
    const run = await start(page, INPUTS.approval);
    await stands(page, 'waiting');
    const answer = page.locator(`form[id^="answer-${run}-"]`);
    const sent = [];
    const listen = (request) => { if (request.method() === 'POST') sent.push(request.url()); };
    page.on('request', listen);
    const why = answer.getByLabel(/^Why/);
    await why.fill('it was not broken');
    await why.press('Enter');
    equal(await why.inputValue(), 'it was not broken\n', 'what Enter has done');
    // Whatever line of text a form with a choice may get.
    await answer.evaluate((form) => form.prepend(Object.assign(document.createElement('input'), { className: 'line' })));
    const line = answer.locator('input.line');
    await line.fill('too late');
    await line.press('Enter');
    // A second look at the run, after whatever was sent.
    await page.waitForResponse((response) => response.url() === page.url());
    page.off('request', listen);
    equal(sent.join(), '', 'what was sent');
    equal(await status(page), 'waiting', 'the run');
    await line.evaluate((line) => line.remove());
    equal(await send(page, answer, 'Reject'), 200, 'the answer');
    await stands(page, 'failed');
    await hasText(page, 'it was not broken');
  });

  await suite.test('a link lets a person answer once who has no account, and opening it changes nothing', async () => {
    const run = await start(page, INPUTS.approval);
    await stands(page, 'waiting');
    const making = page.locator(`form[id^="link-${run}-"]`);
    await form(page, await making.getAttribute('data-path'));
    assert((await send(page, making, 'Make a link')) < 300, 'a link is made');
    const link = (await page.locator('.said code').innerText()).trim();
    // As a mail program has it: another browser, without scripts.
    const mail = await suite.browser({ javaScriptEnabled: false, colorScheme: 'dark' });
    const opened = mail.pages()[0];
    for (let look = 0; look < 2; look += 1) {
      await opened.goto(link);
      await opened.getByRole('heading', { name: 'Please decide' }).waitFor();
    }
    assert((await opened.locator('main').innerText()).includes('90000'), 'what is asked is there in full');
    await suite.screenshot(opened, 'link');
    equal(await status(page), 'waiting', 'the run');
    await opened.getByLabel(/^Why/).fill('<b>from my phone</b>');
    await opened.getByRole('button', { name: 'Approve' }).click();
    await opened.getByRole('heading', { name: 'Thank you' }).waitFor();
    await stands(page, 'completed');
    await hasText(page, '<b>from my phone</b>');
    await opened.goto(link);
    equal(await opened.getByRole('button').count(), 0, 'buttons of a link that was used');
    await mail.close();
  }, { expects: [/^4\d\d to GET \/links\//] });

  await suite.test('a signal is sent, and the run goes on', async () => {
    const run = await start(page, INPUTS.brief('a signal'));
    await stands(page, 'waiting');
    const signal = await form(page, `/v1/runs/${run}/signals`);
    const name = signal.locator('[name=name]');
    if ((await name.evaluate((field) => field.tagName)) === 'SELECT') await name.selectOption('approval');
    else await name.fill('approval');
    await signal.locator('[name=payload]').fill('{"approved": true, "by": "you"}');
    assert((await send(page, signal, 'Send')) < 300, 'the signal is taken');
    await stands(page, 'completed');
  });

  await suite.test('a run is paused and resumed', async () => {
    const run = await start(page, INPUTS.brief('a pause'));
    await stands(page, 'waiting');
    const pause = await form(page, `/v1/runs/${run}/pause`);
    await pause.getByLabel(/^Why/).fill('the vendor has called');
    assert((await send(page, pause, 'Pause')) < 300, 'the pause is taken');
    await stands(page, 'parked');
    await hasText(page, 'the vendor has called');
    const resume = await form(page, `/v1/runs/${run}/resume`);
    assert((await send(page, resume, 'Resume')) < 300, 'it goes on');
    await stands(page, 'waiting');
  });

  await suite.test('a run is cancelled, and its certificate says what it has done', async () => {
    const run = await start(page, INPUTS.approval);
    await stands(page, 'waiting');
    const cancel = await form(page, `/v1/runs/${run}/cancel`);
    await cancel.getByLabel(/^Why/).fill('the customer has called');
    assert((await send(page, cancel, 'Cancel the run')) < 300, 'the end is asked for');
    await stands(page, 'cancelled');
    await hasText(page, 'the customer has called');
    await hasText(page, 'Certificate of its end');
    await suite.screenshot(page, 'run cancelled');
  });
}
