// The overview: the account of all events and of streams, tiles, slow receivers and a timeline.

import { get } from "./ask.js";
import { bytes, duration, rate, whole } from "./figures.js";
import { showSlow } from "./slow.js";
import { fetchSeries } from "./timeline.js";
import { $, h, keyed, tone, write } from "./write.js";

export const page = {
  name: "overview",
  title: "Overview",
  async show({ overview }) {
    showOverview(overview);
    showSlow();
    await Promise.all([fetchSeries(), overview.parts.includes("streams") ? showStreams() : null]);
  },
};

/** What every page shows of the node. */
export function showHeader(node) {
  write($("version"), node.version);
  write($("uptime"), `up ${duration(node.now_us - node.started_us)}`);
  $("faults").hidden = !node.faults.length;
  write($("faults"), node.faults.join("\n"));
}

/** The node does not answer: nothing is known to add up. */
export function showUnknown() {
  for (const account of document.querySelectorAll(".account")) {
    account.dataset.balanced = "unknown";
    write(account.querySelector(".verdict"), "? not known: the node is down");
  }
}

/** Streams have an account of their own: what was published is in the log until all readers have it. */
async function showStreams() {
  const { streams, faults } = await get("/streams?limit=1000");
  const sum = (pick) => streams.reduce((total, row) => total + pick(row), 0);
  const missed = sum(({ readers }) => readers.missed);
  const stopped = streams.filter(({ state }) => state === "stopped").length;
  const parts = [
    `${whole.format(sum(({ hosted, published }) => (hosted ? published : 0)))} published`,
    `${whole.format(sum(({ delivered }) => delivered))} delivered`,
    `${whole.format(sum(({ waiting }) => waiting))} on the way to the disk`,
    missed ? `${whole.format(missed)} × a reader missed something` : "no reader missed anything",
    ...(stopped ? [`${whole.format(stopped)} stopped`] : []),
  ];
  const line = $("account-streams");
  line.hidden = false;
  write(line, `Reliable streams: ${parts.join(" · ")}`);
  tone(line, missed || stopped || faults.length ? "bad" : null);
}

function showOverview(node) {
  const account = node.account;
  for (const part of ["accepted", "delivered", "digested", "counted", "queued", "abandoned"]) {
    write($(`account-${part}`), whole.format(account[part]));
  }
  $("account").dataset.balanced = node.balanced ? "yes" : "no";
  write($("account-sign"), node.balanced ? "=" : "≠");
  const found = account.delivered + account.digested + account.counted + account.queued + account.abandoned;
  const missing = account.accepted - found;
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
    ["digested", "Dropped", rate(node.rates.digested + node.rates.counted),
      node.rates.counted ? `${rate(node.rates.counted)} not in digests` : "told in digests"],
    ["queued", "Queued", whole.format(account.queued),
      `in ${whole.format(node.waiting)} of ${whole.format(node.subscriptions)} queues`],
    ["behind", "Behind", whole.format(node.behind), node.behind ? "taking nothing now" : "all keep up", node.behind ? "warn" : null],
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
