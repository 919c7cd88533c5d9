// The cluster as this node sees it: its nodes, the links to them, and the account of what was for other nodes.

import { get } from "./ask.js";
import { bytes, duration, plural, whole } from "./figures.js";
import { $, columns, h, rows, table, write } from "./write.js";

const NODE = [["Node", "who"], ["State", ""], ["Zone", ""], ["Clients connect to", "topic"], ...columns(["Version"], ["Up", "Clients", "Sessions", "Root of", "Moved here", "Moved away"])];
const LINK = [["Link to", "who"], ...columns(["State"], ["Wants", "Queued", "In flight", "Handed", "Digested", "Abandoned", "Received", "Resent", "Round trip"])];
const STATES = { joining: "warn", draining: "warn", away: "bad" };
const FATES = [["handed", "delivered"], ["digested", "digested"], ["queued", "queued"], ["in_flight", "counted"], ["abandoned", "abandoned"]];

export const page = { name: "cluster", title: "Cluster", part: "cluster", build, show };

function build(box) {
  const terms = FATES.flatMap(([fate, mark], n) => [
    h("span", { class: "sign", ...(n ? {} : { id: "cluster-sign" }) }, n ? "+" : "="), term(fate, ` ${mark}`)]);
  box.append(
    h("p", { id: "cluster-none", class: "empty", hidden: "" }, "This node belongs to no cluster: its configuration has no section cluster:."),
    h("section", { id: "cluster-account", class: "account", "aria-labelledby": "cluster-account-title", "data-balanced": "unknown" },
      h("h2", { id: "cluster-account-title", class: "unseen" }, "Account of the cluster"),
      h("p", { class: "equation" }, term("accepted", ""), ...terms, h("span", { id: "cluster-verdict", class: "verdict", role: "status" })),
      h("div", { id: "cluster-bar", class: "parts", "aria-hidden": "true" }, ...FATES.map(([, mark]) => h("span", { class: mark }))),
      h("p", { class: "beside" }, "Events for other nodes, summed over all nodes. What other nodes tell is some seconds old.")),
    h("section", { id: "cluster-members", class: "card", "aria-labelledby": "cluster-nodes-title" },
      h("div", { class: "head" }, h("h2", { id: "cluster-nodes-title" }, "Nodes"), h("span", { id: "cluster-count", class: "count" })),
      table("cluster-nodes", NODE),
      h("p", { id: "cluster-sessions", class: "beside" })),
    h("section", { id: "cluster-others", class: "card", "aria-labelledby": "cluster-links-title" },
      h("div", { class: "head" }, h("h2", { id: "cluster-links-title" }, "Links of this node"), h("span", { id: "cluster-here", class: "count" })),
      table("cluster-links", LINK),
      h("p", { id: "cluster-alone", class: "empty", hidden: "" })));
}

function term(fate, mark) {
  return h("span", { class: `term${mark}` }, h("b", { id: `cluster-${fate}` }, "–"), h("i", {}, fate.replace("_", " ")));
}

async function show({ overview }) {
  const { status } = await get("/cluster");
  $("cluster-none").hidden = Boolean(status);
  for (const part of ["account", "members", "others"]) $(`cluster-${part}`).hidden = !status;
  if (!status) return;
  showAccount(status);
  showNodes(status, overview);
  showLinks(status);
}

function showAccount({ total, balanced }) {
  for (const fate of ["accepted", ...FATES.map(([name]) => name)]) write($(`cluster-${fate}`), whole.format(total[fate]));
  const missing = FATES.reduce((rest, [fate]) => rest - total[fate], total.accepted);
  $("cluster-account").dataset.balanced = balanced ? "yes" : "no";
  write($("cluster-sign"), balanced ? "=" : "≠");
  write($("cluster-verdict"), balanced ? "✓ every event accounted for"
    : missing ? `✗ ${whole.format(Math.abs(missing))} events ${missing > 0 ? "missing" : "too many"}` : "✗ does not add up at one of the nodes");
  [...$("cluster-bar").children].forEach((part, n) => {
    part.style.width = `${(100 * total[FATES[n][0]]) / Math.max(1, total.accepted)}%`;
  });
}

function showNodes({ cluster, node, incarnation, zone, clients, load, sessions, draining, members }, { now_us, version }) {
  const own = { name: node, own: true, state: draining ? "draining" : "here", incarnation, zone, clients, load, sessions, version };
  const here = 1 + members.filter(({ state }) => state !== "away").length;
  write($("cluster-count"), `${whole.format(here)} of ${plural(1 + members.length, "node")} here · cluster ${cluster}`);
  rows($("cluster-nodes"), [own, ...members], NODE, (row) => [
    row.own ? `${row.name} (this one)` : row.name,
    row.own || row.state === "here" ? row.state : `${row.state} for ${duration(row.since_us)}`,
    row.zone || "–",
    row.clients.join(", ") || "–",
    row.version || "–",
    // By its own clock: another machine's may be ahead.
    row.state === "away" ? "–" : duration(Math.max(0, now_us - row.incarnation)),
    ...(row.state === "here" || row.state === "draining"
      ? [row.load, row.sessions.held, row.sessions.rooted, row.sessions.came, row.sessions.went].map((count) => whole.format(count))
      : Array(5).fill("–")),
  ], 1, ({ state }) => STATES[state] ?? null);
  write($("cluster-sessions"), sessionsOf([sessions, ...members.map((row) => row.sessions)]));
}

/** The sessions of all nodes in a sentence, with what became of those whose node did not answer. */
function sessionsOf(figures) {
  const total = (name) => figures.reduce((sum, row) => sum + row[name], 0);
  const lost = total("recalled") + total("alone");
  const moved = total("came") ? `${plural(total("came"), "client")} moved with everything that waited` : "No client has moved with its session";
  return `${plural(total("held"), "session")} at all nodes. ${moved}`
    + (lost ? `, ${whole.format(lost)} without an answer of the node before` : "")
    + (total("standby") ? `, ${plural(total("standby"), "session")} kept for nodes that are away` : "")
    + (total("abandoned") ? `; ${plural(total("abandoned"), "event")} abandoned` : "")
    + ". A root knows at which node a session is.";
}

function showLinks({ links, address }) {
  const up = links.filter(({ connected }) => connected).length;
  write($("cluster-here"), links.length ? `${whole.format(up)} of ${whole.format(links.length)} up · others join at ${address}` : "");
  $("cluster-links").closest(".scroll").hidden = !links.length;
  $("cluster-alone").hidden = links.length > 0;
  write($("cluster-alone"), `No other node has joined yet. Others join at ${address}: penstock up --join ${address}`);
  rows($("cluster-links"), links, LINK, linkCells, 1, ({ connected }) => (connected ? null : "bad"));
}

function linkCells({ name, connected, filters, events, queued_bytes, in_flight_bytes, resent, damaged, round_trip_us, split, via, direct, private: queues }) {
  const state = queues.map(({ filter, level, events: { queued } }) => `${filter || "no policy"}: ${whole.format(queued)}${level ? ` at level ${level}` : ""}`);
  return [
    name, (connected ? (direct ? "up · direct" : "up · zenoh") : "away") + (via.length ? ` · via ${via.join(" → ")}` : "") + (split ? " · split" : ""), plural(filters, "filter"),
    waiting(events.queued, queued_bytes) + (state.length ? ` (${state.slice(0, 3).join(", ")}${state.length > 3 ? " …" : ""})` : ""), waiting(events.in_flight, in_flight_bytes),
    ...[events.handed, events.digested, events.abandoned, events.received].map((count) => whole.format(count)),
    plural(resent, "frame") + (damaged ? ` · ${whole.format(damaged)} damaged` : ""),
    round_trip_us ? duration(round_trip_us) : "–",
  ];
}

const waiting = (count, size) => `${whole.format(count)}${count || size ? ` · ${bytes(size)}` : ""}`;
