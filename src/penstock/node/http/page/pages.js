// The pages: their names, their addresses after the #, and which one is shown.
//
// A new page needs a file that exports a page, and a line in PAGES. A page is an object with
//   name       its address: #/name
//   title      its heading and its link
//   part       only shown if the node has this part (Overview.parts); left out: always
//   build(box) makes its content, when it is opened first; left out: its content is in index.html
//   open(query) is called each time it is opened, with what follows ? in the address
//   show(snapshot) is called for each live snapshot while it is open
//   close()    is called when another page is opened

import { page as access } from "./access.js";
import { page as api } from "./api.js";
import { page as channels } from "./channels.js";
import { page as clients } from "./clients.js";
import { page as cluster } from "./cluster.js";
import { page as flows } from "./flows.js";
import { page as messages } from "./messages.js";
import { page as notifications } from "./notifications.js";
import { page as overview } from "./overview.js";
import { page as pipeline } from "./pipeline.js";
import { page as policies } from "./policies.js";
import { state } from "./state.js";
import { page as streams } from "./streams.js";
import { page as topics } from "./topics.js";
import { $, h } from "./write.js";

const PAGES = [
  overview, clients, topics, messages, policies, streams, cluster, channels, notifications, flows, pipeline, access, api,
];

let current = null;

/** Make the links and a box with a heading for each page. */
function build() {
  $("nav").append(h("ul", {}, ...PAGES.map(({ name, title, part }) =>
    h("li", { id: `link-${name}`, ...(part ? { hidden: "" } : {}) }, h("a", { href: `#/${name}` }, title)))));
  for (const { name, title } of PAGES) {
    let box = $(`page-${name}`);
    if (!box) {
      box = h("div", { class: "page", id: `page-${name}`, hidden: "" });
      $("main").append(box);
    }
    box.prepend(h("h1", { tabindex: "-1" }, title));
  }
}

/** Show the links of the parts that the node has. */
export function offerPages({ parts }) {
  for (const { name, part } of PAGES) if (part) $(`link-${name}`).hidden = !parts.includes(part);
}

export async function showPage(snapshot) {
  await current?.show?.(snapshot);
}

function go() {
  const [, name, query = ""] = /^#\/([a-z]+)(?:\?(.*))?$/.exec(location.hash) ?? [];
  if (!name && current) return; // a link within the page, as "skip to the content"
  const wanted = PAGES.find((page) => page.name === name) ?? overview;
  const before = current;
  if (before && before !== wanted) {
    before.close?.();
    $(`page-${before.name}`).hidden = true;
  }
  const box = $(`page-${wanted.name}`);
  box.hidden = false;
  if (wanted.build && !box.dataset.built) {
    box.dataset.built = "yes";
    wanted.build(box);
  }
  current = wanted;
  document.title = wanted === overview ? "Penstock" : `${wanted.title} · Penstock`;
  for (const link of $("nav").querySelectorAll("a")) {
    if (link.getAttribute("href") === `#/${wanted.name}`) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  menu(false);
  if (before && before !== wanted) {
    scrollTo(0, 0);
    box.querySelector("h1").focus({ preventScroll: true });
  }
  wanted.open?.(new URLSearchParams(query));
  if (state.snapshot) wanted.show?.(state.snapshot);
}

function menu(open) {
  $("menu").setAttribute("aria-expanded", String(open));
  $("nav").dataset.open = open ? "yes" : "no";
}

$("menu").addEventListener("click", () => menu($("menu").getAttribute("aria-expanded") !== "true"));
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape" && $("menu").getAttribute("aria-expanded") === "true") {
    menu(false);
    $("menu").focus();
  }
});
addEventListener("hashchange", go);
build();
go();
