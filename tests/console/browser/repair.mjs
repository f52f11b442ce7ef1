// What went wrong is put right, from the browser alone.

import { assert, equal, until } from './harness.mjs';
import { INPUTS, form, hasText, send, stands, start } from './steps.mjs';

export async function repair(suite, page) {
  await suite.test('an unknown is resolved, and its run completes', async () => {
    const run = await start(page, INPUTS.unknown('lamp-1'));
    await stands(page, 'parked');
    await page.goto('/unknowns');
    await hasText(page, run);
    await suite.screenshot(page, 'unknowns');
    await landed(page);
    const resolve = page.locator(`form[data-path^="/v1/runs/${run}/effects/"]`);
    await form(page, await resolve.getAttribute('data-path'));
    await resolve.getByLabel('It has happened', { exact: true }).check();
    await resolve.getByLabel('What it answered, as JSON').fill('{"pickup": "pickup-1"}');
    await resolve.getByLabel(/^Why/).fill("it is in the carrier's book");
    assert((await send(page, resolve, 'Say so')) < 300, 'it is taken');
    await page.goto(`/runs/${run}`);
    await stands(page, 'completed');
    await hasText(page, "it is in the carrier's book");
  });

  await suite.test('an unknown is called again once a person has said so', async () => {
    const run = await start(page, INPUTS.unknown('lamp-2'));
    await stands(page, 'parked');
    await landed(page);
    const resolve = page.locator(`form[data-path^="/v1/runs/${run}/effects/"]`).first();
    await form(page, await resolve.getAttribute('data-path'));
    await resolve.getByLabel('It has not happened: call again').check();
    await resolve.getByLabel(/^Why/).fill("it is not in the carrier's book");
    assert((await send(page, resolve, 'Say so')) < 300, 'it is taken');
    await stands(page, 'completed');
  });

  await suite.test('a parked run is edited and resumed, and completes', async () => {
    const run = await start(page, INPUTS.overBudget('vase-1'));
    await stands(page, 'parked');
    await page.goto('/parked');
    await hasText(page, run);
    await suite.screenshot(page, 'parked');
    await page.goto(`/runs/${run}`);
    const edit = await form(page, `/v1/runs/${run}/edit`);
    const patch = edit.locator('textarea');
    const text = await patch.inputValue();
    assert(text.includes('120000'), `the form shows what the run knows: ${text}`);
    await patch.fill(text.replace('120000', '1200'));
    await edit.getByLabel(/^Why/).fill('two zeros too many');
    equal(await send(page, edit, await buttonOf(edit)), 200, 'the edit');
    await hasText(page, 'two zeros too many');
    await stands(page, 'parked');
    await suite.screenshot(page, 'run edited');
    const resume = await form(page, `/v1/runs/${run}/resume`);
    assert((await send(page, resume, 'Resume')) < 300, 'it goes on');
    await stands(page, 'completed');
  });

  await suite.test('a run that was refused is tried again, and completes', async () => {
    const run = await start(page, INPUTS.refused('desk-1'));
    await stands(page, 'failed');
    const retry = await form(page, `/v1/runs/${run}/retry`);
    assert((await send(page, retry, await buttonOf(retry))) < 300, 'it goes on');
    await stands(page, 'completed');
  });

  await suite.test('a parked run is moved to another step', async () => {
    const run = await start(page, INPUTS.brief('a move'));
    await stands(page, 'waiting');
    const pause = await form(page, `/v1/runs/${run}/pause`);
    assert((await send(page, pause, 'Pause')) < 300, 'the pause is taken');
    await stands(page, 'parked');
    const move = await form(page, `/v1/runs/${run}/move`);
    await move.locator('[name=to]').fill('{"Research": {"vendor": 0}}');
    await move.getByLabel(/^Why/).fill('its page has changed');
    equal(await send(page, move, await buttonOf(move)), 200, 'the move');
    await hasText(page, 'its page has changed');
    const resume = await form(page, `/v1/runs/${run}/resume`);
    assert((await send(page, resume, 'Resume')) < 300, 'it goes on');
    await stands(page, 'waiting');
  });

  await suite.test('a step that the code does not know is refused beside the form', async () => {
    const run = await start(page, INPUTS.overBudget('vase-2'));
    await stands(page, 'parked');
    const move = await form(page, `/v1/runs/${run}/move`);
    await move.locator('[name=to]').fill('"Nowhere"');
    await move.getByLabel(/^Why/).fill('to see');
    equal(await send(page, move, await buttonOf(move)), 422, 'the move');
    const error = move.getByRole('alert');
    await error.waitFor({ state: 'visible' });
    assert((await error.innerText()).includes('Nowhere'), `it says what is wrong: ${await error.innerText()}`);
    equal(await move.locator('[name=to]').inputValue(), '"Nowhere"', 'what was typed');
  }, { expects: [/^422 to POST/] });

  await suite.test('a parked run is discarded: it fails, and what it has done stands', async () => {
    const run = await start(page, INPUTS.overBudget('vase-3'));
    await stands(page, 'parked');
    const discard = await form(page, `/v1/runs/${run}/discard`);
    await discard.getByLabel(/^Why/).fill('ordered twice');
    assert((await send(page, discard, await buttonOf(discard))) < 300, 'it is given up');
    await stands(page, 'failed');
    await hasText(page, 'ordered twice');
  });

  await suite.test('an edit of what has changed meanwhile is refused, and nothing is lost of it', async () => {
    const run = await start(page, INPUTS.overBudget('vase-4'));
    await stands(page, 'parked');
    const edit = await form(page, `/v1/runs/${run}/edit`);
    const patch = edit.locator('textarea');
    const mine = (await patch.inputValue()).replace('120000', '1300');
    await patch.fill(mine);
    await edit.getByLabel(/^Why/).fill('mine');
    const other = await page.context().newPage();
    await other.goto(`/runs/${run}`);
    const theirs = await form(other, `/v1/runs/${run}/edit`);
    await theirs.locator('textarea').fill((await theirs.locator('textarea').inputValue()).replace('120000', '1200'));
    await theirs.getByLabel(/^Why/).fill('theirs');
    equal(await send(other, theirs, await buttonOf(theirs)), 200, 'the other edit');
    await other.close();
    equal(await send(page, edit, await buttonOf(edit)), 412, 'this edit');
    await edit.getByRole('alert').waitFor({ state: 'visible' });
    equal(await patch.inputValue(), mine, 'what was typed');
  }, { expects: [/^412 to POST/] });

  await suite.test('what was typed stays when the run goes on meanwhile, until its writer drops it', async () => {
    const run = await start(page, INPUTS.brief('half an edit'));
    await stands(page, 'waiting');
    const pause = await form(page, `/v1/runs/${run}/pause`);
    assert((await send(page, pause, 'Pause')) < 300, 'the pause is taken');
    await stands(page, 'parked');
    const edit = await form(page, `/v1/runs/${run}/edit`);
    const patch = edit.locator('textarea');
    const mine = (await patch.inputValue()).replace('half an edit', 'a whole one');
    await patch.fill(mine);
    await patch.blur();
    const resumed = await page.evaluate(async (path) => {
      const { dataset } = document.querySelector(`form[data-path="${path}"]`);
      const headers = { 'content-type': 'application/json', ...(dataset.ifMatch && { 'if-match': dataset.ifMatch }) };
      return (await fetch(path, { method: 'POST', headers, body: '{}' })).status;
    }, `/v1/runs/${run}/resume`);
    assert(resumed < 300, `another resumes it: ${resumed}`);
    await stands(page, 'waiting');
    await page.waitForResponse((response) => response.url() === page.url());
    equal(await patch.inputValue(), mine, 'what was typed');
    assert((await edit.getByRole('alert').innerText()).includes('moved on'), 'the form says what has happened');
    equal(await page.locator(`form[data-path="/v1/runs/${run}/resume"]`).count(), 0, 'forms in which nothing was typed');
    await edit.getByRole('button', { name: /^Drop what I typed/ }).click();
    await edit.waitFor({ state: 'detached' });
  });
}

// Until the call can no longer land the page says so, and by itself stops saying it.
async function landed(page) {
  await until('no call may still land', async () => !(await page.locator('main').innerText()).includes('The call may still land') || null);
}

// What the only button of a form is called.
async function buttonOf(form) {
  return (await form.locator('button[type=submit]').innerText()).trim();
}
