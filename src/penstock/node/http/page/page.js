// The dashboard: follows /api/v1/live, shows it, and sends what the operator decides.
// Names and topics are strangers' text: everything is written as text, never as markup.

import { Charts } from "./chart.js";

const API = "/api/v1";
const EXAMPLE = `name: example
attribute: value                 # what the filters look at, unless one says otherwise
digest: [count, mean, min, max]  # told about what was dropped
levels:
  - drop: {delta: 1}             # changes smaller than 1
  - keep: {latest_by: $topic}    # the newest of each topic
`;

const $ = (id) => document.getElementById(id);
const whole = new Intl.NumberFormat("en-GB", { maximumFractionDigits: 0 });
const short = new Intl.NumberFormat("en-GB", { notation: "compact", maximumSignificantDigits: 3 });
const percent = new Intl.NumberFormat("en-GB", { style: "percent", maximumFractionDigits: 1 });

const state = {
  snapshot: null,
  found: null, // what a search answered
  chosen: null, // {client_id, filter}
  series: null, // of what is chosen
  open: new Set(), // clients with details shown
  tone: null, // what the text area's policy is: true fine, false not
};

// -- writing ----------------------------------------------------------------------------------------------------

/** An element with properties and children; texts become text. */
function h(name, properties = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(properties)) {
    if (key === "class") made.className = value;
    else if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (value !== null && value !== undefined) made.setAttribute(key, value);
  }
  made.append(...children);
  return made;
}

function write(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

function tone(element, name) {
  if (name) element.dataset.tone = name;
  else delete element.dataset.tone;
}

/** Make a list of elements show a list of things, keeping the elements of things that stay (and their focus). */
function keyed(parent, things, key, make, update) {
  const before = new Map([...parent.children].map((child) => [child.dataset.key, child]));
  let place = parent.firstElementChild;
  for (const thing of things) {
    const name = key(thing);
    let child = before.get(name);
    before.delete(name);
    if (!child) {
      child = make(thing);
      child.dataset.key = name;
    }
    update(child, thing);
    if (child === place) place = place.nextElementSibling;
    else parent.insertBefore(child, place);
  }
  for (const child of before.values()) child.remove();
}

function duration(us) {
  if (us < 1_000) return `${us} µs`;
  if (us < 1_000_000) return `${(us / 1e3).toPrecision(us < 1e5 ? 2 : 3)} ms`;
  const s = us / 1e6;
  if (s < 60) return `${s.toFixed(s < 10 ? 1 : 0)} s`;
  if (s < 3_600) return `${Math.floor(s / 60)} min ${Math.floor(s % 60)} s`;
  if (s < 86_400) return `${Math.floor(s / 3_600)} h ${Math.floor((s % 3_600) / 60)} min`;
  return `${Math.floor(s / 86_400)} d ${Math.floor((s % 86_400) / 3_600)} h`;
}

function bytes(count) {
  const units = ["B", "KB", "MB", "GB", "TB"];
  let unit = 0;
  while (count >= 1_000 && unit < units.length - 1) { count /= 1_000; unit += 1; }
  return `${count < 10 && unit ? count.toFixed(1) : Math.round(count)} ${units[unit]}`;
}

const rate = (perSecond) => `${perSecond && perSecond < 10 ? perSecond.toFixed(1) : short.format(perSecond)}/s`;
const name = ({ client_id, filter }) => JSON.stringify([client_id, filter]);
const fullness = (share) => (share >= 0.9 ? "bad" : share >= 0.5 ? "warn" : null);
// A queue that is empty keeps its level for the next pack; that is nothing to worry about.
const levelTone = ({ level, items }) => (!items || !level ? null : level >= 3 ? "bad" : "warn");

// -- asking -----------------------------------------------------------------------------------------------------

class Problem extends Error {
  constructor(status, body) {
    super(body?.detail ?? `the node answered ${status}`);
    this.status = status;
    this.body = body;
  }
}

async function ask(path, { body, signal } = {}) {
  for (;;) {
    const headers = {};
    const token = sessionStorage.getItem("token");
    if (token) headers.Authorization = `Bearer ${token}`;
    if (body !== undefined) headers["Content-Type"] = "application/json";
    const response = await fetch(API + path, {
      method: body === undefined ? "GET" : "POST",
      headers,
      body: body === undefined ? undefined : JSON.stringify(body),
      signal,
      cache: "no-store",
    });
    if (response.ok) return response;
    if (response.status !== 401) throw new Problem(response.status, await response.json().catch(() => null));
    await askToken(token);
  }
}

const get = async (path, options) => (await ask(path, options)).json();
const post = async (path, body) => (await ask(path, { body })).json();

let asking = null;

/** One question at a time, however many requests were refused; none if another request has asked already. */
async function askToken(refused) {
  if (sessionStorage.getItem("token") !== refused) return;
  asking ??= new Promise((done) => {
    const dialog = $("ask-token");
    dialog.addEventListener("close", () => {
      sessionStorage.setItem("token", $("token").value);
      $("token").value = "";
      asking = null;
      done();
    }, { once: true });
    dialog.showModal();
  });
  await asking;
}
$("ask-token").addEventListener("cancel", (event) => event.preventDefault());

function confirmed(title, text, yes) {
  return new Promise((done) => {
    const dialog = $("confirm");
    write($("confirm-title"), title);
    write($("confirm-text"), text);
    write($("confirm-yes"), yes);
    dialog.returnValue = "no";
    dialog.addEventListener("close", () => done(dialog.returnValue === "yes"), { once: true });
    dialog.showModal();
  });
}

// -- following --------------------------------------------------------------------------------------------------

let following = null;

async function follow() {
  if (following) return;
  const stop = (following = new AbortController());
  let pause = 500;
  while (!stop.signal.aborted) {
    try {
      const response = await ask("/live", { signal: stop.signal });
      pause = 500;
      await read(response.body.getReader());
    } catch (error) {
      if (stop.signal.aborted) break;
      if (error instanceof Problem) notice(error.message);
    }
    if (stop.signal.aborted) break;
    live("lost", "reconnecting");
    await new Promise((go) => setTimeout(go, pause));
    pause = Math.min(pause * 2, 8_000);
  }
}

/** Server-sent events by hand: EventSource cannot carry a token. */
async function read(reader) {
  const decoder = new TextDecoder();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    rest += decoder.decode(value, { stream: true });
    const events = rest.split("\n\n");
    rest = events.pop();
    // Only the newest counts if several came at once.
    const last = events.findLast((event) => event.startsWith("data: "));
    if (last) await shown(JSON.parse(last.slice(6)));
  }
}

function live(kind, text) {
  $("live").dataset.state = kind;
  write($("live"), text);
}

function notice(text) {
  $("notice").hidden = !text;
  write($("notice"), text);
}

async function shown(snapshot) {
  state.snapshot = snapshot;
  live("live", "live");
  notice("");
  showOverview(snapshot.overview);
  offerChoices();
  showSlow(snapshot.slow);
  showClients();
  await Promise.all([fetchSeries(), state.search ? search() : null]);
}

document.addEventListener("visibilitychange", () => {
  if (document.hidden) {
    following?.abort();
    following = null;
    live("waiting", "paused");
  } else follow();
});

// -- overview ---------------------------------------------------------------------------------------------------

function showOverview(node) {
  write($("version"), node.version);
  write($("uptime"), `up ${duration(node.now_us - node.started_us)}`);
  const account = node.account;
  for (const part of ["accepted", "delivered", "digested", "queued", "abandoned"]) {
    write($(`account-${part}`), whole.format(account[part]));
  }
  $("account").dataset.balanced = node.balanced ? "yes" : "no";
  write($("account-sign"), node.balanced ? "=" : "≠");
  const missing = account.accepted - account.delivered - account.digested - account.queued - account.abandoned;
  write($("account-verdict"), node.balanced ? "✓ every event accounted for"
    : `✗ ${whole.format(Math.abs(missing))} events ${missing > 0 ? "missing" : "too many"}`);
  for (const part of $("account-bar").children) {
    part.style.width = `${(100 * account[part.className]) / Math.max(1, account.accepted)}%`;
  }
  const refused = Object.entries(node.refused).filter(([, count]) => count);
  const tiles = [
    ["clients", "Clients", whole.format(node.attached), `${whole.format(node.detached)} detached`],
    ["received", "Received", rate(node.rates.messages_received), `${bytes(node.rates.bytes_received)}/s`],
    ["sent", "Sent", rate(node.rates.messages_sent), `${bytes(node.rates.bytes_sent)}/s`],
    ["digested", "Digested", rate(node.rates.digested), "counted in digests"],
    ["queued", "Queued", whole.format(account.queued), `in ${whole.format(node.waiting)} of ${whole.format(node.subscriptions)} queues`],
    ["behind", "Behind", whole.format(node.behind), "taking nothing now", node.behind ? "warn" : null],
    ["retained", "Retained", whole.format(node.retained), bytes(node.retained_bytes)],
    ["refused", "Refused", whole.format(refused.reduce((sum, [, count]) => sum + count, 0)),
      refused.sort((a, b) => b[1] - a[1]).slice(0, 1).map(([why]) => why).join() || "nothing so far"],
  ];
  keyed($("tiles"), tiles, ([key]) => key,
    () => h("div", { class: "tile" }, h("dt"), h("dd"), h("dd", { class: "small" })),
    (tile, [key, title, value, note, mood]) => {
      tile.id = `tile-${key}`;
      tone(tile, mood);
      [title, value, note].forEach((text, n) => write(tile.children[n], text));
    });
}

// -- slow receivers ---------------------------------------------------------------------------------------------

function showSlow(rows) {
  $("slow-none").hidden = rows.length > 0;
  write($("slow-count"), rows.length ? whole.format(state.snapshot.overview.waiting) : "");
  keyed($("slow-list"), rows, (row) => name({ client_id: row.client_id, filter: row.subscription.filter }), (row) => {
    const target = { client_id: row.client_id, filter: row.subscription.filter };
    return h("li", {}, h("button", { type: "button", onclick: () => choose(target) },
      h("span", { class: "who" }), h("span", { class: "age" }), h("span", { class: "what" }), h("span", { class: "what right" }),
      h("span", { class: "bar" }, h("span"))));
  }, (item, row) => {
    const one = row.subscription;
    const button = item.firstElementChild;
    const [who, age, what, level, bar] = button.children;
    write(who, row.client_id);
    who.title = row.client_id;
    write(age, duration(one.oldest_us));
    write(what, `${one.filter} · ${row.state}${one.policy ? ` · ${one.policy}` : ""}`);
    write(level, `level ${one.level} · ${whole.format(one.items)}`);
    fill(bar, one.items);
    button.setAttribute("aria-pressed", String(isChosen(row.client_id, one.filter)));
  });
}

function fill(bar, items) {
  const share = Math.min(1, items / state.snapshot.overview.queue_events);
  bar.firstElementChild.style.width = `${100 * share}%`;
  tone(bar, fullness(share));
}

// -- what is chosen, and its timeline ---------------------------------------------------------------------------

const isChosen = (client_id, filter) => state.chosen?.client_id === client_id && state.chosen.filter === filter;

function choose(target) {
  state.chosen = target;
  state.series = null;
  offerChoices();
  showSlow(state.snapshot.slow);
  showTarget();
  fetchSeries();
}

function offerChoices() {
  const known = new Map();
  for (const row of state.snapshot.slow) {
    known.set(name({ client_id: row.client_id, filter: row.subscription.filter }), [row.client_id, row.subscription.filter]);
  }
  for (const client of [...state.snapshot.clients, ...(state.found?.clients ?? [])]) {
    for (const one of client.subscriptions) known.set(name({ client_id: client.client_id, filter: one.filter }), [client.client_id, one.filter]);
  }
  if (!state.chosen && known.size) {
    const [client_id, filter] = known.values().next().value;
    state.chosen = { client_id, filter };
    showTarget();
  }
  if (state.chosen) known.set(name(state.chosen), [state.chosen.client_id, state.chosen.filter]);
  const options = [...known].sort(([, a], [, b]) => (a[0] < b[0] ? -1 : a[0] > b[0] ? 1 : a[1] < b[1] ? -1 : 1));
  const select = $("chosen");
  if (document.activeElement !== select) {
    keyed(select, options, ([key]) => key, ([key]) => h("option", { value: key }),
      (option, [, [client, filter]]) => write(option, `${client} · ${filter}`));
  }
  if (state.chosen) select.value = name(state.chosen);
}

$("chosen").addEventListener("change", () => {
  const [client_id, filter] = JSON.parse($("chosen").value);
  choose({ client_id, filter });
});
$("span").addEventListener("change", () => drawSeries());

const charts = new Charts($("charts"), [
  {
    title: "Queue", show: (value) => short.format(value), least: 10,
    bound: () => state.snapshot?.overview.queue_events,
    lines: [{ key: "items", name: "items", mark: "queued", area: true }],
  },
  { title: "Level", show: (value) => String(value), lines: [{ key: "level", name: "level", mark: "level-mark", step: true, area: true }] },
  {
    title: "Latency", show: duration, least: 1_000,
    lines: [
      { key: "latency_p99_us", name: "p99", mark: "digested" },
      { key: "latency_p50_us", name: "p50", mark: "digested", faint: true },
    ],
  },
  {
    title: "Events/s", show: (value) => short.format(value), least: 10,
    lines: [{ key: "delivered_per_s", name: "delivered", mark: "delivered" }, { key: "digested_per_s", name: "digested", mark: "digested" }],
  },
]);

async function fetchSeries() {
  const chosen = state.chosen;
  if (!chosen) return;
  const since = state.series?.at_us.at(-1) ?? 0;
  const query = new URLSearchParams({ client: chosen.client_id, filter: chosen.filter, since_us: since });
  const fresh = (await get(`/history?${query}`).catch(() => null))?.series;
  if (!fresh || state.chosen !== chosen || (state.series?.at_us.at(-1) ?? 0) !== since) return;
  state.series = state.series
    ? Object.fromEntries(Object.entries(state.series).map(([key, list]) => [key, [...list, ...fresh[key]].slice(-600)]))
    : fresh;
  drawSeries();
}

function drawSeries() {
  const known = state.series?.at_us.length > 0;
  $("charts").hidden = !known;
  $("timeline-none").hidden = known;
  write($("timeline-none"), state.chosen ? "Nothing is remembered of this subscription yet." : "Choose a subscription.");
  if (known) charts.show(state.series, Number($("span").value));
}

// -- clients ----------------------------------------------------------------------------------------------------

const LABELS = ["", "State", "Queue", "Level", "Oldest", "Latency p99", "Dropped by filter", "Digests", "Delivered"];

function showClients() {
  const rows = state.search ? state.found?.clients ?? [] : state.snapshot.clients;
  const total = state.search ? state.found?.total ?? 0 : state.snapshot.overview.attached + state.snapshot.overview.detached;
  $("clients-none").hidden = rows.length > 0;
  write($("clients-none"), state.search ? "No client matches." : "No clients.");
  write($("clients-count"), rows.length < total ? `${whole.format(rows.length)} of ${whole.format(total)}, those behind first` : whole.format(total));
  const lines = rows.flatMap((client) => (state.open.has(client.client_id) ? [[client, false], [client, true]] : [[client, false]]));
  keyed($("client-rows"), lines, ([client, details]) => JSON.stringify([client.client_id, details]),
    ([client, details]) => (details ? makeDetails(client) : makeClient(client)),
    (row, [client, details]) => (details ? showDetails(row, client) : showClient(row, client)));
}

function makeClient(client) {
  const toggle = h("button", { type: "button", "aria-expanded": "false", onclick: () => {
    if (!state.open.delete(client.client_id)) state.open.add(client.client_id);
    showClients();
  } }, h("span"));
  const cells = [
    h("td", { class: "who" }, toggle, h("small")),
    h("td", {}, h("span", { class: "state" })),
    h("td", { class: "depth" }, h("span"), h("span", { class: "bar" }, h("span"))),
    h("td", {}, h("span", { class: "level" })),
    h("td", { class: "number" }), h("td", { class: "number" }),
    h("td", { class: "dropped" }, h("div", { class: "chips" })),
    h("td", { class: "number" }), h("td", { class: "number" }),
  ];
  LABELS.forEach((label, n) => { if (label) cells[n].dataset.label = label; });
  return h("tr", {}, ...cells);
}

function showClient(row, client) {
  const [who, mood, depth, level, oldest, latency, dropped, digests, delivered] = row.children;
  const [toggle, small] = who.children;
  write(toggle.firstElementChild, client.client_id);
  toggle.title = client.client_id;
  toggle.setAttribute("aria-expanded", String(state.open.has(client.client_id)));
  write(small, [client.user, client.address].filter(Boolean).join(" · "));
  const kind = client.state === "attached" && client.behind ? "behind" : client.state;
  mood.firstElementChild.dataset.state = kind;
  write(mood.firstElementChild, kind);
  write(depth.firstElementChild, `${whole.format(client.items)}${client.items ? ` · ${bytes(client.bytes)}` : ""}`);
  fill(depth.lastElementChild, client.items);
  write(level.firstElementChild, String(client.level));
  tone(level.firstElementChild, levelTone(client));
  write(oldest, client.items ? duration(client.oldest_us) : "–");
  write(latency, client.latency_p99_us ? duration(client.latency_p99_us) : "–");
  showChips(dropped.firstElementChild, filtersOf(client.subscriptions), 3);
  write(digests, whole.format(client.digests));
  write(delivered, whole.format(client.account.delivered));
}

/** The filters of several subscriptions added up, those that dropped most first. */
function filtersOf(subscriptions) {
  const sums = new Map();
  for (const { filters } of subscriptions) {
    for (const { level, position, filter, seen, dropped } of filters) {
      const key = level ? `${level}.${position} ${filter}` : filter;
      const sum = sums.get(key) ?? { key, seen: 0, dropped: 0 };
      sums.set(key, { key, seen: sum.seen + seen, dropped: sum.dropped + dropped });
    }
  }
  return [...sums.values()].filter(({ dropped }) => dropped).sort((a, b) => b.dropped - a.dropped);
}

function showChips(box, filters, most) {
  const few = filters.slice(0, most);
  const chips = few.map(({ key, seen, dropped }) => [key, ` ${short.format(dropped)}`, `${key}: dropped ${whole.format(dropped)} of ${whole.format(seen)} events it saw`]);
  keyed(box, filters.length > most ? [...chips, ["…", `+${filters.length - most}`, ""]] : chips, ([key]) => key,
    ([key]) => (key === "…" ? h("span", { class: "chip more" }, h("b"), "") : h("span", { class: "chip" }, `${key} `, h("b"))),
    (chip, [, count, title]) => { write(chip.querySelector("b"), count.trim()); chip.title = title; });
}

function makeDetails(client) {
  const heads = ["Subscription", "Policy", "Queue", "Level", "Packs", "Dropped by filter", "Digests", "Accepted = delivered + digested + queued + abandoned", ""];
  return h("tr", { class: "details" }, h("td", { colspan: "9" },
    h("p", { class: "facts" }, h("span", { class: "text" }), h("button", { type: "button", onclick: () => disconnect(client.client_id) }, "Disconnect")),
    h("div", { class: "inner" }, h("table", {}, h("thead", {}, h("tr", {}, ...heads.map((head) => h("th", { scope: "col" }, head)))), h("tbody")))));
}

function showDetails(row, client) {
  const since = new Date(client.since_us / 1000).toLocaleString("en-GB");
  const facts = [
    `MQTT ${client.protocol === 5 ? "5" : "3.1.1"}`, `${client.state} since ${since}`,
    client.expires_us ? `departs ${new Date(client.expires_us / 1000).toLocaleString("en-GB")}` : "",
    `received ${whole.format(client.received)}`, `sent ${whole.format(client.sent)}`, `in flight ${whole.format(client.in_flight)}`,
    client.subscription_count > client.subscriptions.length ? `${client.subscriptions.length} of ${client.subscription_count} subscriptions` : "",
  ];
  write(row.querySelector(".text"), facts.filter(Boolean).join(" · "));
  row.querySelector("button").disabled = client.state !== "attached";
  keyed(row.querySelector("tbody"), client.subscriptions, (one) => one.filter, (one) => h("tr", {},
    h("td", { class: "topic" }), h("td"), h("td"), h("td", {}, h("span", { class: "level" })), h("td"),
    h("td", {}, h("div", { class: "chips" })), h("td"), h("td"),
    h("td", {}, h("button", { type: "button", onclick: () => { choose({ client_id: client.client_id, filter: one.filter }); $("timeline").scrollIntoView({ block: "nearest" }); } }, "Choose"))),
  (line, one) => {
    const [filter, policy, queue, level, packs, dropped, digests, account] = line.children;
    write(filter, `${one.filter} (QoS ${one.qos})`);
    write(policy, `${one.policy || "none"}${one.content_filter ? " + content filter" : ""}`);
    write(queue, `${whole.format(one.items)} · ${bytes(one.bytes)}`);
    write(level.firstElementChild, String(one.level));
    tone(level.firstElementChild, levelTone(one));
    write(packs, whole.format(one.packs));
    showChips(dropped.firstElementChild, filtersOf([one]), 64);
    write(digests, whole.format(one.digests));
    const { accepted, delivered, digested, queued, abandoned } = one.account;
    const sign = accepted === delivered + digested + queued + abandoned ? "=" : "≠";
    write(account, `${whole.format(accepted)} ${sign} ${[delivered, digested, queued, abandoned].map((n) => whole.format(n)).join(" + ")}`);
  });
}

async function disconnect(clientId) {
  if (!(await confirmed("Disconnect?", `The connection of ${clientId} is ended; its session lives on as it was agreed.`, "Disconnect"))) return;
  try {
    await post("/disconnect", { client_id: clientId });
  } catch (error) {
    notice(error.message);
  }
}

let searches = 0;

async function search() {
  const mine = (searches += 1);
  const found = await get(`/clients?${new URLSearchParams({ search: state.search, limit: 100 })}`).catch(() => null);
  if (mine !== searches || !found) return;
  state.found = found;
  showClients();
}

$("search").addEventListener("input", () => {
  state.search = $("search").value.trim();
  state.found = null;
  if (state.search) search();
  else if (state.snapshot) showClients();
});

// -- policies ---------------------------------------------------------------------------------------------------

const text = $("policy-text");
let checks = 0;
let waiting = 0;

async function check() {
  const mine = (checks += 1);
  const found = await post("/policy/check", { policy: text.value }).catch((error) => ({ ok: false, error: error.message }));
  if (mine !== checks) return;
  state.tone = found.ok;
  const box = $("policy-check");
  if (found.ok) {
    const warnings = (found.warnings ?? []).map((warning) => h("p", { class: "warning" }, `⚠ ${warning}`));
    box.replaceChildren(h("p", { class: "ok" }, "✓ understood"), ...(found.explanation ?? []).map((line) => h("p", {}, line)), ...warnings);
  } else {
    const { line, column } = found.facts ?? {};
    const jump = line ? [h("p", {}, h("button", { type: "button", onclick: () => goTo(line, column ?? 1) }, `Go to line ${line}`))] : [];
    box.replaceChildren(h("p", { class: "wrong" }, "✗ not understood"), h("p", {}, found.error), ...jump);
  }
  showTarget();
}

function goTo(line, column) {
  const before = text.value.split("\n").slice(0, line - 1).reduce((sum, one) => sum + one.length + 1, 0);
  text.focus();
  text.setSelectionRange(before + column - 1, before + (text.value.split("\n")[line - 1] ?? "").length);
}

text.addEventListener("input", () => {
  clearTimeout(waiting);
  waiting = setTimeout(check, 300);
});
text.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
    event.preventDefault();
    $("try-form").requestSubmit();
  }
});

function showTarget() {
  const chosen = state.chosen;
  write($("target"), chosen ? `${chosen.client_id} · ${chosen.filter}` : "no subscription chosen");
  $("target").title = $("target").textContent;
  $("apply").disabled = !chosen || !state.tone;
  $("unapply").disabled = !chosen;
  $("try").disabled = !state.tone;
}

function said(words, mood = null) {
  write($("policy-said"), words);
  tone($("policy-said"), mood);
}

$("try-form").addEventListener("submit", async (event) => {
  event.preventDefault();
  const seconds = Number($("try-seconds").value) || 3;
  const button = $("try");
  button.disabled = true;
  $("tried").hidden = true;
  said(`Listening for up to ${seconds} s …`);
  try {
    showTried(await post("/policy/try", { policy: text.value, filter: $("try-filter").value || "#", seconds }));
  } catch (error) {
    said(error.message, "bad");
  }
  button.disabled = false;
});

function showTried(found) {
  if (!found.events) {
    said(`No event matched within ${found.seconds.toFixed(1)} s; try a wider topic filter or a longer time.`, "bad");
    return;
  }
  said(`${whole.format(found.events)} events of ${whole.format(found.topics)} topics in ${found.seconds.toFixed(1)} s, packed as one queue. Nobody's queue was touched.`, "good");
  const share = (part) => {
    const bar = h("span", { class: "bar" }, h("span"));
    bar.firstElementChild.style.width = `${100 * part}%`;
    return h("div", { class: "share" }, bar, percent.format(part));
  };
  const table = (caption, heads, rows) => h("div", {}, h("h3", {}, caption), h("table", {},
    h("thead", {}, h("tr", {}, ...heads.map((head, n) => h("th", { scope: "col", class: n ? "number" : "" }, head)))),
    h("tbody", {}, ...rows.map((row) => h("tr", {}, ...row.map((cell, n) => h("td", { class: n ? "number" : "" }, cell)))))));
  const levels = table("At each level", ["Level", "Kept", "Digested", "Digests", "Share kept"],
    found.levels.map((one) => [one.level ? String(one.level) : "worst case", whole.format(one.kept), whole.format(one.digested), whole.format(one.digests), share(one.share)]));
  levels.id = "tried-levels";
  const filters = table("Each filter", ["Filter", "Saw", "Dropped", "Share dropped"],
    found.filters.map((one) => [`${one.level}.${one.position} ${one.filter}`, whole.format(one.seen), whole.format(one.dropped), percent.format(one.seen ? one.dropped / one.seen : 0)]));
  filters.id = "tried-filters";
  const items = h("div", { class: "wide" }, h("h3", {}, `The queue after the highest level${found.items_total > found.items.length ? `, ${found.items.length} of ${whole.format(found.items_total)} items` : ""}`),
    h("div", { class: "items", tabindex: "0", role: "region", "aria-label": "Items" }, h("table", {}, h("tbody", {}, ...found.items.map(itemRow)))));
  $("tried").replaceChildren(levels, filters, items);
  $("tried").hidden = false;
}

function itemRow({ event, digest }) {
  if (event) return h("tr", {}, h("td", {}, "event"), h("td", { class: "topic" }, event.topic), h("td", { class: "mono" }, event.payload));
  const about = Object.entries(digest.attributes).map(([attribute, facts]) => `${attribute}: ${Object.entries(facts).filter(([key]) => key !== "n")
    .map(([key, value]) => `${key} ${typeof value === "number" ? Number(value.toPrecision(5)) : typeof value === "object" ? JSON.stringify(value) : value}`).join(", ")}`);
  const causes = digest.causes.map((one) => `${one.level ? `${one.level}.${one.position} ` : ""}${one.filter} ${whole.format(one.count)}`).join(", ");
  return h("tr", { class: "digest" }, h("td", {}, "digest"), h("td", {}, `${whole.format(digest.count)} dropped`), h("td", {}, [...about, `by ${causes}`].join("; ")));
}

async function install(policy) {
  const { client_id, filter } = state.chosen;
  const [title, words, yes] = policy === null
    ? ["Remove the policy?", `${client_id} · ${filter}: from now on a full queue drops the oldest events into one digest.`, "Remove"]
    : ["Apply the policy?", `${client_id} · ${filter}: its queue keeps what waits; from now on this policy decides what may go.`, "Apply"];
  if (!(await confirmed(title, words, yes))) return;
  try {
    const row = await post("/policy/apply", { client_id, filter, policy });
    said(policy === null ? `${client_id} · ${filter} has no policy any more.` : `${client_id} · ${filter} now has the policy ${row.subscription.policy || "inline"}.`, "good");
  } catch (error) {
    said(error.message, "bad");
  }
}
$("apply").addEventListener("click", () => install(text.value));
$("unapply").addEventListener("click", () => install(null));

$("registered").addEventListener("change", async () => {
  const chosen = $("registered").value;
  try {
    text.value = chosen ? (await get(`/policies/${encodeURIComponent(chosen)}`)).policy.text : EXAMPLE;
    await check();
  } catch (error) {
    said(error.message, "bad");
  }
});

async function offerRegistered() {
  const { policies } = await get("/policies").catch(() => ({ policies: [] }));
  const offered = policies.map(({ name: title, policy }) => h("option", { value: title }, policy.ok ? title : `${title} (not understood)`));
  $("registered").append(...offered);
}

// -- colours ----------------------------------------------------------------------------------------------------

const THEMES = ["automatic", "light", "dark"];

function showTheme(theme) {
  if (theme === "automatic") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  $("theme").setAttribute("aria-label", `Colours: ${theme}`);
  $("theme").title = `Colours: ${theme}`;
  write($("theme"), { automatic: "◐", light: "☀", dark: "☾" }[theme]);
}
$("theme").addEventListener("click", () => {
  const next = THEMES[(THEMES.indexOf(localStorage.getItem("theme") ?? "automatic") + 1) % THEMES.length];
  localStorage.setItem("theme", next);
  showTheme(next);
});

// -- begin ------------------------------------------------------------------------------------------------------

showTheme(THEMES.includes(localStorage.getItem("theme")) ? localStorage.getItem("theme") : "automatic");
text.value = EXAMPLE;
showTarget();
follow();
await check();
await offerRegistered();
