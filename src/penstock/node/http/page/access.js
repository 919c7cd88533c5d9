// Users and access rules: what is in force, whether something is allowed, and changes of the file that the node may write.

import { confirmed, get, post } from "./ask.js";
import { plural } from "./figures.js";
import { $, h, keyed, tone, write } from "./write.js";

export const page = { name: "access", title: "Access", build, open: load };

const ANONYMOUS = {
  loopback: "Clients without a user name may connect from this machine only.",
  always: "Clients without a user name may connect from anywhere.",
  never: "Clients without a user name may not connect.",
};
const LABELS = ["", "Verdict", "User", "Client", "Action", "Topics", ""];
let editable = false;
let fixed = []; // rules of the configuration, which come first
let saved = []; // rules of access_file
let draft = []; // the same, as they are being edited

function field(label, properties) {
  return h("label", {}, `${label} `, h("input", { spellcheck: "false", autocomplete: "off", maxlength: "2000", ...properties }));
}

function choice(label, id, values) {
  return h("label", {}, `${label} `, h("select", { id }, ...values.map(([value, text]) => h("option", { value }, text))));
}

function button(text, action, properties = {}) {
  return h("button", { type: "button", onclick: action, ...properties }, text);
}

function build(box) {
  box.append(
    h("section", { class: "card", "aria-labelledby": "rules-title" },
      h("div", { class: "head" }, h("h2", { id: "rules-title" }, "Rules in force"), h("span", { id: "rules-count", class: "count" })),
      h("p", { id: "access-anonymous", class: "beside" }),
      h("table", { class: "clients", id: "rules" }, h("thead", {}, h("tr", {},
        ...["Rule", "Verdict", "User", "Client", "Action", "Topics", ""].map((head) => h("th", { scope: "col" }, head || h("span", { class: "unseen" }, "Change"))))),
      h("tbody", { id: "rule-rows" })),
      h("p", { class: "empty", id: "rules-none" }, "There are no rules: whoever may connect may publish and subscribe to everything."),
      h("form", { id: "rule-form", class: "actions", hidden: "" },
        choice("New rule", "rule-allow", [["true", "allow"], ["false", "deny"]]),
        field("User", { id: "rule-user", size: "10", placeholder: "anybody" }), field("Client", { id: "rule-client", size: "10", placeholder: "any" }),
        choice("may", "rule-action", [["both", "publish, subscribe"], ["publish", "publish"], ["subscribe", "subscribe"]]),
        field("Topics", { id: "rule-topic", size: "16", required: "", placeholder: "home/#" }),
        h("button", { type: "submit" }, "Add")),
      h("div", { id: "rule-draft", class: "actions", hidden: "" },
        button("Show who may do what", tryRules, { id: "rule-try", class: "main" }), button("Save rules", saveRules, { id: "rule-save", disabled: "" }),
        button("Discard", discard)),
      h("p", { id: "rule-said", class: "said", role: "status" }),
      h("ul", { id: "rule-differences", class: "differences", hidden: "", tabindex: "0", "aria-label": "What would change" })),
    h("div", { class: "two" },
      h("section", { class: "card", "aria-labelledby": "may-title" },
        h("div", { class: "head" }, h("h2", { id: "may-title" }, "Is it allowed?")),
        h("form", { id: "may-form", class: "fields" },
          field("User", { id: "may-user", placeholder: "empty: without a user name" }), field("Client", { id: "may-client", placeholder: "client id" }),
          h("label", {}, "wants to ", h("select", { id: "may-action" }, h("option", {}, "publish"), h("option", {}, "subscribe"))),
          field("Topic", { id: "may-topic", required: "", placeholder: "home/kitchen/light" }),
          h("div", { class: "actions" }, h("button", { class: "main", type: "submit" }, "Ask"))),
        h("p", { id: "may-said", class: "said", role: "status" })),
      h("section", { class: "card", "aria-labelledby": "user-title" },
        h("div", { class: "head" }, h("h2", { id: "user-title" }, "Users")),
        h("p", { id: "access-users", class: "beside" }), h("ul", { id: "user-rows", class: "users" }),
        h("form", { id: "user-form", class: "fields" },
          field("Name", { id: "user-name", required: "" }),
          field("Password", { id: "user-password", type: "password", required: "", autocomplete: "new-password" }),
          h("div", { class: "actions" }, h("button", { id: "user-submit", class: "main", type: "submit" }, "Make entry"))),
        h("p", { id: "user-said", class: "said", role: "status" }),
        h("pre", { id: "user-entry", hidden: "", tabindex: "0", "aria-label": "Entry for the configuration" }))));
  $("may-form").addEventListener("submit", may);
  $("user-form").addEventListener("submit", user);
  $("rule-form").addEventListener("submit", addRule);
}

async function load() {
  const found = await get("/access");
  editable = found.editable;
  fixed = found.rules.slice(0, found.rules.length - found.own_rules);
  saved = found.rules.slice(found.rules.length - found.own_rules);
  draft = [...saved];
  write($("access-anonymous"), ANONYMOUS[found.anonymous]);
  write($("access-users"), found.users.length ? "" : "There are no users: user names are not checked.");
  write($("user-submit"), editable ? "Save" : "Make entry");
  $("rule-form").hidden = !editable;
  const own = new Set(found.own_users);
  keyed($("user-rows"), found.users, (name) => JSON.stringify([name, editable && own.has(name)]),
    (name) => h("li", {}, h("span", {}, name), ...(editable && own.has(name) ? userButtons(name) : [h("small", {}, "in the configuration")])), () => {});
  drawRules();
}

function drawRules() {
  const all = [...fixed, ...draft];
  const changed = JSON.stringify(draft) !== JSON.stringify(saved);
  write($("rules-title"), changed ? "Rules, not saved yet" : "Rules in force");
  write($("rules-count"), all.length ? "the first that applies decides; if none applies, it is refused" : "");
  $("rules-none").hidden = all.length > 0;
  $("rules").hidden = !all.length;
  $("rule-draft").hidden = !changed;
  $("rule-save").disabled = true;
  $("rule-differences").hidden = true;
  $("rule-rows").replaceChildren(...all.map((rule, n) => makeRule(rule, n)));
}

function makeRule({ allow, user: name, client, action, topic }, n) {
  const cells = [`Rule ${n + 1}`, allow ? "allow" : "deny", name === "*" ? "anybody" : name, client === "*" ? "any" : client,
    action === "both" ? "publish, subscribe" : action, topic];
  const row = h("tr", {}, ...cells.map((cell, place) => h("td", { "data-label": LABELS[place] || null }, cell)), h("td", { class: "do" }));
  const own = n - fixed.length;
  if (editable && own >= 0) {
    row.lastElementChild.append(
      button("Up", () => move(own), { "aria-label": `Move rule ${n + 1} up`, ...(own ? {} : { disabled: "" }) }), " ",
      button("Remove", () => edit(draft.filter((_, place) => place !== own)), { "aria-label": `Remove rule ${n + 1}` }));
  }
  tone(row.children[1], allow ? "good" : "bad");
  return row;
}

function edit(rules) {
  draft = rules;
  say("rule-said", "");
  drawRules();
}

function move(place) {
  const rules = [...draft];
  rules.splice(place - 1, 0, ...rules.splice(place, 1));
  edit(rules);
}

function addRule(event) {
  event.preventDefault();
  edit([...draft, { allow: $("rule-allow").value === "true", user: $("rule-user").value.trim() || "*", client: $("rule-client").value.trim() || "*",
    action: $("rule-action").value, topic: $("rule-topic").value.trim() }]);
  $("rule-topic").value = "";
}

function discard() {
  edit([...saved]);
}

/** Show what the rules would change; only then can they be saved. */
async function tryRules() {
  try {
    const { compared, total, differences } = await post("/access/rules/try", { rules: draft });
    say("rule-said", total ? `${plural(total, "verdict")} of ${compared} would change:` : `Nothing changes for the users and topics there are (${plural(compared, "verdict")} compared).`,
      total ? "warn" : "good");
    $("rule-differences").replaceChildren(...differences.slice(0, 200).map(({ user: name, action, topic, allowed }) => {
      const line = h("li", {}, `${name || "clients without a user name"}: ${action} ${topic} `, h("b", {}, allowed ? "becomes allowed" : "becomes refused"));
      tone(line.lastElementChild, allowed ? "good" : "bad");
      return line;
    }));
    $("rule-differences").hidden = !total;
    $("rule-save").disabled = false;
  } catch (error) {
    say("rule-said", error.message, "bad");
  }
}

async function saveRules() {
  await change("rule-said", "/access/rules/set", { rules: draft });
}

/** Change something on the node, and show what is in force then. */
async function change(id, path, body) {
  try {
    const { done } = await post(path, body);
    await load();
    say(id, done, "good");
    return true;
  } catch (error) {
    say(id, error.message, "bad");
    return false;
  }
}

function userButtons(name) {
  return [button("Change password", () => {
    $("user-name").value = name;
    $("user-password").focus();
  }, { "aria-label": `Change the password of ${name}` }), button("Remove", async () => {
    if (await confirmed("Remove the user?", `${name} may not connect any more.`, "Remove")) await change("user-said", "/access/users/remove", { name });
  }, { "aria-label": `Remove the user ${name}` })];
}

async function may(event) {
  event.preventDefault();
  try {
    const { allowed, why } = await post("/access/check", { user: $("may-user").value, client_id: $("may-client").value,
      action: $("may-action").value, topic: $("may-topic").value });
    say("may-said", `${allowed ? "✓ Allowed." : "✗ Refused."} ${why}`, allowed ? "good" : "bad");
  } catch (error) {
    say("may-said", error.message, "bad");
  }
}

async function user(event) {
  event.preventDefault();
  $("user-entry").hidden = true;
  const body = { name: $("user-name").value, password: $("user-password").value };
  $("user-password").value = "";
  if (editable) {
    if (await change("user-said", "/access/users/set", body)) $("user-name").value = "";
    return;
  }
  try {
    const { entry, warning } = await post("/access/user", body);
    write($("user-entry"), entry);
    $("user-entry").hidden = false;
    say("user-said", `${warning ? `⚠ ${warning}. ` : ""}Put this below users: in penstock.yaml, and reload the node (kill -HUP, or watch_s). `
      + "With access_file in penstock.yaml and a token, users can be saved here.", warning ? "warn" : "good");
  } catch (error) {
    say("user-said", error.message, "bad");
  }
}

function say(id, text, mood) {
  write($(id), text);
  tone($(id), mood);
}
