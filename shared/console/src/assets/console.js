// The console's one script: keeps pages fresh, and sends their forms to the API as JSON. Pages can be read without it.

const byId = (id) => document.getElementById(id);
const BUSY = "data-busy";

/* ---- Saying what has happened ---- */

function say(words) {
  const live = byId("live");
  live.textContent = "";
  // A screen reader speaks when the text changes, so the same words twice need a change between them.
  requestAnimationFrame(() => { live.textContent = words; });
}

function banner(words, link) {
  const place = byId("link");
  place.hidden = !words;
  place.textContent = words || "";
  if (link) {
    const a = document.createElement("a");
    [a.href, a.textContent] = link;
    place.append(" ", a);
  }
}

/* ---- Live pages ---- */

// The page is asked for again under its own address. What has changed is taken over in place: elements stay, so that focus,
// what is folded out and what is half typed stay too.

let tag = null;
let timer = null;
let failures = 0;
let asking = false;

function schedule() {
  clearTimeout(timer);
  const seconds = Number(document.body.dataset.refresh);
  if (!seconds || document.hidden) return;
  // A server in trouble is asked less often.
  timer = setTimeout(refresh, Math.min(seconds * 2 ** failures, 60) * 1000);
}

async function refresh() {
  if (asking) return;
  asking = true;
  clearTimeout(timer);
  try {
    const headers = { accept: "text/html" };
    if (tag) headers["if-none-match"] = tag;
    const answer = await fetch(location.href, { headers, cache: "no-store", credentials: "same-origin" });
    if (answer.redirected && new URL(answer.url).pathname === "/login") {
      banner("Your session is over: what you see is old.", [loginPath(), "Sign in again"]);
      document.body.removeAttribute("data-refresh");
      return;
    }
    if (answer.status === 200) {
      tag = answer.headers.get("etag");
      take(new DOMParser().parseFromString(await answer.text(), "text/html"));
    } else if (answer.status !== 304) {
      throw new Error(`status ${answer.status}`);
    }
    failures = 0;
    banner("");
    byId("updated").textContent = ` Last looked at ${new Date().toISOString().slice(11, 19)} UTC.`;
  } catch {
    failures = Math.min(failures + 1, 5);
    banner("The console does not answer: what you see may be old. It is tried again.");
  } finally {
    asking = false;
    schedule();
  }
}

function take(fresh) {
  const main = byId("main");
  const before = main.dataset.says;
  document.title = fresh.title;
  merge(main, fresh.getElementById("main"));
  const nav = fresh.getElementById("nav");
  if (nav && byId("nav")) merge(byId("nav"), nav);
  const refresh = fresh.body.dataset.refresh;
  if (refresh) document.body.dataset.refresh = refresh; else document.body.removeAttribute("data-refresh");
  if (main.dataset.says && main.dataset.says !== before) say(main.dataset.says);
  ready(main);
}

/** Whether the script has put it there. */
const isSaid = (node) => Boolean(node && node.dataset && "said" in node.dataset);

const keyOf = (node) => (node.nodeType === Node.ELEMENT_NODE ? node.id || null : null);

/** Whether somebody is at work in a form: then it stays as it is, with the revision that it was made for. */
function isTouched(form) {
  if (form.hasAttribute(BUSY) || form.hasAttribute("data-failed")) return true;
  const field = document.activeElement;
  if (form.contains(field) && field.matches("input, textarea, select")) return true;
  return [...form.elements].some((field) => {
    if (field.type === "radio" || field.type === "checkbox") return field.checked !== field.defaultChecked;
    if (field.tagName === "SELECT") {
      const usual = [...field.options].findIndex((option) => option.defaultSelected);
      return field.selectedIndex !== Math.max(usual, 0);
    }
    return "defaultValue" in field && field.value !== field.defaultValue && !field.dataset.fill;
  });
}

/** The forms in it, or itself, at which somebody is at work: focused or not. */
function touchedIn(node) {
  if (node.nodeType !== Node.ELEMENT_NODE) return [];
  const forms = node.tagName === "FORM" ? [node] : [...node.querySelectorAll("form")];
  return forms.filter(isTouched);
}

/** Says beside what was typed that the server no longer offers its form. One that is being sent hears it from the answer. */
function outlive(form) {
  if (!form.dataset.path || form.hasAttribute(BUSY) || form.querySelector("[data-renew]")) return;
  const place = byId(`${form.id}-error`);
  if (place.hidden) {
    place.textContent = "Things have moved on meanwhile, and this is no longer offered. What you typed is kept.";
    place.hidden = false;
  }
  offerRenewal(form);
}

/** Makes the old node like the new one, and keeps what a person has done to it. */
function merge(old, fresh) {
  if (old.nodeType !== Node.ELEMENT_NODE) {
    if (old.nodeValue !== fresh.nodeValue) old.nodeValue = fresh.nodeValue;
    return;
  }
  if (old.isEqualNode(fresh)) return;
  if (old.tagName === "FORM" && isTouched(old)) return;
  attributes(old, fresh);
  if (old.tagName === "TEXTAREA") {
    old.value = old.defaultValue = fresh.defaultValue;
    return;
  }
  children(old, fresh);
}

/** What the script or a person sets, the server does not take back. */
const KEPT = new Set(["open", "disabled", BUSY]);

function attributes(old, fresh) {
  for (const { name } of [...old.attributes]) {
    if (!fresh.hasAttribute(name) && !KEPT.has(name)) old.removeAttribute(name);
  }
  for (const { name, value } of [...fresh.attributes]) {
    if (!KEPT.has(name) && old.getAttribute(name) !== value) old.setAttribute(name, value);
  }
  if (old.tagName === "INPUT" && fresh.hasAttribute("value")) old.value = fresh.getAttribute("value");
}

function children(old, fresh) {
  const named = new Map();
  for (const child of old.childNodes) if (keyOf(child)) named.set(keyOf(child), child);
  let at = old.firstChild;
  for (const next of [...fresh.childNodes]) {
    while (isSaid(at)) at = at.nextSibling;
    const key = keyOf(next);
    let found = key ? named.get(key) : null;
    if (!found && at && !key && !keyOf(at) && at.nodeType === next.nodeType && at.nodeName === next.nodeName) found = at;
    if (!found) {
      old.insertBefore(document.importNode(next, true), at);
      continue;
    }
    if (found === at) at = at.nextSibling;
    else old.insertBefore(found, at);
    if (found.nodeName === next.nodeName) merge(found, next);
    else found.replaceWith(document.importNode(next, true));
  }
  while (at) {
    const following = at.nextSibling;
    // What somebody has typed, or what the script has said, is not taken away under their hands.
    const touched = touchedIn(at);
    touched.forEach(outlive);
    if (!isSaid(at) && touched.length === 0) at.remove();
    at = following;
  }
}

document.addEventListener("visibilitychange", () => {
  if (document.hidden) clearTimeout(timer);
  else if (document.body.dataset.refresh) refresh();
});

/* ---- Forms ---- */

/** Switches on what needs the script, and fills in what it makes up. */
function ready(root) {
  for (const button of root.querySelectorAll("[data-needs-script]")) {
    const form = button.closest("form");
    if (!form || !form.hasAttribute(BUSY)) button.disabled = false;
  }
  for (const field of root.querySelectorAll("[data-fill=uuid]")) if (!field.value) field.value = uuid();
}

/** 128 random bits as a UUID. `crypto.randomUUID` is there over TLS and on this machine alone. */
function uuid() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  bytes[6] = (bytes[6] & 0x0f) | 0x40;
  bytes[8] = (bytes[8] & 0x3f) | 0x80;
  const hex = [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("");
  return hex.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, "$1-$2-$3-$4-$5");
}

class Misfit extends Error {
  constructor(field, words) {
    super(words);
    this.field = field;
  }
}

/** What a form says, as the body's text. JSON goes in as it was typed: numbers of any size stay what they are. */
function bodyOf(form, submitter) {
  const headers = { accept: "application/json", "content-type": "application/json" };
  const parts = [];
  const put = (name, text) => parts.push(`${JSON.stringify(name)}:${text}`);
  let confirm = form.dataset.confirm;
  const chosen = new Map();
  for (const field of form.querySelectorAll("input[type=radio]:checked")) {
    chosen.set(field.name, field.value);
    confirm = field.dataset.confirm || confirm;
    put(field.name, JSON.stringify(field.value));
  }
  for (const field of form.querySelectorAll("input:not([type=radio]), select, textarea")) {
    if (!field.name) continue;
    const when = field.closest("[data-when]");
    if (when && ![...chosen.values()].includes(when.dataset.when)) continue;
    const value = field.value;
    if (field.dataset.header) {
      if (value.trim()) headers[field.dataset.header] = value.trim();
    } else if (field.dataset.goes) {
      put(field.name, jsonOf(field, value));
    } else if (value.trim()) {
      put(field.name, JSON.stringify(value));
    } else if (field.required || when) {
      throw new Misfit(field, `${labelOf(field)} is missing.`);
    }
  }
  if (submitter && submitter.name) {
    put(submitter.name, JSON.stringify(submitter.value));
    if (submitter.value === "reject" && !form.querySelector("[name=why]").value.trim()) {
      throw new Misfit(form.querySelector("[name=why]"), "Say why you reject it: the run is told.");
    }
  }
  if (form.dataset.ifMatch) headers["if-match"] = form.dataset.ifMatch;
  return { headers, confirm, body: `{${parts.join(",")}}` };
}

function jsonOf(field, text) {
  if (!text.trim()) throw new Misfit(field, `${labelOf(field)} is missing: give a JSON value, such as null.`);
  try {
    JSON.parse(text);
  } catch (error) {
    throw new Misfit(field, `${labelOf(field)} is not JSON: ${error.message}`);
  }
  return field.dataset.goes === "replace" ? `[{"op":"replace","path":"","value":${text}}]` : text;
}

function labelOf(field) {
  const label = field.labels && field.labels[0];
  return label ? label.firstChild.textContent.trim() : field.name;
}

/** Asks before what cannot be taken back. */
function sure(words) {
  const dialog = byId("confirm");
  byId("confirm-words").textContent = words;
  const { promise, resolve } = withResolvers();
  const yes = byId("confirm-yes");
  const no = byId("confirm-no");
  yes.onclick = () => { resolve(true); dialog.close(); };
  no.onclick = () => dialog.close();
  dialog.onclose = () => resolve(false);
  dialog.showModal();
  no.focus();
  return promise;
}

function withResolvers() {
  const made = {};
  made.promise = new Promise((resolve) => { made.resolve = resolve; });
  return made;
}

function complain(form, words, field) {
  const place = byId(`${form.id}-error`);
  place.textContent = words;
  place.hidden = false;
  for (const marked of form.querySelectorAll("[aria-invalid]")) marked.removeAttribute("aria-invalid");
  if (field) {
    field.setAttribute("aria-invalid", "true");
    field.focus();
  } else {
    place.focus();
  }
}

async function problemOf(answer) {
  try {
    const { title, detail, reference, code } = await answer.json();
    const more = reference ? `\nReference in the log: ${reference}` : "";
    return { code, words: `${title}. ${detail}${more}` };
  } catch {
    return { words: `The API answers with status ${answer.status} and no reason. Try again, or look at its log.` };
  }
}

function busy(form, is) {
  form.toggleAttribute(BUSY, is);
  for (const button of form.querySelectorAll("button")) button.disabled = is;
}

async function send(form, submitter) {
  byId(`${form.id}-error`).hidden = true;
  let made;
  try {
    made = bodyOf(form, submitter);
  } catch (misfit) {
    if (!(misfit instanceof Misfit)) throw misfit;
    complain(form, misfit.message, misfit.field);
    return;
  }
  if (made.confirm && !(await sure(made.confirm))) {
    if (submitter) submitter.focus();
    return;
  }
  busy(form, true);
  let answer;
  try {
    const { method, path } = form.dataset;
    const body = method === "DELETE" ? undefined : made.body;
    answer = await fetch(path, { method, headers: made.headers, body, credentials: "same-origin", cache: "no-store" });
  } catch {
    busy(form, false);
    complain(form, "Nothing has answered. It may have been done all the same: look at the run before you send it again.");
    return;
  }
  if (!answer.ok) {
    const { code, words } = await problemOf(answer);
    busy(form, false);
    form.toggleAttribute("data-failed", true);
    complain(form, words);
    if (code === "stale" || code === "moved-on") offerRenewal(form);
    return;
  }
  await done(form, answer);
}

/** The run has moved on: what was typed is kept until its writer says otherwise. */
function offerRenewal(form) {
  if (form.querySelector("[data-renew]")) return;
  const button = document.createElement("button");
  button.type = "button";
  button.className = "plain";
  button.dataset.renew = "";
  button.textContent = "Drop what I typed and show the run as it is now";
  button.onclick = () => {
    button.remove();
    forget(form);
    refresh();
  };
  form.append(button);
}

function forget(form) {
  form.removeAttribute("data-failed");
  byId(`${form.id}-error`).hidden = true;
  form.reset();
  tag = null;
}

async function done(form, answer) {
  const words = form.dataset.done;
  const { then } = form.dataset;
  if (then === "run") {
    const { run } = await answer.json();
    location.assign(`/runs/${encodeURIComponent(run)}`);
    return;
  }
  if (then === "back") return location.assign(nextPath());
  if (then === "login") return location.assign("/login");
  busy(form, false);
  forget(form);
  const box = form.closest("details.act-box");
  if (box) box.open = false;
  if (then === "show") {
    const { url } = await answer.json();
    const said = note(box || form, words, true);
    said.append(" ", Object.assign(document.createElement("code"), { textContent: url }));
    return;
  }
  // A card may be gone with what was done: what is said of it stands before it.
  note(form.closest("article") || box || form, words);
  say(words);
  refresh();
}

/** Says beside a form what it has done, for a while or until the page is left. */
function note(beside, words, stays) {
  // What was said of an earlier act may not be true any more.
  for (const old of document.querySelectorAll("[data-said]:not([data-stays])")) old.remove();
  const said = document.createElement("p");
  said.className = "said";
  said.dataset.said = "";
  said.tabIndex = -1;
  said.textContent = words;
  beside.before(said);
  said.focus();
  if (stays) said.dataset.stays = "";
  else setTimeout(() => said.remove(), 15000);
  return said;
}

/** Where the login leads: back, and never to another host. */
function nextPath() {
  const next = new URLSearchParams(location.search).get("next") || "/runs";
  const base = location.origin;
  const url = URL.canParse(next, base) ? new URL(next, base) : null;
  // "/.//host" is a path of ours, "//host"; by itself that would be read as the name of a host.
  const isOurs = url && url.origin === base && !url.pathname.startsWith("//") && url.pathname !== "/login";
  return isOurs ? url.pathname + url.search + url.hash : "/runs";
}

function loginPath() {
  return `/login?next=${encodeURIComponent(location.pathname + location.search)}`;
}

document.addEventListener("submit", (event) => {
  const form = event.target;
  if (!form.dataset.path) return;
  event.preventDefault();
  if (!form.hasAttribute(BUSY)) send(form, event.submitter);
});

// Enter in a line of text would press the first of several buttons, such as "Approve": which one is for a person to say.
document.addEventListener("keydown", (event) => {
  const { form, tagName } = event.target;
  if (event.key !== "Enter" || event.isComposing || tagName !== "INPUT" || !form || !form.dataset.path) return;
  if ([...form.elements].filter((field) => field.type === "submit").length > 1) event.preventDefault();
});

document.addEventListener("input", (event) => {
  event.target.removeAttribute("aria-invalid");
});

ready(document);
// What is new stands at the right.
for (const chart of document.querySelectorAll(".scroll > .chart")) chart.parentElement.scrollLeft = chart.parentElement.scrollWidth;
schedule();
