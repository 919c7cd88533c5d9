// The dashboard: follows live snapshots of the node, and says when there are none.

import { Problem, ask, events, notice } from "./ask.js";
import { showHeader, showUnknown } from "./overview.js";
import { offerPages, showPage } from "./pages.js";
import { state } from "./state.js";
import "./theme.js";
import { offerChoices } from "./timeline.js";
import { $, write } from "./write.js";

const LATE_MS = 10_000; // a node of many clients takes its snapshots less often than once a second
const LOST_MS = 60_000;
const clock = new Intl.DateTimeFormat("en-GB", { timeStyle: "medium" });

let following = null;
let seen = null; // when the last snapshot came

async function follow() {
  if (following) return;
  const stop = (following = new AbortController());
  let pause = 500;
  while (!stop.signal.aborted) {
    const attempt = new AbortController();
    const end = () => attempt.abort();
    stop.signal.addEventListener("abort", end);
    const watching = setInterval(() => late(attempt), 1_000);
    try {
      const response = await ask("/live", { signal: attempt.signal });
      pause = 500;
      await events(response, shown);
      live("late", "reconnecting"); // the node has ended the view: it stops, or is started again
    } catch (error) {
      if (stop.signal.aborted) break;
      down();
      if (error instanceof Problem) notice(error.message);
    } finally {
      clearInterval(watching);
      stop.signal.removeEventListener("abort", end);
    }
    if (stop.signal.aborted) break;
    await new Promise((go) => setTimeout(go, pause));
    pause = Math.min(pause * 2, 8_000);
  }
}

/** Say so when snapshots stay away although the connection is open; give it up in the end. */
function late(attempt) {
  if (!seen || $("live").dataset.state === "lost") return;
  const ms = Date.now() - seen;
  if (ms > LOST_MS) attempt.abort();
  else if (ms > LATE_MS) live("late", `no news for ${Math.round(ms / 1_000)} s`);
}

function live(kind, text) {
  $("live").dataset.state = kind;
  document.body.dataset.node = kind;
  write($("live"), text);
}

/** What is on the page is not known to be true any more. */
function down() {
  live("lost", "node is down");
  $("down").hidden = false;
  write($("down"), state.snapshot
    ? `The node does not answer. What you see below was so at ${clock.format(new Date(seen))}; trying again …`
    : "The node does not answer; trying again …");
  showUnknown();
}

async function shown(snapshot) {
  state.snapshot = snapshot;
  seen = Date.now();
  live("live", "live");
  $("down").hidden = true;
  notice("");
  offerPages(snapshot.overview);
  showHeader(snapshot.overview);
  offerChoices();
  try {
    await showPage(snapshot);
  } catch (error) {
    if (!(error instanceof Problem)) throw error; // the connection is lost, or there is a mistake in the page
    notice(error.message);
  }
}

document.addEventListener("visibilitychange", () => {
  if (document.hidden) {
    following?.abort();
    following = null;
    live("waiting", "paused");
  } else follow();
});

follow();
