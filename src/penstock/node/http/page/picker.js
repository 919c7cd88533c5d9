// Picks the part of a page that counts: its lines as the node read them, and selectors that find them.
//
// The lines are written as text. Nothing of the page itself is loaded or run in the browser.

import { plural } from "./figures.js";
import { h } from "./write.js";

/** The lines of a page, and what can be done with the chosen one; `use` is called with the rules to use. */
export function picker({ lines, total, rules, use }) {
  const choices = h("div", { class: "choices-of", role: "status" }, hint(total));
  const list = h("ol", { class: "page-lines", tabindex: "0", "aria-label": "Lines of the page" },
    ...lines.map((line) => h("li", {}, h("button", { type: "button", "aria-pressed": "false",
      onclick: (event) => choose(event.currentTarget, line) }, line.text))));

  function choose(button, { selectors }) {
    for (const each of list.querySelectorAll("button")) each.setAttribute("aria-pressed", String(each === button));
    mark(null);
    choices.replaceChildren(...(selectors.length ? selectors.map(choice) : [h("p", {}, "This line cannot be selected.")]));
  }

  function choice(selector) {
    const found = lines.filter((line) => line.selectors.includes(selector)).length;
    return h("p", { class: "choice", onpointerenter: () => mark(selector), onfocusin: () => mark(selector) },
      h("code", {}, selector), ` ${plural(found, "line")} `,
      h("button", { type: "button", onclick: () => use({ ...rules, css: [selector] }) }, "Watch only this"), " ",
      h("button", { type: "button", onclick: () => use({ ...rules, exclude_css: [...(rules.exclude_css ?? []), selector] }) }, "Leave it out"));
  }

  function mark(selector) {
    [...list.children].forEach((item, n) => { item.dataset.found = lines[n].selectors.includes(selector) ? "yes" : "no"; });
  }

  const { css, exclude_css, ...rest } = rules;
  const chosen = [...(css ?? []).map((one) => `only ${one}`), ...(exclude_css ?? []).map((one) => `without ${one}`)];
  return [h("h3", {}, "Which part counts?"),
    ...(chosen.length ? [h("p", {}, `Now: ${chosen.join(", ")} `,
      h("button", { type: "button", onclick: () => use(rest) }, "Whole page again"))] : []),
    choices, list];
}

const hint = (total) => h("p", { class: "beside" }, total ? `${plural(total, "line")} as read last. Click one to watch only that part, or to leave it out.`
  : "The page has not been read yet.");
