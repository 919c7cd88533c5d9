// Control tables that the node follows: the version in use, its age, what it changed, and what was refused.

import { get } from "./ask.js";
import { duration, plural, whole } from "./figures.js";
import { $, columns, h, keyed, rows, table, write } from "./write.js";

const TABLE = [["Table", "who"], ...columns(["State"], ["Version", "Rows", "Added", "Removed", "Changed", "Made", "Taken"]), ["Folder", "topic"]];

export const page = { name: "pipeline", title: "Pipeline", part: "tables", build, show };

function build(box) {
  box.append(
    h("section", { class: "card", "aria-labelledby": "tables-title" },
      h("div", { class: "head" }, h("h2", { id: "tables-title" }, "Control tables"), h("span", { id: "tables-count", class: "count" })),
      table("table-rows", TABLE),
      h("p", { id: "tables-none", class: "empty", hidden: "" }, "This node follows no control table: policy_table, channels.table and slots.reservations name one.")),
    h("section", { id: "tables-changes", class: "card", "aria-labelledby": "changes-title" },
      h("div", { class: "head" }, h("h2", { id: "changes-title" }, "What the version in use changed")),
      h("div", { id: "table-changes", class: "history" }),
      h("p", { class: "beside" }, "penstock policy rollback FOLDER brings the version before back.")));
}

async function show() {
  const { now_us, tables } = await get("/tables");
  const found = tables.map((row) => ({ ...row, name: row.table }));
  const refused = found.filter(({ fault }) => fault).length;
  write($("tables-count"), plural(found.length, "table") + (refused ? `, ${whole.format(refused)} with a newer version that was refused` : ""));
  $("table-rows").closest(".scroll").hidden = !found.length;
  $("tables-none").hidden = found.length > 0;
  $("tables-changes").hidden = !found.length;
  const age = (us) => (us ? `${duration(Math.max(0, now_us - us))} ago` : "–");
  rows($("table-rows"), found, TABLE, (row) => [
    row.name, stateOf(row), row.version ? whole.format(row.version) : "–", whole.format(row.rows),
    ...[row.added, row.removed, row.changed].map((count) => (count === null ? "–" : whole.format(count))),
    age(row.made_us), age(row.taken_us), row.folder,
  ], 1, ({ fault, version }) => (fault ? "bad" : version ? null : "warn"));
  keyed($("table-changes"), found, ({ name }) => name, makeChange, showChange);
}

function stateOf({ fault, version }) {
  if (fault) return version ? "newer one refused" : "refused, none in use";
  return version ? "in use" : "none yet";
}

function makeChange({ name }) {
  return h("div", { class: "delta" }, h("h4", {}, name), h("p", { class: "notice bad", role: "alert", hidden: "" }), h("p", { class: "beside" }), h("ul"));
}

function showChange(box, { name, version, fault, note, added, removed, changed, examples }) {
  const [head, wrong, said, list] = box.children;
  write(head, version ? `${name}, version ${whole.format(version)}${note ? ` · ${note}` : ""}` : name);
  wrong.hidden = !fault;
  write(wrong, fault && `The newest version was refused: ${fault}`);
  const more = (added ?? 0) + (removed ?? 0) + (changed ?? 0) - examples.length;
  write(said, !version ? "No version is in use."
    : added === null ? "Not compared with the version before: the tables are too large."
      : !examples.length ? "No row differs from the version before."
        : more > 0 ? `${plural(more, "further row")} not shown.` : "");
  said.hidden = !said.textContent;
  keyed(list, examples.map((text, n) => ({ text, key: `${n} ${text}` })), ({ key }) => key, ({ text }) => h("li", {}, marked(text)), () => {});
}

/** A row with + or - before it was added or removed; other rows were changed. The node writes a line break as \n. */
function marked(row) {
  const text = row.replaceAll("\\n", "\n").trimEnd().replace("\n → ", "\n→ ");
  if (text.startsWith("+ ")) return h("ins", {}, text.slice(2));
  if (text.startsWith("- ")) return h("del", {}, text.slice(2));
  return text;
}
