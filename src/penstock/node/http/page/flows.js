// Flows of constant rate, where the node reserves slots for them.

import { get } from "./ask.js";
import { duration, whole } from "./figures.js";
import { $, h, keyed, write } from "./write.js";

const SHOWN = 50;
let enabled = true;

export async function showFlows() {
  if (!enabled) return;
  const found = await get(`/flows?limit=${SHOWN}`);
  enabled = found.enabled;
  $("flows").hidden = $("flows-link").hidden = !enabled;
  if (!enabled) return;
  const { status, flows } = found;
  write($("flows-count"), `${whole.format(status.served)} served of ${whole.format(status.known)}`);
  $("flows-none").hidden = flows.length > 0;
  keyed($("flow-rows"), flows, (row) => `${row.client_id}\n${row.topic}`,
    () => h("tr", {}, ...Array.from({ length: 9 }, (_, n) => h("td", { class: n > 3 ? "number" : "" }))),
    (line, row) => {
      const share = row.on_time + row.late ? `${(100 * row.on_time_rate).toFixed(1)} %` : "–";
      [row.client_id, row.topic, row.state, row.reason || row.told || row.pattern,
        row.period_us ? duration(row.period_us) : "–", row.jitter_us ? duration(row.jitter_us) : "–", share,
        whole.format(row.missed), whole.format(row.arrivals)]
        .forEach((text, n) => write(line.children[n], text));
      line.dataset.state = row.state;
    });
}
