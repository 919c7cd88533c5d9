// Reliable streams of the node, the programs it keeps a place for, and its links to others.

import { get } from "./ask.js";
import { bytes, duration, plural, rate, whole } from "./figures.js";
import { $, columns, rows, write } from "./write.js";

const SHOWN = 50;
const STREAM = columns(["Stream", "Host", "State"], ["Log", "Commits", "Rate", "Messages", "Behind", "Readers"]);
const CONSUMER = columns(["Consumer", "User", "State"], ["Behind"]);
const NEIGHBOUR = columns(["Neighbour", "State"], ["Queue", "Sent", "Received", "Dropped", "Reconnects"]);
const TICK_US = 1000 / 1024;

export const page = { name: "streams", title: "Streams", part: "streams", show: showStreams };

async function showStreams() {
  const { streams, neighbours, total, faults } = await get(`/streams?limit=${SHOWN}`);
  write($("streams-count"), plural(total, "stream")
    + (neighbours.length ? `, ${whole.format(neighbours.filter(({ state }) => state === "up").length)} of `
      + `${plural(neighbours.length, "neighbour")} up` : "")
    + (streams.length < total ? `; ${whole.format(streams.length)} shown` : ""));
  $("streams-none").hidden = streams.length > 0;
  $("streams-faults").hidden = !faults.length;
  write($("streams-faults"), faults.join("; "));
  rows($("stream-rows"), streams, STREAM, streamCells, 2, ({ state }) => (
    state === "stopped" ? "bad" : state === "live" ? null : "warn"));
  const consumers = streams.flatMap(consumersOf);
  $("consumers").hidden = !consumers.length;
  rows($("consumer-rows"), consumers, CONSUMER, consumerCells, 2, ({ connected }) => (connected ? null : "warn"));
  $("neighbours").hidden = !neighbours.length;
  rows($("neighbour-rows"), neighbours, NEIGHBOUR, neighbourCells, 1, ({ state }) => (state === "down" ? "bad" : null));
}

function streamCells({ name, topics, host, hosted, state, log, lag_s, rate: bound, held, published, delivered, readers }) {
  return [
    `${name} · ${topics.join(", ")}`, hosted ? "here" : host, state,
    log ? `${whole.format(log.messages)} · ${bytes(log.bytes)}` : "–",
    log && log.commits ? `${rate(log.commits_per_s)} · ${duration(log.commit_us)}` : "–",
    `${bound === null ? "–" : rate(bound)}${held ? ` · ${whole.format(held)} held` : ""}`,
    whole.format(hosted ? published : delivered),
    lag_s ? duration(Math.round(1e6 * lag_s)) : "–",
    `${whole.format(readers.live)} / ${whole.format(readers.catching_up)} / ${whole.format(readers.away)}`
      + (readers.missed ? ` · ${whole.format(readers.missed)} missed something` : ""),
  ];
}

function consumersOf({ name: stream, position, trimmed, log, consumers }) {
  const some = log !== null && log.messages > 0; // else: all have everything, and it was let go
  return consumers.map(({ name, user, connected, place }) => ({
    name: `${stream} · ${name}`, user, connected, all: some && place <= trimmed, behind: some ? position - place : 0,
  }));
}

function consumerCells({ name, user, connected, all, behind }) {
  return [name, user || "–", connected ? "connected" : "away",
    all ? "everything" : behind > 0 ? duration(Math.round(TICK_US * behind)) : "–"];
}

function neighbourCells({ name, state, fault, queue_bytes, sent, received, dropped, reconnects }) {
  return [name, fault ? `${state}: ${fault}` : state, bytes(queue_bytes),
    ...[sent, received, dropped, reconnects].map((count) => whole.format(count))];
}
