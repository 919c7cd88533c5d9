// The policy editor: checked while one types, tried on live traffic, applied.

import { confirmed, get, post } from "./ask.js";
import { percent, plural, whole } from "./figures.js";
import { onChosen, state } from "./state.js";
import { $, h, tone, write } from "./write.js";

const EXAMPLE = `name: example
attribute: value                 # what the filters look at, unless one says otherwise
digest: [count, mean, min, max]  # told about what was dropped
levels:
  - drop: {delta: 1}             # changes smaller than 1
  - keep: {latest_by: $topic}    # the newest of each topic
`;

const text = $("policy-text");
let understood = false;
let checks = 0;
let waiting = 0;

let offered = false;

export const page = {
  name: "policies",
  title: "Policies",
  async open() {
    if (offered) return;
    offered = true;
    await Promise.all([check(), offerRegistered()]);
  },
};

async function check() {
  const mine = (checks += 1);
  const found = await post("/policy/check", { policy: text.value })
    .catch((error) => ({ ok: false, error: error.message }));
  if (mine !== checks) return;
  understood = found.ok;
  $("policy-check").replaceChildren(...(found.ok ? explained(found) : refused(found)));
  showTarget();
}

function explained({ explanation = [], warnings = [] }) {
  return [
    h("p", { class: "ok" }, "✓ understood"),
    ...explanation.map((line) => h("p", {}, line)),
    ...warnings.map((warning) => h("p", { class: "warning" }, `⚠ ${warning}`)),
  ];
}

function refused({ error, facts }) {
  const line = facts?.line;
  const jump = () => goTo(line, facts.column ?? 1);
  return [
    h("p", { class: "wrong" }, "✗ not understood"),
    h("p", {}, error),
    ...(line ? [h("p", {}, h("button", { type: "button", onclick: jump }, `Go to line ${line}`))] : []),
  ];
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
  $("target").disabled = !chosen;
  $("apply").disabled = !chosen || !understood;
  $("unapply").disabled = !chosen;
  $("try").disabled = !understood;
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
  said(`Collecting events for up to ${seconds} s …`);
  try {
    showTried(await post("/policy/try", { policy: text.value, filter: $("try-filter").value || "#", seconds }));
  } catch (error) {
    said(error.message, "bad");
  }
  button.disabled = false;
});

// -- attributes ---------------------------------------------------------------------------------------------------

$("find").addEventListener("click", async () => {
  const button = $("find");
  const filter = $("try-filter").value || "#";
  button.disabled = true;
  said("Looking into the events of two seconds …");
  try {
    showAttributes(await get(`/attributes?${new URLSearchParams({ filter, seconds: 2 })}`));
  } catch (error) {
    said(error.message, "bad");
  }
  button.disabled = false;
});

function showAttributes({ events, undecoded, attributes }) {
  const box = $("attributes");
  box.hidden = !attributes.length;
  if (!attributes.length) {
    said(events ? `${whole.format(events)} events, none with an attribute that can be read.`
      : "No event matched within two seconds; try a wider topic filter.", "bad");
    return;
  }
  said(`${plural(attributes.length, "attribute")} in ${plural(events, "event")}`
    + (undecoded ? `; ${whole.format(undecoded)} events have none` : "") + ". Click one to use it.", "good");
  const rows = attributes.map(({ path, kind, events: count, least, most, examples }) => [
    h("button", { type: "button", class: "mono", onclick: () => use(path) }, path), kind,
    least === null ? examples.map((one) => (one.length > 40 ? `${one.slice(0, 40)}…` : one)).join(", ") : least === most ? short(least) : `${short(least)} … ${short(most)}`,
    percent.format(count / events),
  ]);
  box.replaceChildren(h("h3", {}, "Attributes of the events"), h("table", { class: "clients" },
    h("thead", {}, h("tr", {}, ...["Attribute", "Kind", "Values", "In events"].map((head) => h("th", { scope: "col" }, head)))),
    h("tbody", {}, ...rows.map((row) => h("tr", {}, ...row.map((cell, n) =>
      h("td", { "data-label": ["", "Kind", "Values", "In events"][n] || null }, cell)))))));
}

/** Make an attribute the one that the filters look at. */
function use(path) {
  const line = `attribute: ${/^[\w.$-]+$/.test(path) && !path.startsWith("$") ? path : JSON.stringify(path)}`;
  text.value = /^attribute:.*$/m.test(text.value)
    ? text.value.replace(/^attribute:.*$/m, () => line) : `${line}\n${text.value}`;
  text.focus();
  check();
}

function showTried(found) {
  const seconds = `${found.seconds.toFixed(1)} s`;
  if (!found.events) {
    said(`No event matched within ${seconds}; try a wider topic filter or a longer time.`, "bad");
    return;
  }
  const seen = `${whole.format(found.events)} events of ${whole.format(found.topics)} topics in ${seconds}`;
  said(`${seen}, packed as one queue. No subscriber's queue was changed.`, "good");
  const levels = table("At each level", ["Level", "Kept", "Digested", "Digests", "Share kept"], found.levels.map((one) => [
    one.level ? String(one.level) : "worst case",
    ...[one.kept, one.digested, one.digests].map((count) => whole.format(count)),
    shareBar(one.share),
  ]));
  levels.id = "tried-levels";
  const filters = table("Each filter", ["Filter", "Saw", "Dropped", "Share dropped"], found.filters.map((one) => [
    `${one.level}.${one.position} ${one.filter}`,
    whole.format(one.seen),
    whole.format(one.dropped),
    percent.format(one.seen ? one.dropped / one.seen : 0),
  ]));
  filters.id = "tried-filters";
  $("tried").replaceChildren(levels, filters, queue(found));
  $("tried").hidden = false;
}

/** A table whose columns, but for the first, hold numbers. */
function table(caption, heads, rows) {
  const cells = (kind, texts) => texts.map((text, n) => h(kind, { class: n ? "number" : "" }, text));
  return h("div", {}, h("h3", {}, caption), h("table", {},
    h("thead", {}, h("tr", {}, ...cells("th", heads))),
    h("tbody", {}, ...rows.map((row) => h("tr", {}, ...cells("td", row))))));
}

function shareBar(share) {
  const bar = h("span", { class: "bar" }, h("span"));
  bar.firstElementChild.style.width = `${100 * share}%`;
  return h("div", { class: "share" }, bar, percent.format(share));
}

function queue({ items, items_total: total }) {
  const some = total > items.length ? `, ${items.length} of ${whole.format(total)} items` : "";
  const rows = h("table", {}, h("tbody", {}, ...items.map(itemRow)));
  return h("div", { class: "wide" }, h("h3", {}, `The queue after the highest level${some}`),
    h("div", { class: "items", tabindex: "0", role: "region", "aria-label": "Items" }, rows));
}

function itemRow({ event, digest }) {
  if (event) {
    return h("tr", {}, h("td", {}, "event"), h("td", { class: "topic" }, event.topic), h("td", { class: "mono" }, event.payload));
  }
  const told = Object.entries(digest.attributes).map(([attribute, facts]) => `${attribute}: ${summary(facts)}`);
  const causes = digest.causes.map((one) => {
    const place = one.level ? `${one.level}.${one.position} ` : "";
    return `${place}${one.filter} ${whole.format(one.count)}`;
  });
  return h("tr", { class: "digest" }, h("td", {}, "digest"), h("td", {}, `${whole.format(digest.count)} dropped`),
    h("td", {}, [...told, `by ${causes.join(", ")}`].join("; ")));
}

const short = (value) => (typeof value === "number" ? String(Number(value.toPrecision(5)))
  : typeof value === "object" ? JSON.stringify(value) : value);

function summary({ n, ...facts }) {
  return Object.entries(facts).map(([key, value]) => `${key} ${short(value)}`).join(", ");
}

async function install(policy) {
  const { client_id, filter } = state.chosen;
  const target = `${client_id} · ${filter}`;
  const [title, words, yes] = policy === null
    ? ["Remove the policy?", "from now on a full queue drops the oldest events into one digest.", "Remove"]
    : ["Apply the policy?", "its queue keeps its events; this policy is used from the next pack on.", "Apply"];
  if (!(await confirmed(title, `${target}: ${words}`, yes))) return;
  try {
    const { subscription } = await post("/policy/apply", { client_id, filter, policy });
    said(subscription.policy ? `${target} now has the policy ${subscription.policy}.` : `${target} has no policy any more.`, "good");
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
  $("registered").append(...policies.map(({ name, policy }) =>
    h("option", { value: name }, policy.ok ? name : `${name} (not understood)`)));
}

onChosen(showTarget);
text.value = EXAMPLE;
showTarget();
