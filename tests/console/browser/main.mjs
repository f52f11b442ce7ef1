// Drives the console chapter by chapter. Words after it are parts of the names of tests: only those run.

import { access } from './access.mjs';
import { Suite } from './harness.mjs';
import { life } from './life.mjs';
import { looks } from './looks.mjs';
import { repair } from './repair.mjs';
import { strange } from './strange.mjs';

const suite = new Suite(process.env.CONSOLE_PICTURES);
const dev = process.env.CONSOLE_DEV;

const context = await suite.browser({ baseURL: dev });
suite.page = context.pages()[0] ?? (await context.newPage());
await life(suite, suite.page);
await repair(suite, suite.page);
await strange(suite, suite.page);
await context.close();

await looks(suite, dev);
await access(suite, process.env.CONSOLE_KEYED);
await suite.close();
