// The table of clients, and what can be done to one.

import { confirmed, get, notice, post } from "./ask.js";
import { bytes, duration, levelTone, plural, short, whole } from "./figures.js";
import { fill } from "./slow.js";
import { choose, state } from "./state.js";
import { $, h, keyed, tone, write } from "./write.js";

const open = new Set(); // clients with details shown
const LABELS = ["", "State", "Queue", "Level", "Oldest", "Latency p99", "Dropped by filter", "Digests", "Delivered"];

const NOBODY = "No client is connected. In a terminal, penstock sub '#' is one; any MQTT client will do.";

export const page = {
  name: "clients",
  title: "Clients",
  async show() {
    showClients();
    if (state.search) await search();
  },
};

function showClients() {
  const { clients, overview } = state.snapshot;
  const rows = state.search ? state.found?.clients ?? [] : clients;
  const total = state.search ? state.found?.total ?? 0 : overview.attached + overview.detached;
  const some = `${whole.format(rows.length)} of ${whole.format(total)}, those behind first`;
  $("clients-none").hidden = rows.length > 0;
  write($("clients-none"), state.search ? "No client matches." : NOBODY);
  write($("clients-count"), rows.length < total ? some : plural(total, "client"));
  const lines = rows.flatMap((client) => (open.has(client.client_id) ? [[client, false], [client, true]] : [[client, false]]));
  keyed($("client-rows"), lines, ([client, details]) => JSON.stringify([client.client_id, details]),
    ([client, details]) => (details ? makeDetails(client) : makeClient(client)),
    (row, [client, details]) => (details ? showDetails(row, client) : showClient(row, client)));
}

function makeClient(client) {
  const toggle = h("button", { type: "button", "aria-expanded": "false", onclick: () => {
    if (!open.delete(client.client_id)) open.add(client.client_id);
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
  toggle.setAttribute("aria-expanded", String(open.has(client.client_id)));
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
  const chips = filters.slice(0, most).map(({ key, seen, dropped }) => ({
    key,
    count: short.format(dropped),
    title: `${key}: dropped ${whole.format(dropped)} of ${whole.format(seen)} events it saw`,
  }));
  if (filters.length > most) chips.push({ key: "", count: `+${filters.length - most}`, title: "more filters" });
  keyed(box, chips, ({ key }) => key,
    ({ key }) => h("span", { class: key ? "chip" : "chip more" }, key && `${key} `, h("b")),
    (chip, { count, title }) => {
      write(chip.lastElementChild, count);
      chip.title = title;
    });
}

const HEADS = [
  "Subscription", "Policy", "Queue", "Level", "Packs", "Dropped by filter", "Digests", "Accepted, and what became of it", "",
];

function makeDetails(client) {
  const heads = HEADS.map((head) => h("th", { scope: "col" }, head));
  const leave = h("button", { type: "button", onclick: () => disconnect(client.client_id) }, "Disconnect");
  return h("tr", { class: "details" }, h("td", { colspan: "9" },
    h("p", { class: "facts" }, h("span", { class: "text" }), leave),
    h("div", { class: "inner" }, h("table", { class: "clients" }, h("thead", {}, h("tr", {}, ...heads)), h("tbody")))));
}

function showDetails(row, client) {
  const when = (us) => new Date(us / 1000).toLocaleString("en-GB");
  const { subscriptions, subscription_count: count } = client;
  const facts = [
    `MQTT ${client.protocol === 5 ? "5" : "3.1.1"}`,
    `${client.state} since ${when(client.since_us)}`,
    client.expires_us ? `departs ${when(client.expires_us)}` : "",
    `received ${whole.format(client.received)}`,
    `sent ${whole.format(client.sent)}`,
    `in flight ${whole.format(client.in_flight)}`,
    count > subscriptions.length ? `${subscriptions.length} of ${count} subscriptions` : "",
  ];
  write(row.querySelector(".text"), facts.filter(Boolean).join(" · "));
  row.querySelector("button").disabled = client.state !== "attached";
  keyed(row.querySelector("tbody"), subscriptions, (one) => one.filter,
    (one) => makeSubscription({ client_id: client.client_id, filter: one.filter }), showSubscription);
}

function makeSubscription(target) {
  const to = (address) => () => {
    choose(target);
    location.hash = address;
  };
  const cell = (n, ...inside) => h("td", { "data-label": HEADS[n], class: n === 5 || n === 7 ? "dropped" : "" }, ...inside);
  return h("tr", {},
    h("td", { class: "topic" }), cell(1), cell(2), cell(3, h("span", { class: "level" })), cell(4),
    cell(5, h("div", { class: "chips" })), cell(6), cell(7),
    h("td", {}, h("button", { type: "button", onclick: to("#/overview") }, "Timeline"), " ",
      h("button", { type: "button", onclick: to("#/policies") }, "Policy")));
}

function showSubscription(line, one) {
  const [filter, policy, queue, level, packs, dropped, digests, account] = line.children;
  write(filter, `${one.filter} (QoS ${one.qos})`);
  write(policy, `${one.policy || "none"}${one.content_filter ? " + content filter" : ""}`);
  write(queue, `${whole.format(one.items)} · ${bytes(one.bytes)}`);
  write(level.firstElementChild, String(one.level));
  tone(level.firstElementChild, levelTone(one));
  write(packs, whole.format(one.packs));
  showChips(dropped.firstElementChild, filtersOf([one]), 64);
  write(digests, whole.format(one.digests));
  write(account, equation(one.account));
}

function equation({ accepted, ...fates }) {
  const sum = Object.values(fates).reduce((total, count) => total + count, 0);
  const told = Object.entries(fates).filter(([fate, count]) => count || fate === "delivered");
  const terms = told.map(([fate, count]) => `${whole.format(count)} ${fate}`);
  return `${whole.format(accepted)} ${accepted === sum ? "=" : "≠"} ${terms.join(" + ")}`;
}

async function disconnect(clientId) {
  const words = `The connection of ${clientId} is closed; its session stays until it expires.`;
  if (!(await confirmed("Disconnect?", words, "Disconnect"))) return;
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
