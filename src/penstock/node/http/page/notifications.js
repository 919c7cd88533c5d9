// Notifications: what was sent, who is told of which page, and how to begin and end that.

import { confirmed, get, post } from "./ask.js";
import { plural, whole } from "./figures.js";
import { $, h, keyed, tone, write } from "./write.js";

const SHOWN = 100;
const KINDS = { webhook: "URL that takes a POST", xmpp: "ann@example.org", apprise: "name of a target", feed: "name of a reader" };
const SETTINGS = {
  webhook: ["Programs get a signed POST.", "notify:\n  webhook: {enabled: true}\n"],
  xmpp: ["People get a message in their chat.", "notify:\n  xmpp: {jid: penstock@example.org, password_file: xmpp-password}\n"],
  apprise: ["E-mail, and services such as Telegram, Slack, ntfy or Matrix.",
    "notify:\n  apprise:\n    targets:\n      - {name: mail, url: 'mailto://user:password@example.org'}\n"],
  feed: ["Feed readers fetch an Atom feed.", "notify:\n  feeds: {enabled: true}\n"],
};
const LABELS = ["", "Page", "Policy", "State", ""];

export const page = { name: "notifications", title: "Notifications", part: "notify", build, show };

function build(box) {
  box.append(
    h("dl", { id: "notify-tiles", class: "tiles" }),
    h("p", { id: "notify-fault", class: "notice bad", role: "alert", hidden: "" }),
    h("section", { class: "card", "aria-labelledby": "told-title" },
      h("div", { class: "head" }, h("h2", { id: "told-title" }, "Who is told of which page"), h("span", { id: "told-count", class: "count" })),
      h("form", { id: "told-form", class: "actions first" },
        h("label", {}, "Tell ", h("select", { id: "told-kind" })),
        h("label", { class: "wide" }, h("span", { class: "unseen" }, "Address"), h("input", { id: "told-who", required: "", maxlength: "4000",
          spellcheck: "false", autocomplete: "off" })),
        h("label", { class: "wide" }, "of ", h("input", { id: "told-url", type: "url", required: "", maxlength: "2048", autocomplete: "off", placeholder: "URL of a page or feed" })),
        h("button", { class: "main", type: "submit" }, "Subscribe"),
        h("button", { id: "told-test", type: "button", onclick: test }, "Send a test")),
      h("p", { id: "told-said", class: "said", role: "status" }),
      h("table", { class: "clients" }, h("thead", {}, h("tr", {}, ...["Subscriber", "Page", "Policy", "State", ""].map((head) =>
        h("th", { scope: "col" }, head || h("span", { class: "unseen" }, "Actions"))))), h("tbody", { id: "told-rows" })),
      h("p", { id: "told-none", class: "empty" }, "Nobody is told of any page yet.")),
    h("section", { class: "card", "aria-labelledby": "ways-title" },
      h("div", { class: "head" }, h("h2", { id: "ways-title" }, "Transports")),
      h("div", { id: "ways" }),
      h("div", { id: "ways-off" })));
  $("told-form").addEventListener("submit", subscribe);
  $("told-kind").addEventListener("change", hint);
}

async function show() {
  const [status, found] = await Promise.all([get("/notify"), get(`/notify/subscribers?limit=${SHOWN}`)]);
  const tiles = [
    ["Sent", status.sent, "one by one"], ["In digests", status.digested, "changes told together"],
    ["Waiting", status.waiting, `for ${plural(status.subscribers, "subscriber")}`], ["Forgotten", status.forgotten, "subscription ended before"],
  ];
  keyed($("notify-tiles"), tiles, ([title]) => title, () => h("div", { class: "tile" }, h("dt"), h("dd"), h("dd", { class: "small" })),
    (tile, [title, value, note]) => [title, whole.format(value), note].forEach((text, n) => write(tile.children[n], text)));
  $("notify-fault").hidden = !status.fault;
  write($("notify-fault"), status.fault);
  offerKinds(found.kinds);
  showOff(found.kinds);
  showSubscribers(found);
  keyed($("ways"), Object.entries(status.transports), ([kind]) => kind,
    ([kind]) => h("div", {}, h("h3", {}, kind), h("p", { class: "mono" })),
    (box, [, facts]) => write(box.lastElementChild, Object.entries(facts).map(([key, value]) =>
      `${key.replaceAll("_", " ")} ${typeof value === "object" ? JSON.stringify(value) : value}`).join(" · ") || "on"));
}

function offerKinds(kinds) {
  const select = $("told-kind");
  if (select.children.length === kinds.length) return;
  keyed(select, kinds, (kind) => kind, (kind) => h("option", { value: kind }, kind), () => {});
  hint();
}

function hint() {
  $("told-who").placeholder = KINDS[$("told-kind").value] ?? "address";
}

function showSubscribers({ total, subscribers }) {
  write($("told-count"), subscribers.length < total ? `${whole.format(subscribers.length)} of ${whole.format(total)}` : plural(total, "subscription"));
  $("told-none").hidden = total > 0;
  keyed($("told-rows"), subscribers, ({ who, url }) => JSON.stringify([who, url]), make, (line, { who, url, policy, paused }) => {
    [who, url, policy || "none", paused ? "paused" : "told"].forEach((text, n) => write(line.children[n], text));
    tone(line.children[3], paused ? "warn" : null);
  });
}

function make({ who, url }) {
  return h("tr", {}, ...LABELS.slice(0, 4).map((label, n) => h("td", { "data-label": label || null, class: n < 2 ? "topic" : "" })),
    h("td", { class: "do" },
      ...(who.startsWith("feed:") ? [] : [h("button", { type: "button", "aria-label": `Send a test to ${who}`,
        onclick: () => act("/notify/test", { who }) }, "Test"), " "]),
      h("button", { type: "button", onclick: () => end(who, url) }, "End")));
}

async function end(who, url) {
  if (!(await confirmed("End the subscription?", `${who} is not told of ${url} any more.`, "End"))) return;
  await act("/channels/unsubscribe", { who, url });
}

async function subscribe(event) {
  event.preventDefault();
  await act("/channels/subscribe", { who: `${$("told-kind").value}:${$("told-who").value.trim()}`, url: $("told-url").value.trim() });
}

async function test() {
  if ($("told-who").reportValidity()) await act("/notify/test", { who: `${$("told-kind").value}:${$("told-who").value.trim()}` });
}

/** What to put into penstock.yaml for transports that are off; their settings have secrets, so they are not changed here. */
function showOff(kinds) {
  keyed($("ways-off"), Object.entries(SETTINGS).filter(([kind]) => !kinds.includes(kind)), ([kind]) => kind,
    ([kind, [about, text]]) => h("details", {}, h("summary", {}, `${kind}: off. ${about}`),
      h("pre", { class: "answer", tabindex: "0", "aria-label": `Settings of ${kind}` }, text),
      h("p", { class: "beside" }, "Put this into penstock.yaml, and start the node again.")), () => {});
}

async function act(path, body) {
  try {
    const { done } = await post(path, body);
    write($("told-said"), done);
    tone($("told-said"), "good");
  } catch (error) {
    write($("told-said"), error.message);
    tone($("told-said"), "bad");
  }
  await show();
}
