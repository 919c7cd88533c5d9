// A change of a web page, with removals and additions marked; it is written as text, never as markup.

import { h } from "./write.js";

const LINES = 40; // of one change; the rest is counted

const when = new Intl.DateTimeFormat("en-GB", { dateStyle: "medium", timeStyle: "medium" });

/** A change; `extra` are elements beside its time, such as a button. */
export function changes(delta, ...extra) {
  const title = h("h4", {}, h("time", { datetime: new Date(delta.at_us / 1_000).toISOString() },
    when.format(new Date(delta.at_us / 1_000))), ...extra);
  const restored = delta.restored ? [h("p", { class: "beside" }, `Version ${delta.restored} was restored.`)] : [];
  return h("article", { class: "delta" }, title, ...restored, ...(delta.items.length ? items(delta) : lines(delta)));
}

function items({ items: found }) {
  const rows = found.slice(0, LINES).map((item) => h("li", { "data-kind": item.kind },
    h("b", {}, item.kind), " ", link(item), ...(item.text ? [h("p", {}, item.text)] : [])));
  return [h("ul", {}, ...rows, ...more(found.length - LINES))];
}

/** Only web addresses become links: a feed may name anything. */
function link({ title, link: address, id }) {
  const name = title || address || id;
  return /^https?:\/\//i.test(address)
    ? h("a", { href: address, rel: "noreferrer noopener", target: "_blank" }, name) : h("span", {}, name);
}

function lines({ changes: found }) {
  const all = found.flatMap(({ at, old, new: come }) => [
    h("li", { class: "place" }, `line ${at + 1}`),
    ...old.map((line) => h("li", {}, h("del", {}, line))),
    ...come.map((line) => h("li", {}, h("ins", {}, line))),
  ]);
  return [h("ul", {}, ...all.slice(0, LINES), ...more(all.length - LINES))];
}

function more(count) {
  return count > 0 ? [h("li", { class: "place" }, `and ${count} more`)] : [];
}
