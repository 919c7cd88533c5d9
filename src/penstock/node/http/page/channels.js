// Web pages that the node watches: added, looked into, paused, removed; what changed on them.

import { confirmed, get, post } from "./ask.js";
import { bytes, duration, plural, whole } from "./figures.js";
import { changes } from "./deltas.js";
import { picker, ruleOf } from "./picker.js";
import { $, h, keyed, tone, write } from "./write.js";

const SHOWN = 50;
const HISTORY = 10;
const LABELS = ["", "State", "Every", "Subscribers", "Changes", "Last change", "Problem"];
const open = new Set(); // pages with details shown
const details = new Map(); // what is known about those
let rows = [];

export const page = { name: "channels", title: "Channels", part: "channels", show: showChannels };

async function showChannels() {
  const wanted = $("channel-search").value.trim();
  const tag = $("channel-tag").value;
  const found = await get(`/channels?${new URLSearchParams({ limit: SHOWN, search: wanted, tag })}`);
  if (!found.enabled) {
    write($("channels-none"), "Channels are off at this node: penstock up --channels starts one that polls pages.");
    return;
  }
  const { status, total, channels } = found;
  rows = channels;
  offerTags(found.tags);
  write($("channels-count"), `${plural(status.polled, "page")} polled, ${plural(status.counts.changes, "change")} in `
    + `${plural(status.counts.polls, "poll")}, ${bytes(status.counts.bytes)}`
    + (channels.length < total ? `; ${whole.format(channels.length)} of ${whole.format(total)} shown` : ""));
  $("channels-none").hidden = channels.length > 0;
  write($("channels-none"), wanted || tag ? "No page matches." : "No page is watched yet.");
  $("channels-faults").hidden = !status.faults.length;
  write($("channels-faults"), status.faults.join("; "));
  await Promise.all(channels.filter(changedSince).map(({ url }) => look(url)));
  draw();
}

function offerTags(tags) {
  const select = $("channel-tag");
  $("channel-tag-label").hidden = !tags.length;
  if (document.activeElement === select) return;
  const before = select.value;
  keyed(select, ["", ...tags], (tag) => tag, (tag) => h("option", { value: tag }, tag || "all"), () => {});
  select.value = tags.includes(before) ? before : "";
}

/** Whether details that are shown are older than what is known now. */
function changedSince({ url, counts, state }) {
  const known = details.get(url)?.channel;
  return open.has(url) && (!known || known.counts.polls !== counts.polls || known.state !== state);
}

async function look(url) {
  const name = encodeURIComponent(url);
  try {
    const [one, { deltas }] = await Promise.all([
      get(`/channels/one?url=${name}`), get(`/channels/history?url=${name}&limit=${HISTORY}`)]);
    details.set(url, { ...one, deltas });
  } catch (error) {
    details.delete(url); // removed meanwhile
    if (error.status !== 422) throw error;
  }
}

function draw() {
  const lines = rows.flatMap((row) => (open.has(row.url) ? [[row, false], [row, true]] : [[row, false]]));
  keyed($("channel-rows"), lines, ([{ url }, inner]) => JSON.stringify([url, inner]),
    ([row, inner]) => (inner ? makeDetails(row) : makeRow(row)),
    (line, [row, inner]) => (inner ? showDetails(line, row) : showRow(line, row)));
}

function makeRow({ url }) {
  const toggle = h("button", { type: "button", "aria-expanded": "false", onclick: async () => {
    if (!open.delete(url)) {
      open.add(url);
      await look(url);
    }
    draw();
  } }, h("span"));
  const cells = [
    h("td", { class: "who" }, toggle, h("small"), h("div", { class: "chips tags" })),
    h("td", {}, h("span", { class: "state" })),
    h("td", { class: "number" }), h("td", { class: "number" }), h("td", { class: "number" }), h("td", { class: "number" }),
    h("td", { class: "dropped" }),
  ];
  LABELS.forEach((label, n) => { if (label) cells[n].dataset.label = label; });
  return h("tr", {}, ...cells);
}

function showRow(line, row) {
  const [who, mood, every, subscribers, count, last, problem] = line.children;
  const [toggle, small, tags] = who.children;
  keyed(tags, row.tags, (tag) => tag, (tag) => h("span", { class: "chip" }, tag), () => {});
  write(toggle.firstElementChild, row.title || row.url);
  toggle.title = row.url;
  toggle.setAttribute("aria-expanded", String(open.has(row.url)));
  write(small, row.title ? row.url : row.kind);
  mood.firstElementChild.dataset.state = { failing: "behind", paused: "detached", idle: "detached" }[row.state] ?? "attached";
  write(mood.firstElementChild, row.state);
  write(every, row.interval_us ? duration(row.interval_us) : "–");
  write(subscribers, whole.format(row.clients + row.people));
  write(count, whole.format(row.counts.changes));
  write(last, row.changed_us ? `${duration(Math.max(0, Date.now() * 1_000 - row.changed_us))} ago` : "–");
  write(problem, row.problem);
}

function makeDetails({ url }) {
  const hold = h("button", { type: "button", class: "hold", onclick: () => act("/channels/pause",
    { url, paused: rows.find((row) => row.url === url)?.state !== "paused" }) });
  const remove = h("button", { type: "button", onclick: async () => {
    if (await confirmed("Remove the page?", `${url}: its history and its subscribers are forgotten.`, "Remove")) {
      open.delete(url);
      await act("/channels/remove", { url });
    }
  } }, "Remove");
  return h("tr", { class: "details" }, h("td", { colspan: String(LABELS.length) },
    h("p", { class: "facts" }, h("code", { class: "topic" }),
      h("label", { class: "inline" }, "Tags ", h("input", { class: "tags-of", maxlength: "600", autocomplete: "off",
        onchange: (event) => act("/channels/add", { url, tags: tagsOf(event.target.value) }) })),
      h("button", { type: "button", onclick: () => act("/channels/check", { url }) }, "Check now"),
      h("button", { type: "button", class: "pick", "aria-expanded": "false", onclick: (event) => pick(event.target, url) }, "Pick a part …"),
      hold, remove),
    h("div", { class: "picking", hidden: "" }),
    h("h3", {}, "Why it is polled when it is"), h("ul", { class: "why" }),
    h("div", { class: "quiet" }, h("h3", {}, "Muted, because it keeps changing"), h("ul", { class: "muted" })),
    h("h3", {}, "What changed"), h("div", { class: "history" })));
}

function showDetails(line, row) {
  const known = details.get(row.url);
  if (!known) return;
  write(line.querySelector(".topic"), known.channel.topic);
  const tags = line.querySelector(".tags-of");
  if (document.activeElement !== tags) tags.value = known.channel.tags.join(", ");
  write(line.querySelector(".hold"), row.state === "paused" ? "Resume" : "Pause");
  keyed(line.querySelector(".why"), known.why, (sentence) => sentence, () => h("li"), write);
  line.querySelector(".quiet").hidden = !known.muted.length;
  keyed(line.querySelector(".muted"), known.muted, ({ place, text, part }) => JSON.stringify([place, text, part]),
    (found) => makeMuted(row.url, found), () => {});
  const history = line.querySelector(".history");
  if (known.deltas.length) {
    keyed(history, versionsOf(known), ({ version }) => String(version),
      (version) => makeVersion(row.url, version), (element, { version }) => showVersion(element, version, known));
  } else if (!history.querySelector(".empty")) {
    history.replaceChildren(h("p", { class: "empty" }, "Nothing so far."));
  }
}

/** The changes of a page, newest first, and the version before all of them, if it is known. */
function versionsOf({ deltas }) {
  const before = deltas.at(-1).old_version;
  return before ? [...deltas, { version: before, first: true }] : deltas;
}

function makeVersion(url, delta) {
  const button = h("button", { type: "button", class: "restore", "aria-label": `Restore version ${delta.version}`,
    onclick: () => restore(url, delta.version) }, "Restore");
  return delta.first ? h("article", { class: "delta" }, h("h4", {}, "Before these changes", button)) : changes(delta, button);
}

function showVersion(element, version, { channel }) {
  element.querySelector(".restore").hidden = version === channel.version;
}

async function restore(url, version) {
  if (await confirmed("Restore this version?", `${url} is compared with version ${version} from now on, and its subscribers are told.`,
    "Restore")) await act("/channels/restore", { url, version });
}

/** A muted place: its line with the part that keeps changing marked, the evidence, and a button to hear of it. */
function makeMuted(url, { place, text, part, evidence }) {
  const at = part ? text.indexOf(part) : -1;
  const line = at < 0 ? [h("mark", {}, text || part || "all lines")]
    : [text.slice(0, at), h("mark", {}, part), text.slice(at + part.length)];
  return h("li", {}, h("code", {}, place), " ", h("q", {}, ...line), " ", h("small", {}, evidence), " ",
    h("button", { type: "button", onclick: () => act("/channels/unmute", { url, place }) }, "Unmute"));
}

async function act(path, body) {
  try {
    const { done } = await post(path, body);
    say(done ?? `${body.url}: ${body.tags ? "tagged" : body.rules ? "read by other rules from now on" : body.paused ? "paused" : "polled again"}.`, "good");
    details.delete(body.url);
  } catch (error) {
    say(error.message, "bad");
  }
  await showChannels();
}

function say(text, mood) {
  write($("channel-said"), text);
  tone($("channel-said"), mood);
}

$("channel-form").addEventListener("submit", async (event) => {
  event.preventDefault();
  const url = $("channel-url").value.trim();
  const selector = $("channel-css").value.trim();
  try {
    const tags = tagsOf($("channel-tags").value);
    const rules = { ...(selector ? { [ruleOf(selector)]: [selector] } : {}), ...($("channel-render").checked ? { render: true } : {}) };
    const { channel } = await post("/channels/add", { url, ...(Object.keys(rules).length ? { rules } : {}), ...(tags.length ? { tags } : {}) });
    say(`${channel.url} is watched.`, "good");
    $("channel-url").value = $("channel-css").value = $("channel-tags").value = "";
    $("channel-render").checked = false;
  } catch (error) {
    say(error.message, "bad");
  }
  await showChannels();
});
$("channel-search").addEventListener("input", () => showChannels());
$("channel-tag").addEventListener("change", () => showChannels());

const tagsOf = (text) => text.split(",").map((tag) => tag.trim()).filter(Boolean);

// -- what counts on a page ----------------------------------------------------------------------------------------

async function pick(button, url) {
  const box = button.closest("td").querySelector(".picking");
  const open = box.hidden;
  box.hidden = !open;
  button.setAttribute("aria-expanded", String(open));
  if (!open) return;
  box.replaceChildren(h("p", { class: "beside" }, "Reading …"));
  try {
    const [{ lines, total }, { rules }] = await Promise.all([
      get(`/channels/lines?url=${encodeURIComponent(url)}`), get(`/channels/one?url=${encodeURIComponent(url)}`)]);
    box.replaceChildren(...picker({ lines, total, rules, use: (changed) => act("/channels/add", { url, rules: changed }),
      attempt: (tried) => post("/channels/try", { url, rules: tried }) }));
  } catch (error) {
    say(error.message, "bad");
  }
}

// -- lists --------------------------------------------------------------------------------------------------------

$("channel-import").addEventListener("click", () => $("channel-file").click());
$("channel-file").addEventListener("change", async () => {
  const [file] = $("channel-file").files;
  if (!file) return;
  say(`Reading ${file.name} …`);
  showLeft([]);
  try {
    const text = await file.text();
    const { added, refused, left_out } = await post("/channels/import", { [/^\s*[[{]/.test(text) ? "watches" : "opml"]: text });
    say(`${plural(added, "page")} of ${file.name} watched${refused.length ? `, ${whole.format(refused.length)} refused` : ""}.`,
      refused.length ? "bad" : "good");
    showLeft([...refused, ...left_out]);
  } catch (error) {
    say(error.message, "bad");
  }
  $("channel-file").value = "";
  await showChannels();
});

function showLeft(found) {
  $("channel-left").hidden = !found.length;
  $("channel-left").replaceChildren(...found.slice(0, 100).map(({ url, problem }) => h("li", {}, `${url}: ${problem}`)));
}
