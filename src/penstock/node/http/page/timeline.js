// The timeline of the chosen subscription, and the list to choose from.

import { get } from "./ask.js";
import { Charts } from "./chart.js";
import { duration, short } from "./figures.js";
import { choose, name, onChosen, state } from "./state.js";
import { $, h, keyed, write } from "./write.js";

let series = null; // of what is chosen
const SELECTS = [$("chosen"), $("target")]; // the same choice on two pages

export function offerChoices() {
  const known = new Map();
  const add = (client_id, filter) => known.set(name({ client_id, filter }), [client_id, filter]);
  for (const row of state.snapshot.slow) add(row.client_id, row.subscription.filter);
  for (const client of [...state.snapshot.clients, ...(state.found?.clients ?? [])]) {
    for (const one of client.subscriptions) add(client.client_id, one.filter);
  }
  if (!state.chosen && known.size) {
    const [client_id, filter] = known.values().next().value;
    choose({ client_id, filter });
    return;
  }
  if (state.chosen) add(state.chosen.client_id, state.chosen.filter);
  const options = [...known].sort(([a], [b]) => (a < b ? -1 : 1));
  for (const select of SELECTS) {
    if (document.activeElement !== select) {
      keyed(select, options, ([key]) => key, ([key]) => h("option", { value: key }),
        (option, [, [client, filter]]) => write(option, `${client} · ${filter}`));
    }
    if (state.chosen) select.value = name(state.chosen);
  }
}

for (const select of SELECTS) {
  select.addEventListener("change", () => {
    const [client_id, filter] = JSON.parse(select.value);
    choose({ client_id, filter });
  });
}
$("span").addEventListener("change", () => drawSeries());

const charts = new Charts($("charts"), [
  {
    title: "Queue", show: (value) => short.format(value), least: 10,
    bound: () => state.snapshot?.overview.queue_events,
    lines: [{ key: "items", name: "items", mark: "queued", area: true }],
  },
  {
    title: "Level", show: (value) => String(value),
    lines: [{ key: "level", name: "level", mark: "level-mark", step: true, area: true }],
  },
  {
    title: "Latency", show: duration, least: 1_000,
    lines: [
      { key: "latency_p99_us", name: "p99", mark: "digested" },
      { key: "latency_p50_us", name: "p50", mark: "digested", faint: true },
    ],
  },
  {
    title: "Events/s", show: (value) => short.format(value), least: 10,
    lines: [
      { key: "delivered_per_s", name: "delivered", mark: "delivered" },
      { key: "dropped_per_s", name: "dropped", mark: "digested" },
    ],
  },
]);

export async function fetchSeries() {
  const chosen = state.chosen;
  if (!chosen) return;
  const since = series?.at_us.at(-1) ?? 0;
  const query = new URLSearchParams({ client: chosen.client_id, filter: chosen.filter, since_us: since });
  const fresh = (await get(`/history?${query}`).catch(() => null))?.series;
  if (!fresh || state.chosen !== chosen || (series?.at_us.at(-1) ?? 0) !== since) return;
  series = series
    ? Object.fromEntries(Object.entries(series).map(([key, list]) => [key, [...list, ...fresh[key]].slice(-600)]))
    : fresh;
  drawSeries();
}

function drawSeries() {
  const known = series?.at_us.length > 0;
  $("charts").hidden = !known;
  $("timeline-none").hidden = known;
  write($("timeline-none"), state.chosen ? "No history of this subscription yet." : "No client subscribes yet.");
  if (known) charts.show(series, Number($("span").value));
}

onChosen(() => {
  series = null;
  offerChoices();
  fetchSeries();
});
