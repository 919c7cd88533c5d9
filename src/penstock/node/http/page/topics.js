// Topics as a tree, with their rates and retained messages; counted only while the page is open.

import { confirmed, get, notice, post } from "./ask.js";
import { bytes, plural, rate, whole } from "./figures.js";
import { $, h, keyed, tone, write } from "./write.js";

const PAUSE_MS = 3_000;
const LABELS = ["", "Messages/s", "Size", "Last message", ""];
const MOST = 500; // rows that are shown
const known = new Map(); // topic → its row, also when it has become quiet
const shut = new Set(); // branches that are folded
let open = false;
let counting = false;

export const page = {
  name: "topics",
  title: "Topics",
  build,
  open() {
    open = true;
    count();
  },
  close() {
    open = false;
  },
};

function build(box) {
  box.append(h("section", { class: "card" },
    h("div", { class: "head" }, h("h2", {}, "What is being published"), h("span", { class: "count", id: "topics-count" }),
      h("label", { class: "inline search" }, h("span", { class: "unseen" }, "Topic filter"),
        h("input", { id: "topics-filter", value: "#", spellcheck: "false", autocomplete: "off", maxlength: "2000" })),
      h("label", { class: "inline" }, h("input", { type: "checkbox", id: "topics-retained" }), " only retained")),
    h("table", { class: "clients topics" },
      h("thead", {}, h("tr", {}, ...["Topic", ...LABELS.slice(1)].map((head, n) =>
        h("th", { scope: "col", class: n === 1 || n === 2 ? "number" : "" }, head || h("span", { class: "unseen" }, "Actions"))))),
      h("tbody", { id: "topic-rows" })),
    h("p", { class: "empty", id: "topics-none" }, "Counting …")));
  $("topics-filter").addEventListener("change", () => {
    known.clear();
    draw();
    count();
  });
  $("topics-retained").addEventListener("change", draw);
}

async function count() {
  if (counting) return;
  counting = true;
  while (open) {
    const filter = $("topics-filter").value.trim() || "#";
    try {
      take(await get(`/topics?${new URLSearchParams({ filter })}`), filter);
    } catch (error) {
      notice(error.message);
    }
    await new Promise((go) => setTimeout(go, PAUSE_MS));
  }
  counting = false;
}

function take({ topics, more, messages, seconds }, filter) {
  if (filter !== ($("topics-filter").value.trim() || "#")) return;
  for (const row of known.values()) Object.assign(row, { per_s: 0, bytes: 0, messages: 0, retained: false });
  for (const row of topics) known.set(row.topic, { ...row, bytes_s: row.bytes / seconds });
  const all = `${plural(known.size, "topic")}, ${rate(messages / seconds)}`;
  write($("topics-count"), more ? `${all}; ${whole.format(more)} messages on topics beyond these` : all);
  draw();
}

/** The rows of the tree: each level of a topic is a branch with the sum of what is below it. */
function tree() {
  const branches = new Map();
  const only = $("topics-retained").checked;
  for (const row of known.values()) {
    if (only && !row.retained) continue;
    const levels = row.topic.split("/");
    for (let depth = 0; depth < levels.length; depth += 1) {
      const path = levels.slice(0, depth + 1).join("/");
      const branch = branches.get(path) ?? { path, name: levels[depth] || "(empty)", depth, per_s: 0, bytes_s: 0, leaf: null, below: 0 };
      branch.per_s += row.per_s;
      branch.bytes_s += row.messages ? row.bytes_s : 0;
      if (depth === levels.length - 1) branch.leaf = row;
      else branch.below += 1;
      branches.set(path, branch);
    }
  }
  const folded = (path) => [...shut].some((branch) => path.startsWith(`${branch}/`));
  return [...branches.values()].sort((a, b) => (sortable(a.path) < sortable(b.path) ? -1 : 1)).filter(({ path }) => !folded(path));
}

const sortable = (path) => path.replaceAll("/", "\u0000"); // a branch before its neighbours: a, a/b, a-c

function draw() {
  const rows = tree();
  $("topics-none").hidden = rows.length > 0;
  write($("topics-none"), known.size || !open ? "No topic matches." : "Nothing was published just now, and nothing is retained.");
  keyed($("topic-rows"), rows.slice(0, MOST), ({ path }) => path, make, show);
}

function make({ path }) {
  const toggle = h("button", { type: "button", onclick: () => {
    if (!shut.delete(path)) shut.add(path);
    draw();
  } }, h("span"));
  return h("tr", {}, h("td", { class: "who" }, toggle), h("td", { class: "number", "data-label": LABELS[1] }),
    h("td", { class: "number", "data-label": LABELS[2] }),
    h("td", { class: "last", "data-label": LABELS[3] }, h("code"), " ", h("span", { class: "chip" }, "retained")),
    h("td", { class: "do" }, h("a", {}, "Watch"), " ", h("button", { type: "button", onclick: () => forget(path) }, "Clear")));
}

function show(line, { path, name, depth, per_s, bytes_s, leaf, below }) {
  const [who, speed, size, last, actions] = line.children;
  const toggle = who.firstElementChild;
  write(toggle.firstElementChild, name);
  toggle.title = path;
  toggle.style.paddingLeft = `${depth * 1.1}rem`;
  toggle.disabled = !below;
  if (below) toggle.setAttribute("aria-expanded", String(!shut.has(path)));
  else toggle.removeAttribute("aria-expanded");
  write(speed, per_s ? rate(per_s) : "–");
  write(size, per_s ? `${bytes(bytes_s)}/s` : "–");
  tone(line, per_s ? null : "quiet");
  write(last.firstElementChild, leaf?.payload ?? "");
  last.lastElementChild.hidden = !leaf?.retained;
  const link = actions.firstElementChild;
  link.href = `#/messages?${new URLSearchParams({ filter: below ? `${path}/#` : path })}`;
  link.setAttribute("aria-label", `Watch ${path}`);
  actions.lastElementChild.hidden = !leaf?.retained;
  actions.lastElementChild.setAttribute("aria-label", `Clear the retained message of ${path}`);
}

async function forget(topic) {
  if (!(await confirmed("Clear the retained message?", `New subscribers of ${topic} get none any more.`, "Clear"))) return;
  try {
    await post("/publish", { topic, payload: "", retain: true });
    known.delete(topic);
    draw();
  } catch (error) {
    notice(error.message);
  }
}
