// The list of slow receivers, and how full a queue is.

import { duration, fullness, whole } from "./figures.js";
import { choose, isChosen, name, onChosen, state } from "./state.js";
import { $, h, keyed, tone, write } from "./write.js";

export function showSlow() {
  const rows = state.snapshot.slow;
  $("slow-none").hidden = rows.length > 0;
  write($("slow-count"), rows.length ? whole.format(state.snapshot.overview.waiting) : "");
  keyed($("slow-list"), rows, (row) => name({ client_id: row.client_id, filter: row.subscription.filter }), (row) => {
    const target = { client_id: row.client_id, filter: row.subscription.filter };
    return h("li", {}, h("button", { type: "button", onclick: () => choose(target) },
      h("span", { class: "who" }), h("span", { class: "age" }), h("span", { class: "what" }), h("span", { class: "what" }),
      h("span", { class: "bar" }, h("span"))));
  }, (item, row) => {
    const one = row.subscription;
    const button = item.firstElementChild;
    const [who, age, what, level, bar] = button.children;
    write(who, row.client_id);
    who.title = row.client_id;
    write(age, duration(one.oldest_us));
    write(what, `${one.filter} · ${row.state}${one.policy ? ` · ${one.policy}` : ""}`);
    const wait = one.wait_us ? ` · waits ${duration(one.wait_us)}` : "";
    const urgent = one.urgent ? ` · ${whole.format(one.urgent)} urgent` : "";
    write(level, `level ${one.level} · ${whole.format(one.items)}${urgent}${wait}`);
    fill(bar, one.items);
    button.setAttribute("aria-pressed", String(isChosen(row.client_id, one.filter)));
  });
}

export function fill(bar, items) {
  const share = Math.min(1, items / state.snapshot.overview.queue_events);
  bar.firstElementChild.style.width = `${100 * share}%`;
  tone(bar, fullness(share));
}

onChosen(() => state.snapshot && showSlow());
