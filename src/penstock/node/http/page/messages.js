// Publish a message, and watch messages as they are published.

import { ask, events, post } from "./ask.js";
import { bytes, whole } from "./figures.js";
import { $, h, tone, write } from "./write.js";

const SHOWN = 200;
const clock = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit", fractionalSecondDigits: 1 });
let watching = null;
let count = 0;
let missed = 0;

export const page = {
  name: "messages",
  title: "Messages",
  build,
  open(query) {
    const filter = query.get("filter");
    if (!filter) return;
    $("watch-filter").value = filter;
    watch();
  },
  close: stop,
};

function build(box) {
  box.append(h("div", { class: "two" },
    h("section", { class: "card", "aria-labelledby": "publish-title" },
      h("div", { class: "head" }, h("h2", { id: "publish-title" }, "Publish")),
      h("form", { id: "publish-form", class: "fields" },
        h("label", {}, "Topic ", h("input", { id: "publish-topic", required: "", maxlength: "2000", spellcheck: "false",
          autocomplete: "off", placeholder: "home/kitchen/light" })),
        h("label", {}, "Message ", h("textarea", { id: "publish-payload", rows: "4", spellcheck: "false", placeholder: '{"on": true}' })),
        h("div", { class: "actions" },
          h("label", {}, "QoS ", h("select", { id: "publish-qos" }, ...["0", "1", "2"].map((qos) => h("option", {}, qos)))),
          h("label", {}, h("input", { type: "checkbox", id: "publish-retain" }), " retain"),
          h("button", { class: "main", type: "submit" }, "Publish"))),
      h("p", { id: "publish-said", class: "said", role: "status" }),
      h("p", { class: "beside" }, "Messages from here are published in the name of the node.")),
    h("section", { class: "card", "aria-labelledby": "watch-title" },
      h("div", { class: "head" }, h("h2", { id: "watch-title" }, "Watch"), h("span", { id: "watch-count", class: "count" })),
      h("form", { id: "watch-form", class: "actions first" },
        h("label", { class: "wide" }, h("span", { class: "unseen" }, "Topic filter"), h("input", { id: "watch-filter", value: "#", required: "", maxlength: "2000",
          spellcheck: "false", autocomplete: "off" })),
        h("button", { id: "watch-start", class: "main", type: "submit" }, "Watch"),
        h("button", { id: "watch-stop", type: "button", disabled: "" }, "Stop")),
      h("p", { id: "watch-said", class: "said", role: "status" }),
      h("ol", { id: "watch-list", class: "messages", tabindex: "0", "aria-label": "Messages, newest first" }))));
  $("publish-form").addEventListener("submit", publish);
  $("watch-form").addEventListener("submit", (event) => {
    event.preventDefault();
    watch();
  });
  $("watch-stop").addEventListener("click", stop);
}

async function publish(event) {
  event.preventDefault();
  const topic = $("publish-topic").value;
  const body = { topic, payload: $("publish-payload").value, qos: Number($("publish-qos").value), retain: $("publish-retain").checked };
  try {
    await post("/publish", body);
    say("publish-said", `Published on ${topic}.`, "good");
  } catch (error) {
    say("publish-said", error.message, "bad");
  }
}

async function watch() {
  stop();
  const mine = (watching = new AbortController());
  count = missed = 0;
  $("watch-list").replaceChildren();
  $("watch-stop").disabled = false;
  say("watch-said", "Waiting for messages …");
  const filter = $("watch-filter").value;
  try {
    const response = await ask(`/messages?${new URLSearchParams({ filter })}`, { signal: mine.signal });
    await events(response, show, { all: true });
    say("watch-said", "The node has ended this view.", "bad");
  } catch (error) {
    if (!mine.signal.aborted) say("watch-said", error.message, "bad");
  }
  if (watching === mine) stop();
}

function stop() {
  watching?.abort();
  watching = null;
  $("watch-stop").disabled = true;
}

function show({ messages, missed: skipped }) {
  count += messages.length + skipped;
  missed += skipped;
  const list = $("watch-list");
  list.prepend(...messages.toReversed().map(item));
  while (list.children.length > SHOWN) list.lastElementChild.remove();
  write($("watch-count"), `${whole.format(count)} seen${missed ? `, ${whole.format(missed)} of them too fast to show` : ""}`);
  if (count) say("watch-said", "");
}

function item({ topic, payload, bytes: size, sender, ts_us, retained }) {
  return h("li", {}, h("p", { class: "topic" }, topic, ...(retained ? [" ", h("span", { class: "chip" }, "retained")] : [])),
    h("pre", {}, payload),
    h("small", {}, [clock.format(new Date(ts_us / 1_000)), sender && `from ${sender}`, bytes(size)].filter(Boolean).join(" · ")));
}

function say(id, text, mood = null) {
  write($(id), text);
  tone($(id), mood);
}
