// Who may come in, and who may do what: where keys are asked for.

import http from 'node:http';

import { assert, equal } from './harness.mjs';
import { INPUTS, hasText, send, stands, start } from './steps.mjs';

export async function access(suite, url) {
  const context = await suite.browser({ baseURL: url });
  const page = (suite.page = context.pages()[0]);

  await suite.test('a stranger is led to the login from every page, and sees nothing', async () => {
    for (const path of ['/', '/runs', '/runs/some', '/approvals', '/unknowns', '/parked', '/dashboard', '/start']) {
      await page.goto(path);
      equal(new URL(page.url()).pathname, '/login', `where ${path} leads to`);
    }
    await suite.screenshot(page, 'login');
    const found = await suite.barriers(page);
    assert(found.words.length === 0, found.words.join('\n'));
  });

  await suite.test('a wrong key opens nothing, and the page says so', async () => {
    await login(page, 'a wrong key');
    await page.getByRole('alert').filter({ visible: true }).first().waitFor();
    await page.goto('/runs');
    equal(new URL(page.url()).pathname, '/login', 'where it leads to');
  }, { expects: [/^401 to POST \/v1\/session/] });

  await suite.test('a key opens the console, and its cookie is out of reach of scripts', async () => {
    await login(page, process.env.CONSOLE_KEY_OLGA);
    await page.waitForURL('**/runs');
    await page.getByText('olga').first().waitFor();
    const cookies = await context.cookies();
    equal(cookies.length, 1, 'cookies');
    const [cookie] = cookies;
    assert(cookie.httpOnly && cookie.sameSite === 'Strict' && cookie.path === '/', JSON.stringify({ ...cookie, value: '' }));
    assert(!cookie.value.includes(process.env.CONSOLE_KEY_OLGA), 'the key is not in the cookie');
    equal(await page.evaluate(() => document.cookie), '', 'what a script sees');
    equal(await page.evaluate(() => localStorage.length + sessionStorage.length), 0, 'what a script has kept');
  });

  let run;
  await suite.test('an operator who is an approver starts and approves, under their own name', async () => {
    run = await start(page, INPUTS.approval);
    await stands(page, 'waiting');
    const answer = page.locator(`form[id^="answer-${run}-"]`);
    equal(await send(page, answer, 'Approve'), 200, 'the answer');
    await stands(page, 'completed');
    await hasText(page, 'olga');
  });

  await suite.test('who signs out is a stranger again', async () => {
    await page.getByRole('button', { name: 'Sign out' }).click();
    await page.waitForURL('**/login');
    equal((await context.cookies()).length, 0, 'cookies');
    await page.goto(`/runs/${run}`);
    equal(new URL(page.url()).pathname, '/login', 'where it leads to');
  });

  await suite.test('a login leads back, and never to another host', async () => {
    const home = new URL(url).host;
    const led = [
      ['/approvals?workflow=refund', '/approvals?workflow=refund'], ['/.//evil.example/phish', '/runs'], ['//evil.example/', '/runs'],
      ['/\\evil.example', '/runs'], ['/a/..//evil.example', '/runs'], ['https://evil.example/', '/runs'], ['javascript:alert(1)', '/runs'],
      ['http://[', '/runs'], ['/login', '/runs'],
    ];
    for (const [next, wanted] of led) {
      await page.goto(`/login?next=${encodeURIComponent(next)}`);
      await page.getByLabel('API key').fill(process.env.CONSOLE_KEY_VITO);
      const gone = page.waitForRequest((request) => request.isNavigationRequest());
      await page.getByRole('button', { name: 'Sign in' }).click();
      const asked = new URL((await gone).url());
      equal(asked.host, home, `the host that ${next} leads to`);
      equal(asked.pathname + asked.search, wanted, `where ${next} leads to`);
      await page.waitForURL(`**${wanted}`);
      await context.clearCookies();
    }
  });

  await suite.test('a viewer sees a run, and has nothing to press', async () => {
    await login(page, process.env.CONSOLE_KEY_VITO);
    await page.waitForURL('**/runs');
    await page.goto(`/runs/${run}`);
    await stands(page, 'completed');
    equal(await page.locator('main form[data-path]').count(), 0, 'forms');
    await page.goto('/start');
    equal(await page.locator('main form[data-path]').count(), 0, 'forms to start');
  });

  await suite.test('what a viewer is not shown is refused as well', async () => {
    const answer = await page.evaluate(async () => {
      const body = JSON.stringify({ workflow: 'countdown', input: { from: 1 } });
      const answer = await fetch('/v1/runs', { method: 'POST', body, headers: { 'content-type': 'application/json' } });
      return [answer.status, answer.headers.get('content-type'), (await answer.json()).code];
    });
    equal(answer[0], 403, 'the status');
    equal(answer[1], 'application/problem+json', 'the kind of answer');
  }, { expects: [/^403 to POST \/v1\/runs/] });

  // Another port is another origin, and still the same site: its requests carry the cookie. Another host's do not.
  for (const [whose, host, refused] of [['another origin', '127.0.0.1', /^403 to POST \/v1\/runs/], ['another site', 'localhost', /^401 to POST \/v1\/runs/]]) {
    await suite.test(`${whose} cannot act with the session`, async () => {
      const server = http.createServer((_, answer) => answer.writeHead(200, { 'content-type': 'text/html' }).end('<h1>elsewhere</h1>'));
      await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
      const other = await context.newPage();
      try {
        await other.goto(`http://${host}:${server.address().port}/`);
        const outcome = await other.evaluate(async (url) => {
          const body = JSON.stringify({ workflow: 'countdown', input: { from: 1 } });
          const answer = await fetch(`${url}/v1/runs`, { method: 'POST', body, credentials: 'include', mode: 'no-cors' });
          return answer.type;
        }, url);
        equal(outcome, 'opaque', 'what it sees of the answer');
      } finally {
        await other.close();
        server.close();
        server.closeAllConnections();
      }
    }, { expects: [refused] });
  }

  await context.close();
}

async function login(page, key) {
  await page.goto('/login');
  await page.getByLabel('API key').fill(key);
  await page.getByRole('button', { name: 'Sign in' }).click();
}
