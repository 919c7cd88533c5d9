// Small line charts over time, drawn as SVG: one panel per quantity, a shared cursor.

const SVG = "http://www.w3.org/2000/svg";
const WIDTH = 640, HEIGHT = 84, TOP = 6, BOTTOM = 4;

function shape(name, attributes, text) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  return made;
}

/** A round number not below the given one: 1, 2 or 5 times a power of ten. */
function ceiling(value) {
  if (value <= 1) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 5, 10].map((factor) => factor * power).find((round) => round >= value);
}

/** A panel: `lines` are [{key, name, mark, area, step, faint}], `show` writes a value. */
class Panel {
  constructor({ title, lines, show, least = 1, bound = null }) {
    Object.assign(this, { title, lines, show, least, bound });
    this.figure = document.createElement("figure");
    this.figure.className = "chart";
    const caption = document.createElement("figcaption");
    const heading = document.createElement("strong");
    heading.textContent = title;
    caption.append(heading);
    this.keys = lines.map(({ mark, faint }) => {
      const key = document.createElement("span");
      key.className = `key ${mark}${faint ? " faint" : ""}`;
      caption.append(key);
      return key;
    });
    this.svg = shape("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img" });
    this.figure.append(caption, this.svg);
  }

  draw(series, begin, end, cursor) {
    const most = ceiling(Math.max(this.least, ...this.lines.flatMap(({ key }) => series[key])));
    const x = (at) => ((at - begin) / (end - begin)) * WIDTH;
    const y = (value) => TOP + (1 - value / most) * (HEIGHT - TOP - BOTTOM);
    const parts = [];
    for (const value of [0, most / 2, most]) {
      parts.push(shape("line", { class: "grid", x1: 0, x2: WIDTH, y1: y(value), y2: y(value) }));
    }
    const bound = this.bound?.();
    if (bound && bound <= most) {
      parts.push(shape("line", { class: "bound", x1: 0, x2: WIDTH, y1: y(bound), y2: y(bound) }));
    }
    for (const { key, mark, area, step, faint } of this.lines) {
      const points = series.at_us.map((at, n) => [x(at), y(series[key][n])]);
      if (!points.length) continue;
      const path = points.map(([px, py], n) => (n ? (step ? `H${px}V${py}` : `L${px} ${py}`) : `M${px} ${py}`)).join("");
      if (area) {
        const closed = `${path}L${points.at(-1)[0]} ${y(0)}L${points[0][0]} ${y(0)}Z`;
        parts.push(shape("path", { class: `area ${mark}`, d: closed }));
      }
      parts.push(shape("path", { class: `line ${mark}${faint ? " faint" : ""}`, d: path }));
    }
    const place = cursor === null ? series.at_us.length - 1 : cursor;
    if (cursor !== null && place in series.at_us) {
      const at = x(series.at_us[place]);
      parts.push(shape("line", { class: "cursor", x1: at, x2: at, y1: TOP, y2: HEIGHT - BOTTOM }));
    }
    this.svg.replaceChildren(...parts);
    this.lines.forEach(({ key, name }, n) => {
      const value = series[key][place];
      this.keys[n].textContent = value === undefined ? name : `${name} ${this.show(value)}`;
    });
    const last = this.lines.map(({ key, name }) => `${name} ${this.show(series[key].at(-1) ?? 0)}`).join(", ");
    this.svg.setAttribute("aria-label", `${this.title}: ${last}`);
    this.scale.replaceChildren(...[most, 0].map((value) => {
      const label = document.createElement("span");
      label.textContent = this.show(value);
      return label;
    }));
  }

  get scale() {
    this.labels ??= this.figure.appendChild(Object.assign(document.createElement("div"), { className: "scale" }));
    return this.labels;
  }
}

/** Panels one above the other, with one cursor that follows the pointer or the arrow keys. */
export class Charts {
  constructor(container, panels) {
    this.container = container;
    this.panels = panels.map((panel) => new Panel(panel));
    this.axis = Object.assign(document.createElement("div"), { className: "axis" });
    this.series = null;
    this.cursor = null;
    container.tabIndex = 0;
    container.setAttribute("role", "group");
    container.append(...this.panels.map((panel) => panel.figure), this.axis);
    container.addEventListener("pointermove", (event) => this.#point(event));
    container.addEventListener("pointerleave", () => this.#move(null));
    container.addEventListener("blur", () => this.#move(null));
    container.addEventListener("keydown", (event) => this.#step(event));
  }

  show(series, seconds) {
    this.end = series.at_us.at(-1) ?? 0;
    // A short past fills the width, once it is longer than half a minute.
    const known = this.end - (series.at_us[0] ?? this.end);
    this.begin = this.end - Math.min(seconds * 1e6, Math.max(known, 30e6));
    const first = series.at_us.findIndex((at) => at >= this.begin);
    this.series = Object.fromEntries(Object.entries(series).map(([key, list]) => [key, first < 0 ? [] : list.slice(first)]));
    if (this.cursor !== null) this.cursor = Math.min(this.cursor, this.series.at_us.length - 1);
    this.#draw();
  }

  #draw() {
    if (!this.series) return;
    for (const panel of this.panels) panel.draw(this.series, this.begin, this.end, this.cursor);
    const clock = (at) => new Date(at / 1000).toLocaleTimeString("en-GB");
    const middle = this.cursor === null ? "" : clock(this.series.at_us[this.cursor]);
    this.axis.replaceChildren(...[clock(this.begin), middle, clock(this.end)].map((text) => {
      const label = document.createElement("span");
      label.textContent = text;
      return label;
    }));
  }

  #move(cursor) {
    if (!this.series?.at_us.length || cursor === this.cursor) return;
    this.cursor = cursor;
    this.#draw();
  }

  #point(event) {
    if (!this.series?.at_us.length) return;
    const box = this.panels[0].svg.getBoundingClientRect();
    const at = this.begin + ((event.clientX - box.left) / box.width) * (this.end - this.begin);
    let nearest = 0;
    this.series.at_us.forEach((one, n) => {
      if (Math.abs(one - at) < Math.abs(this.series.at_us[nearest] - at)) nearest = n;
    });
    this.#move(nearest);
  }

  #step(event) {
    const last = (this.series?.at_us.length ?? 0) - 1;
    const from = this.cursor ?? last;
    const to = { ArrowLeft: from - 1, ArrowRight: from + 1, Home: 0, End: last, Escape: null }[event.key];
    if (to === undefined || last < 0) return;
    event.preventDefault();
    this.#move(to === null ? null : Math.max(0, Math.min(last, to)));
  }
}
