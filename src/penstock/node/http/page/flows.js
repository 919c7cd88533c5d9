// Flows of constant rate, where the node reserves slots for them.

import { get } from "./ask.js";
import { duration, whole } from "./figures.js";
import { $, h, keyed, tone, write } from "./write.js";

const SHOWN = 50;
const LABELS = ["", "Topic", "State", "Why", "Period", "Jitter", "On time", "Missed", "Messages"];
const TONES = { silent: "bad", refused: "warn" };

export const page = { name: "flows", title: "Flows", part: "flows", show: showFlows };

async function showFlows() {
  const { status, flows } = await get(`/flows?limit=${SHOWN}`);
  if (!status) return;
  write($("flows-count"), `${whole.format(status.served)} served of ${whole.format(status.known)}`
    + (status.silent ? `, ${whole.format(status.silent)} silent` : ""));
  tone($("flows-count"), status.silent ? "bad" : null);
  $("flows-none").hidden = flows.length > 0;
  keyed($("flow-rows"), flows, (row) => `${row.client_id}\n${row.topic}`,
    () => h("tr", {}, ...LABELS.map((label, n) => h("td", { class: n === 0 ? "who" : n === 1 || n === 3 ? "topic" : n > 3 ? "number" : "", "data-label": label || null }))),
    (line, row) => {
      const share = row.on_time + row.late ? `${(100 * row.on_time_rate).toFixed(1)} %` : "–";
      [row.client_id, row.topic, row.state, row.reason || row.told || row.pattern,
        row.period_us ? duration(row.period_us) : "–", row.jitter_us ? duration(row.jitter_us) : "–", share,
        whole.format(row.missed), whole.format(row.arrivals)]
        .forEach((text, n) => write(line.children[n], text));
      tone(line.children[2], TONES[row.state] ?? null);
      tone(line, row.state === "silent" ? "bad" : null);
    });
}
