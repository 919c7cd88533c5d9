// Users and access rules: what is in force, whether something is allowed, and entries for the configuration.

import { get, post } from "./ask.js";
import { $, h, tone, write } from "./write.js";

export const page = { name: "access", title: "Access", build, open: load };

const ANONYMOUS = {
  loopback: "Clients without a user name may connect from this machine only.",
  always: "Clients without a user name may connect from anywhere.",
  never: "Clients without a user name may not connect.",
};

function field(label, properties) {
  return h("label", {}, `${label} `, h("input", { spellcheck: "false", autocomplete: "off", maxlength: "2000", ...properties }));
}

function build(box) {
  box.append(
    h("section", { class: "card", "aria-labelledby": "rules-title" },
      h("div", { class: "head" }, h("h2", { id: "rules-title" }, "Rules in force"), h("span", { id: "rules-count", class: "count" })),
      h("p", { id: "access-anonymous", class: "beside" }), h("p", { id: "access-users", class: "beside" }),
      h("table", { class: "clients", id: "rules" }, h("thead", {}, h("tr", {},
        ...["Rule", "Verdict", "User", "Client", "Action", "Topics"].map((head) => h("th", { scope: "col" }, head)))),
      h("tbody", { id: "rule-rows" })),
      h("p", { class: "empty", id: "rules-none" }, "There are no rules: whoever may connect may publish and subscribe to everything.")),
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
        h("div", { class: "head" }, h("h2", { id: "user-title" }, "New user")),
        h("form", { id: "user-form", class: "fields" },
          field("Name", { id: "user-name", required: "" }),
          field("Password", { id: "user-password", type: "password", required: "", autocomplete: "new-password" }),
          h("div", { class: "actions" }, h("button", { class: "main", type: "submit" }, "Make entry"))),
        h("p", { id: "user-said", class: "said", role: "status" }),
        h("pre", { id: "user-entry", hidden: "", tabindex: "0", "aria-label": "Entry for the configuration" }))));
  $("may-form").addEventListener("submit", may);
  $("user-form").addEventListener("submit", user);
}

async function load() {
  const { anonymous, users, rules } = await get("/access");
  write($("access-anonymous"), ANONYMOUS[anonymous]);
  write($("access-users"), users.length ? `Users: ${users.join(", ")}.` : "There are no users: user names are not checked.");
  write($("rules-count"), rules.length ? "the first that applies decides; if none applies, it is refused" : "");
  $("rules-none").hidden = rules.length > 0;
  $("rules").hidden = !rules.length;
  const labels = ["", "Verdict", "User", "Client", "Action", "Topics"];
  $("rule-rows").replaceChildren(...rules.map(({ allow, user: name, client, action, topic }, n) => {
    const cells = [`Rule ${n + 1}`, allow ? "allow" : "deny", name === "*" ? "anybody" : name, client === "*" ? "any" : client,
      action === "both" ? "publish, subscribe" : action, topic];
    const row = h("tr", {}, ...cells.map((cell, place) => h("td", { "data-label": labels[place] || null }, cell)));
    tone(row.children[1], allow ? "good" : "bad");
    return row;
  }));
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
  try {
    const { entry, warning } = await post("/access/user", { name: $("user-name").value, password: $("user-password").value });
    $("user-password").value = "";
    write($("user-entry"), entry);
    $("user-entry").hidden = false;
    say("user-said", `${warning ? `⚠ ${warning}. ` : ""}Put this below users: in penstock.yaml, and reload the node (kill -HUP, or watch_s).`,
      warning ? "warn" : "good");
  } catch (error) {
    say("user-said", error.message, "bad");
  }
}

function say(id, text, mood) {
  write($(id), text);
  tone($(id), mood);
}
