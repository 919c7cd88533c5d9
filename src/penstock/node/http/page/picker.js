// Picks the part of a page that counts: its lines as the node read them, and selectors (CSS, XPath) that find them.
//
// The lines are written as text. Nothing of the page itself is loaded or run in the browser.

import { plural } from "./figures.js";
import { h } from "./write.js";

/** The rule of a selector: XPath begins with a slash, a dot and a slash, or a parenthesis; no CSS does. */
export const ruleOf = (selector) => (/^\s*(\.?\/|\()/.test(selector) ? "xpath" : "css");

const LANGUAGES = [["css", "CSS"], ["xpath", "XPath"]];
const SHOWN = 20; // lines of a trial; the rest is counted

/** The lines of a page, and what can be done with the chosen one; `use` is called with the rules to use, `attempt` with rules to try. */
export function picker({ lines, total, rules, use, attempt }) {
  let language = "css";
  let chosen = null;
  const choices = h("div", { class: "choices-of", role: "status" }, hint(total));
  const list = h("ol", { class: "page-lines", tabindex: "0", "aria-label": "Lines of the page" },
    ...lines.map((line) => h("li", {}, h("button", { type: "button", "aria-pressed": "false",
      onclick: (event) => choose(event.currentTarget, line) }, line.text))));

  function choose(button, line) {
    for (const each of list.querySelectorAll("button")) each.setAttribute("aria-pressed", String(each === button));
    mark(null);
    chosen = line;
    offer();
  }

  function offer() {
    const { selectors, xpaths } = chosen;
    choices.replaceChildren(...(selectors.length ? [languages(), ...selectors.map((selector, n) => choice(selector, xpaths[n]))]
      : [h("p", {}, "This line cannot be selected.")]));
  }

  /** In which language selectors are written. */
  function languages() {
    return h("p", { role: "group", "aria-label": "Language of selectors" }, ...LANGUAGES.map(([name, title]) => h("button", {
      type: "button", "aria-pressed": String(name === language), onclick: (event) => {
        language = name;
        offer();
        choices.querySelector('[aria-pressed="true"]').focus();
        event.preventDefault();
      } }, title)));
  }

  function choice(selector, xpath) {
    const found = lines.filter((line) => line.selectors.includes(selector)).length;
    return h("p", { class: "choice", onpointerenter: () => mark(selector), onfocusin: () => mark(selector) },
      h("code", {}, language === "css" ? selector : xpath), ` ${plural(found, "line")} `, ...uses(language === "css" ? selector : xpath));
  }

  /** Buttons that use a selector: the others of its kind are replaced, or it is left out besides them. */
  function uses(selector) {
    const rule = ruleOf(selector);
    const { css, xpath, ...others } = rules;
    const without = `exclude_${rule}`;
    return [h("button", { type: "button", onclick: () => use({ ...others, [rule]: [selector] }) }, "Watch only this"), " ",
      h("button", { type: "button", onclick: () => use({ ...rules, [without]: [...(rules[without] ?? []), selector] }) }, "Leave it out")];
  }

  const own = h("input", { class: "own-selector", maxlength: "512", autocomplete: "off", spellcheck: "false", placeholder: "#prices or //h2[.='Prices']" });
  const tried = h("div", { class: "trial", role: "status" });
  const trial = h("form", { class: "inline-form", onsubmit: async (event) => {
    event.preventDefault();
    const selector = own.value.trim();
    if (!selector) return;
    tried.replaceChildren(h("p", { class: "beside" }, "Reading …"));
    try {
      const { css, xpath, ...others } = rules;
      const found = await attempt({ ...others, [ruleOf(selector)]: [selector] });
      tried.replaceChildren(h("p", {}, `${plural(found.total, "line")} found `, ...uses(selector)),
        h("ul", {}, ...found.lines.slice(0, SHOWN).map(({ text }) => h("li", {}, text))));
    } catch (error) {
      tried.replaceChildren(h("p", { class: "said", "data-tone": "bad" }, error.message));
    }
  } }, h("label", {}, "Or write a selector, CSS or XPath ", own), " ", h("button", {}, "Try it"));

  function mark(selector) {
    [...list.children].forEach((item, n) => { item.dataset.found = lines[n].selectors.includes(selector) ? "yes" : "no"; });
  }

  const { css, xpath, exclude_css, exclude_xpath, ...rest } = rules;
  const now = [...[...(css ?? []), ...(xpath ?? [])].map((one) => `only ${one}`),
    ...[...(exclude_css ?? []), ...(exclude_xpath ?? [])].map((one) => `without ${one}`)];
  return [h("h3", {}, "Which part counts?"),
    ...(now.length ? [h("p", {}, `Now: ${now.join(", ")} `,
      h("button", { type: "button", onclick: () => use(rest) }, "Whole page again"))] : []),
    choices, list, trial, tried];
}

const hint = (total) => h("p", { class: "beside" }, total ? `${plural(total, "line")} as read last. Click one to watch only that part, or to leave it out.`
  : "The page has not been read yet.");
