// What the chapters stand on: a browser that reports whatever goes wrong in a page, and tests that are told line by line.
//
// Each line on stdout is one result, as JSON: {"test", "ok", "why"?} or {"figure", "value", "unit"}. Words for people go to stderr.

import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { createRequire } from 'node:module';

const tools = createRequire(path.join(process.env.STEPWELL_BROWSER_TOOLS, 'node_modules', 'x.js'));
const { chromium } = tools('playwright-core');
const AXE = fs.readFileSync(tools.resolve('axe-core/axe.min.js'), 'utf8');

// How long a page may take to show what it is to show: it asks again every few seconds.
export const SOON = 15_000;

const FLAGS = [
  '--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking',
  '--disable-component-update', '--disable-sync',
];

// What is serious enough to keep somebody out.
const GRAVE = ['serious', 'critical'];

export class Suite {
  constructor(pictures) {
    this.pictures = pictures;
    this.tests = 0;
    this.failed = 0;
    this.troubles = [];
    this.expected = [];
    this.folders = [];
    this.wanted = process.argv.slice(2);
  }

  say(line) {
    process.stdout.write(JSON.stringify(line) + '\n');
  }

  figure(figure, value, unit = '', most = null) {
    this.say({ figure, value, unit, at_most: most });
  }

  // A browser of its own, with nothing in it. Every page that it opens is watched.
  async browser(options = {}) {
    const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'console-'));
    this.folders.push(folder);
    const context = await chromium.launchPersistentContext(folder, {
      executablePath: process.env.STEPWELL_CHROMIUM, headless: true, args: FLAGS, reducedMotion: 'reduce',
      viewport: { width: 1280, height: 900 }, locale: 'en-GB', timezoneId: 'UTC', ...options,
    });
    context.setDefaultTimeout(SOON);
    await context.exposeFunction('reportViolation', (what) => this.trouble(`content policy: ${what}`));
    await context.addInitScript(() => {
      document.addEventListener('securitypolicyviolation', (event) => {
        window.reportViolation(`${event.violatedDirective} at ${event.blockedURI} ${event.sourceFile}:${event.lineNumber}`);
      });
    });
    context.on('page', (page) => this.watch(page));
    context.pages().forEach((page) => this.watch(page));
    return context;
  }

  watch(page) {
    page.on('pageerror', (error) => this.trouble(`error in a script: ${error.stack ?? error}`));
    page.on('console', (message) => {
      // An answer that says "no" is told of as an error by the browser itself; it is judged below, as an answer.
      if (message.type() === 'error' && !message.text().startsWith('Failed to load resource')) {
        this.trouble(`console: ${message.text()}`);
      }
    });
    page.on('requestfailed', (request) => {
      // A page that is left lets go of what it was asking for.
      if (request.failure()?.errorText !== 'net::ERR_ABORTED') {
        this.trouble(`request failed: ${request.method()} ${request.url()}: ${request.failure()?.errorText}`);
      }
    });
    page.on('response', (response) => {
      if (response.status() >= 400) {
        this.trouble(`${response.status()} to ${response.request().method()} ${new URL(response.url()).pathname}`);
      }
    });
    page.on('dialog', (dialog) => this.dialog(dialog));
    page.on('crash', () => this.trouble('the page has crashed'));
  }

  // Says yes to what the page asks before it does something grave; anything else is somebody's script.
  async dialog(dialog) {
    if (dialog.type() === 'confirm') {
      await dialog.accept();
    } else if (dialog.type() !== 'beforeunload') {
      this.trouble(`a ${dialog.type()} dialog: ${dialog.message()}`);
      await dialog.dismiss();
    } else {
      await dialog.accept();
    }
  }

  trouble(what) {
    const at = this.expected.findIndex((pattern) => pattern.test(what));
    if (at < 0) {
      this.troubles.push(what);
    } else {
      this.met.add(at);
    }
  }

  // One test. `expects`: troubles that must come, each at least once.
  async test(name, act, { expects = [], page } = {}) {
    if (this.wanted.length > 0 && !this.wanted.some((word) => name.includes(word))) return;
    const begun = Date.now();
    this.tests += 1;
    this.troubles = [];
    this.expected = expects;
    this.met = new Set();
    let why;
    try {
      await act();
      // Whatever the last act has set off comes within a moment.
      await new Promise((resolve) => setTimeout(resolve, 100));
    } catch (error) {
      why = String(error.stack ?? error).split('\n').slice(0, 12).join('\n');
    }
    const missing = expects.filter((_, at) => !this.met.has(at)).map((pattern) => `what was to come did not: ${pattern}`);
    const told = [why, ...this.troubles, ...missing].filter(Boolean).join('\n');
    this.expected = [];
    if (told) {
      this.failed += 1;
      const shown = page ?? this.page;
      if (shown && !shown.isClosed()) {
        await shown.screenshot({ path: this.picture(`failed ${name}`), timeout: 5_000 }).catch(() => {});
      }
    }
    this.say({ test: name, ok: !told, ...(told ? { why: told } : {}) });
    process.stderr.write(`${told ? 'FAILED' : 'ok    '} ${name} (${Date.now() - begun} ms)\n`);
  }

  picture(name) {
    return path.join(this.pictures, `${name.toLowerCase().replace(/[^a-z0-9]+/g, '-').slice(0, 80)}.png`);
  }

  async screenshot(page, name) {
    await page.screenshot({ path: this.picture(name), fullPage: true });
  }

  // Looks for barriers: what keeps somebody out who does not see well, or has no mouse.
  async barriers(page) {
    // In the page's own world, past its content policy: as a person's browser extension would be.
    const session = await page.context().newCDPSession(page);
    await session.send('Runtime.evaluate', { expression: AXE });
    await session.detach();
    const found = await page.evaluate(() => window.axe.run(document, { resultTypes: ['violations'] }));
    const grave = found.violations.filter((violation) => GRAVE.includes(violation.impact));
    const words = grave.map(({ id, impact, help, nodes }) => {
      const where = nodes.slice(0, 3).map((node) => `${node.target.join(' ')}: ${node.failureSummary?.replace(/\s+/g, ' ')}`);
      return `${impact} ${id} (${help}), ${nodes.length} times:\n    ${where.join('\n    ')}`;
    });
    const lesser = found.violations.filter((violation) => !grave.includes(violation));
    for (const { id, impact, nodes } of lesser) process.stderr.write(`       ${impact} ${id}: ${nodes[0]?.target.join(' ')}\n`);
    return { words, light: lesser.length };
  }

  async close() {
    this.say({ tests: this.tests });
    for (const folder of this.folders) fs.rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
  }
}

export function assert(holds, what) {
  if (!holds) throw new Error(what);
}

export function equal(found, wanted, what) {
  assert(found === wanted, `${what}: ${JSON.stringify(found)}, and not ${JSON.stringify(wanted)}`);
}

// Asks until it is so.
export async function until(what, holds, most = SOON) {
  const end = Date.now() + most;
  let last;
  while (Date.now() < end) {
    last = await holds();
    if (last) return last;
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  throw new Error(`${what}: not within ${most} ms (last: ${JSON.stringify(last)})`);
}
