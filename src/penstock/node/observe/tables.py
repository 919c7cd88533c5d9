"""Lists the numbers of a snapshot that are metrics and $SYS topics: one table for each part of the snapshot.

A line has the field, the metric (empty: none), the topic (empty: none) and what the number means.
"""

from __future__ import annotations

from typing import Final

from penstock import limits
from penstock.node.observe import rows
from penstock.node.observe.figures import Table, by, counter, gauge

_BROKER: Final = Table(
    "broker",
    (
        gauge("started_us", "start_time_seconds", "", "When the node started, in Unix time"),
        gauge("connections", "connections", "clients/connected", "Open connections"),
        gauge("disconnected", "", "clients/disconnected"),
        gauge("sessions", "sessions", "clients/total", "Sessions, detached ones included"),
        gauge("subscriptions", "subscriptions", "subscriptions/count", "Subscriptions"),
        gauge("retained", "retained_messages", "retained messages/count", "Retained messages"),
        gauge("retained_bytes", "retained_bytes", "retained messages/bytes", "Bytes of retained messages"),
        gauge("behind", "clients_behind", "", "Clients whose transport takes nothing"),
        counter(
            "messages_received", "messages_received", "publish/messages/received", "Messages from clients"
        ),
        counter("messages_sent", "messages_sent", "publish/messages/sent", "Messages to clients"),
        counter("bytes_received", "bytes_received", "bytes/received", "Bytes from clients"),
        counter("bytes_sent", "bytes_sent", "bytes/sent", "Bytes to clients"),
        counter(
            "unrouted", "unrouted_messages", "publish/messages/unrouted", "Messages without a subscriber"
        ),
        counter("refused", "refused", "refused", "Connections and packets refused", label="reason"),
        *by(
            "state",
            gauge("attached", "clients", "", "Clients by state"),
            gauge("detached", "clients", ""),
        ),
        gauge("levels", "subscriptions_by_level", "", "Subscriptions by level", label="level"),
    ),
)

_ACCOUNT: Final = Table(
    "broker.account",
    (
        *by(
            "fate",
            counter("accepted", "events", "accepted", "Events routed to receivers, by fate"),
            counter("delivered", "events", "delivered"),
            counter("digested", "events", "digested"),
            counter("counted", "events", "counted"),
            counter("abandoned", "events", "abandoned"),
        ),
        gauge("queued", "events_queued", "queued", "Events waiting, as themselves or in digests"),
        counter(
            "oversized", "events_oversized", "oversized", "Events dropped as larger than the receiver takes"
        ),
        gauge("unaccounted", "", "unaccounted"),
        gauge("balanced", "account_balanced", "", "1 if every event is accounted for"),
    ),
    topics="account/",
)

_STORE: Final = Table(
    "broker.store",
    (
        gauge("fault", "stopped", "stopped", "1 if nothing can be written"),
        gauge("rows", "rows_waiting", "rows waiting", "Rows that wait for the disk"),
        gauge(
            "answers", "answers_waiting", "answers waiting", "Answers to publishers that wait for the disk"
        ),
    ),
    metrics="store_",
    topics="store/",
)

_SLOWEST: Final = Table(
    "broker.clients",
    (
        gauge("subscription.items", "items", "", "Items waiting, of the slowest subscriptions"),
        gauge("subscription.bytes", "bytes", "", "Bytes waiting, of the slowest subscriptions"),
        gauge("subscription.level", "level", "", "Level of the policy, of the slowest subscriptions"),
        gauge(
            "subscription.oldest_us",
            "oldest_seconds",
            "",
            "Wait of the oldest event, of the slowest subscriptions",
        ),
        gauge(
            "subscription.latency_p99_us",
            "latency_p99_seconds",
            "",
            "Arrival to transport, 99th percentile, of the slowest subscriptions",
        ),
        gauge(
            "subscription.wait_us",
            "wait_seconds",
            "",
            "Wait of an event that arrives now, of the slowest subscriptions",
        ),
        gauge("subscription.urgent", "urgent", "", "Urgent events waiting, of the slowest subscriptions"),
        gauge(
            "subscription.bytes_per_s",
            "bytes_per_second",
            "",
            "Bytes the client takes a second, of the slowest subscriptions that keep a time",
        ),
    ),
    metrics="slow_subscription_",
    row_labels={"client": "client_id", "filter": "subscription.filter"},
    shown=lambda status: rows.slow(status.broker, most=limits.METRICS_SLOWEST),
)

_NODE: Final = Table(
    "",
    (gauge("faults", "faults", "faults", "What does not work: the store, the recorder, a table, a stream"),),
)

_RECORDER: Final = Table(
    "recorder",
    (
        *by(
            "fate",
            gauge("seen", "events", "", "Events to be recorded, by fate"),
            gauge("recorded", "events", ""),
            gauge("waiting", "events", ""),
            gauge("dropped", "events", ""),
            gauge("lost", "events", ""),
        ),
        gauge("fault", "paused", "", "1 if nothing can be written"),
    ),
    metrics="recorder_",
)

_FLOWS: Final = Table(
    "flows",
    (
        gauge("known", "flows_known", "known", "Flows of constant rate that are known"),
        gauge("served", "flows_served", "served", "Flows with reserved slots"),
        gauge("silent", "flows_silent", "silent", "Served flows that have stopped sending"),
        gauge("links", "flows_links", "links", "Links of receivers on which flows have places"),
        gauge("fullest", "flows_fullest_slot", "fullest", "Share taken of the fullest slot of any link"),
        gauge("memory_bytes", "flows_filter_bytes", "filters/bytes", "Memory of the filters of slots"),
        gauge(
            "false_positive",
            "flows_false_positive",
            "filters/false_positive",
            "Chance that the fullest filter finds a flow that never came",
        ),
        gauge(
            "table_version", "flows_table_version", "table/version", "Version of the control table in force"
        ),
        gauge("table_fault", "flows_table_broken", "table/broken", "1 if a newer control table was refused"),
        counter("alarms", "flows_alarms", "alarms", "Flows that fell silent"),
        counter("retried", "flow_retries", "retried", "Messages recognised as retries"),
        counter(
            "unlisted", "flow_unlisted_messages", "unlisted", "Messages on time of flows without an entry"
        ),
        counter(
            "turned_away", "flows_turned_away", "turned_away", "Arrivals of flows that found the table full"
        ),
        *by(
            "lane",
            counter("reserved", "flow_messages", "messages/reserved", "Messages by lane"),
            counter("best_effort", "flow_messages", "messages/best_effort"),
            counter("late", "flow_messages", "messages/late"),
        ),
        counter(
            "requests",
            "flow_requests",
            "requests",
            "Messages that ask for a place, by the answer",
            label="answer",
        ),
        counter("refused", "flows_refused", "refused", "Flows not served, by reason", label="reason"),
    ),
    topics="flows/",
)

_CHANNELS: Final = Table(
    "channels",
    (
        gauge("channels", "channels", "count", "Web pages known"),
        gauge("polled", "channels_polled", "polled", "Web pages polled"),
        gauge("failing", "channels_failing", "failing", "Web pages whose last poll failed"),
        gauge("subscriptions", "channels_subscriptions", "subscriptions/count", "Subscriptions to web pages"),
        gauge("fetching", "channels_fetches_active", "fetches/active", "Fetches under way"),
        gauge("due", "channels_fetches_due", "fetches/due", "Web pages that wait for a fetch"),
        counter("counts.polls", "", "polls/count"),
        *by(
            "fate",
            counter(
                "counts.first", "channels_polls", "polls/first", "Polls of web pages, by what they brought"
            ),
            counter("counts.same", "channels_polls", "polls/same"),
            counter("counts.changes", "channels_polls", "polls/changes"),
            counter("counts.noise", "channels_polls", "polls/noise"),
            counter("counts.errors", "channels_polls", "polls/errors"),
        ),
        gauge("counts.looking", "", "polls/looking"),
        counter("counts.bytes", "channels_bytes", "polls/bytes", "Bytes of web pages"),
        *by(
            "way",
            counter("published", "channels_changes", "changes/published", "Changes of web pages, by way"),
            counter("handed", "channels_changes", "changes/handed"),
        ),
        gauge(
            "untold",
            "channels_changes_untold",
            "changes/untold",
            "Changes not on disk yet, which are published then",
        ),
        gauge("faults", "channels_faults", "faults", "What does not work: the store, a control table"),
        gauge("balanced", "channels_balanced", "", "1 if every poll and every change is accounted for"),
    ),
    topics="channels/",
)

_NOTIFY: Final = Table(
    "notify",
    (
        *by(
            "fate",
            counter("taken", "changes", "", "Changes for subscribers, by fate"),
            counter("sent", "changes", ""),
            counter("digested", "changes", ""),
            counter("forgotten", "changes", ""),
        ),
        gauge("waiting", "waiting", "", "Changes that wait for subscribers"),
        gauge("subscribers", "subscribers_waiting", "", "Subscribers for whom something waits"),
        gauge("failing", "subscribers_failing", "", "Subscribers that could not be reached"),
    ),
    metrics="notify_",
)

_STREAMS: Final = Table(
    "streams",
    (
        gauge("streams", "streams", "streams/count", "Reliable streams"),
        gauge("neighbours", "", "streams/neighbours/count"),
        gauge("faults", "streams_faults", "streams/faults", "What does not work: logs, places"),
    ),
)

_STREAM: Final = Table(
    "streams.streams",
    (
        gauge("hosted", "", "hosted"),
        gauge("stopped", "", "stopped"),
        gauge("lag_s", "lag_seconds", "", "How far this node is behind the stream"),
        gauge("recovering", "recovering", "recovering", "1 while missing messages are asked for"),
        gauge("held", "held", "messages/held", "Messages whose acknowledgement waits for its turn"),
        gauge("waiting", "waiting", "messages/waiting", "Messages that are not durable yet"),
        gauge("cached_bytes", "cached_bytes", "", "Bytes kept in memory to send again"),
        gauge("consumers_total", "consumers", "consumers/count", "Programs with a place in the stream"),
        counter("published", "published", "messages/published", "Messages taken"),
        counter(
            "delivered",
            "delivered",
            "messages/delivered",
            "Messages that reached the subscribers' side of this node",
        ),
        counter("nacks", "nacks", "", "Times that missing messages were asked for"),
        counter("readers.missed", "missed", "", "Times a reader found messages gone"),
        gauge(
            "rate",
            "rate",
            "",
            "Messages a second for which publishers are acknowledged, where that is bounded",
        ),
        *by(
            "state",
            gauge("readers.live", "readers", "readers/live", "MQTT sessions that read a stream, by state"),
            gauge("readers.catching_up", "readers", "readers/catching up"),
            gauge("readers.away", "readers", "readers/away"),
        ),
        gauge("log.messages", "log_messages", "log/messages", "Messages in the log"),
        gauge("log.bytes", "log_bytes", "log/bytes", "Bytes of the log"),
        gauge("log.bytes_most", "log_bytes_most", "", "Bytes beyond which nothing is accepted"),
        gauge("log.fault", "log_stopped", "", "1 if nothing can be made durable"),
        counter("log.commits", "log_commits", "log/commits", "Commits of the log"),
        counter("log.committed", "log_committed", "", "Messages of those commits"),
        counter("log.committing_us", "log_commit_seconds", "", "Time spent in commits"),
    ),
    metrics="stream_",
    topics="streams/",
    row_labels={"stream": "name"},
    shown=lambda status: rows.streams(status.streams)[: limits.METRICS_STREAMS] if status.streams else (),
)

_NEIGHBOUR: Final = Table(
    "streams.neighbours",
    (
        gauge("up", "up", "up", "1 if the link to a neighbour is up"),
        gauge("queue_bytes", "queue_bytes", "", "Bytes that wait for a link"),
        counter("sent", "sent", "", "Messages sent to a neighbour"),
        counter("sent_bytes", "sent_bytes", "", "Bytes sent to a neighbour"),
        counter("received", "received", "", "Messages from a neighbour"),
        counter("received_bytes", "received_bytes", "", "Bytes from a neighbour"),
        counter("dropped", "dropped", "", "Messages that found the link's queue full"),
        counter("reconnects", "reconnects", "", "Times the link was made again"),
    ),
    metrics="stream_link_",
    topics="streams/neighbours/",
    row_labels={"neighbour": "name"},
    shown=lambda status: status.streams.neighbours[: limits.METRICS_STREAMS] if status.streams else (),
)

_CLUSTER: Final = Table(
    "cluster",
    (
        gauge("here", "nodes", "nodes", "Nodes of the cluster that are there, this one included"),
        gauge("away", "nodes_away", "away", "Nodes that are away"),
        *by(
            "fate",
            counter("events.accepted", "events", "accepted", "Events for other nodes, by fate"),
            counter("events.handed", "events", "handed"),
            counter("events.digested", "events", "digested"),
            counter("events.abandoned", "events", "abandoned"),
        ),
        gauge("events.queued", "events_queued", "queued", "Events that wait for other nodes"),
        gauge("events.in_flight", "events_in_flight", "in-flight", "Events on their way, not acknowledged"),
        counter("events.received", "events_received", "received", "Events from other nodes"),
        gauge("balanced", "balanced", "", "1 if every event for other nodes is accounted for"),
        gauge("sessions.rooted", "sessions_rooted", "rooted", "Sessions that this node knows the holder of"),
        gauge("sessions.standby", "sessions_standby", "standby", "Sessions of nodes that are away"),
        *by(
            "how",
            counter("sessions.came", "moves", "came", "Clients that moved, by how their sessions went"),
            counter("sessions.went", "moves", "went"),
            counter("sessions.recalled", "moves", "recalled"),
            counter("sessions.alone", "moves", "alone"),
        ),
        counter(
            "sessions.abandoned", "moves_abandoned", "", "Events that waited where a client is no longer"
        ),
        gauge("faults", "faults", "faults", "What does not work: nodes that are away, or cannot be joined"),
    ),
    metrics="cluster_",
    topics="cluster/",
)

_LINK: Final = Table(
    "cluster.links",
    (
        gauge("connected", "up", "", "1 if the other node is in view"),
        gauge("direct", "direct", "", "1 if frames go over a connection of their own, 0 if by Zenoh"),
        gauge("filters", "filters", "", "Filters that the other node wants"),
        gauge("events.queued", "events_queued", "", "Events that wait for the other node"),
        gauge("queued_bytes", "queued_bytes", "", "Bytes that wait for the other node"),
        gauge("in_flight_bytes", "in_flight_bytes", "", "Bytes on their way to the other node"),
        counter("events.handed", "handed", "", "Events that the other node has"),
        counter("events.digested", "digested", "", "Events dropped because the link's queue was full"),
        counter("events.received", "received", "", "Events from the other node"),
        counter("resent", "resent", "", "Frames sent again"),
        counter("forwarded", "forwarded", "", "Frames of further nodes passed on to the other node"),
        counter("damaged", "damaged", "", "Frames and items of the other node that were refused"),
        gauge("split", "split", "", "1 if private queues wait, packed by the receivers' policies"),
        counter("splits", "splits", "", "Times that the shared queue was split into private ones"),
        gauge("round_trip_us", "round_trip_seconds", "", "Smoothed time until a frame is acknowledged"),
    ),
    metrics="cluster_link_",
    row_labels={"node": "name"},
    shown=lambda status: status.cluster.links[: limits.METRICS_STREAMS] if status.cluster else (),
)

TABLES: Final = (
    _BROKER,
    _ACCOUNT,
    _STORE,
    _NODE,
    _RECORDER,
    _FLOWS,
    _CHANNELS,
    _NOTIFY,
    _STREAMS,
    _STREAM,
    _NEIGHBOUR,
    _CLUSTER,
    _LINK,
    _SLOWEST,
)
