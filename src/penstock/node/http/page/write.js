// Writes into the page. Clients choose names and topics: everything is written as text, never as markup.

export const $ = (id) => document.getElementById(id);

/** An element with properties and children; texts become text. */
export function h(name, properties = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(properties)) {
    if (key === "class") made.className = value;
    else if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (value !== null && value !== undefined) made.setAttribute(key, value);
  }
  made.append(...children);
  return made;
}

export function write(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

export function tone(element, name) {
  if (name) element.dataset.tone = name;
  else delete element.dataset.tone;
}

/** Make a list of elements show a list of things, keeping the elements of things that stay (and their focus). */
export function keyed(parent, things, key, make, update) {
  const before = new Map([...parent.children].map((child) => [child.dataset.key, child]));
  let place = parent.firstElementChild;
  for (const thing of things) {
    const name = key(thing);
    let child = before.get(name);
    before.delete(name);
    if (!child) {
      child = make(thing);
      child.dataset.key = name;
    }
    update(child, thing);
    if (child === place) place = place.nextElementSibling;
    else parent.insertBefore(child, place);
  }
  for (const child of before.values()) child.remove();
}

/** The columns of a table as [heading, class] pairs: texts, then figures, which are aligned to the right. */
export const columns = (texts, figures) => [...texts.map((head) => [head, ""]), ...figures.map((head) => [head, "number"])];

/** A table without rows yet, whose body has this id. */
export function table(id, heads) {
  return h("div", { class: "scroll" }, h("table", { class: "clients" },
    h("thead", {}, h("tr", {}, ...heads.map(([head, kind]) => h("th", { scope: "col", class: kind === "number" ? kind : "" }, head)))),
    h("tbody", { id })));
}

/** Show things with a name as rows of texts; the cell at `place` has the tone. A phone has the headings beside the cells. */
export function rows(body, found, heads, cellsOf, place, toneOf) {
  keyed(body, found, ({ name }) => name,
    () => h("tr", {}, ...heads.map(([head, kind], n) => h("td", { class: kind, "data-label": n ? head : null }))),
    (line, row) => {
      cellsOf(row).forEach((text, n) => write(line.children[n], text));
      tone(line.children[place], toneOf(row));
    });
}
