// The policy editor: checked while one types, tried on live traffic, applied.

import { confirmed, get, post } from "./ask.js";
import { percent, whole } from "./figures.js";
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

export async function check() {
  const mine = (checks += 1);
  const found = await post("/policy/check", { policy: text.value }).catch((error) => ({ ok: false, error: error.message }));
  if (mine !== checks) return;
  understood = found.ok;
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

export async function offerRegistered() {
  const { policies } = await get("/policies").catch(() => ({ policies: [] }));
  const offered = policies.map(({ name: title, policy }) => h("option", { value: title }, policy.ok ? title : `${title} (not understood)`));
  $("registered").append(...offered);
}

onChosen(showTarget);
text.value = EXAMPLE;
showTarget();
