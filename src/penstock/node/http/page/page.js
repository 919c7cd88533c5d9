// The dashboard: reads live snapshots of the node, and updates each part of the page.

import { Problem, ask, notice } from "./ask.js";
import { showChannels } from "./channels.js";
import { search, showClients } from "./clients.js";
import { showFlows } from "./flows.js";
import { showOverview } from "./overview.js";
import { check, offerRegistered } from "./policies.js";
import { showSlow } from "./slow.js";
import { state } from "./state.js";
import { showStreams } from "./streams.js";
import "./theme.js";
import { fetchSeries, offerChoices } from "./timeline.js";
import { $, write } from "./write.js";

let following = null;

async function follow() {
  if (following) return;
  const stop = (following = new AbortController());
  let pause = 500;
  while (!stop.signal.aborted) {
    try {
      const response = await ask("/live", { signal: stop.signal });
      pause = 500;
      await read(response.body.getReader());
    } catch (error) {
      if (stop.signal.aborted) break;
      if (error instanceof Problem) notice(error.message);
    }
    if (stop.signal.aborted) break;
    live("lost", "reconnecting");
    await new Promise((go) => setTimeout(go, pause));
    pause = Math.min(pause * 2, 8_000);
  }
}

/** Read server-sent events with fetch: EventSource cannot send a token. */
async function read(reader) {
  const decoder = new TextDecoder();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    rest += decoder.decode(value, { stream: true });
    const events = rest.split("\n\n");
    rest = events.pop();
    // Show only the newest if several came at once.
    const last = events.findLast((event) => event.startsWith("data: "));
    if (last) await shown(JSON.parse(last.slice(6)));
  }
}

function live(kind, text) {
  $("live").dataset.state = kind;
  write($("live"), text);
}

async function shown(snapshot) {
  state.snapshot = snapshot;
  live("live", "live");
  notice("");
  showOverview(snapshot.overview);
  offerChoices();
  showSlow();
  showClients();
  await Promise.all([fetchSeries(), showFlows(), showChannels(), showStreams(), state.search ? search() : null]);
}

document.addEventListener("visibilitychange", () => {
  if (document.hidden) {
    following?.abort();
    following = null;
    live("waiting", "paused");
  } else follow();
});

follow();
await check();
await offerRegistered();
