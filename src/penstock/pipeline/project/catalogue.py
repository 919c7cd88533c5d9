"""Every table of a pipeline: its columns with type, unit and meaning.

The transforms end in a `select` of these columns, the page of tables in the documentation is generated from
them (`tools/tables_page.py`), and a test compares both.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from pyspark.sql import types as st

from penstock.pipeline.tables.schemas import DIGEST

TEXT: Final = st.StringType()
WHOLE: Final = st.LongType()
REAL: Final = st.DoubleType()
FLAG: Final = st.BooleanType()


@dataclass(frozen=True, slots=True)
class TableColumn:
    """One column of a table."""

    name: str
    kind: st.DataType
    about: str
    unit: str = ""


@dataclass(frozen=True, slots=True)
class TableEntry:
    """One table of a pipeline."""

    name: str
    layer: str
    """bronze, silver or gold."""
    about: str
    columns: tuple[TableColumn, ...]

    @property
    def schema(self) -> st.StructType:
        """The table's columns as Spark knows them."""
        return st.StructType([st.StructField(one.name, one.kind) for one in self.columns])

    @property
    def names(self) -> list[str]:
        """The names of the columns."""
        return [one.name for one in self.columns]


def _c(name: str, kind: st.DataType, about: str, unit: str = "") -> TableColumn:
    return TableColumn(name, kind, about, unit)


_DAY: Final = _c("day", st.DateType(), "day of `ts`, in UTC")
_FILE: Final = _c("file", TEXT, "file of the recorder that the row comes from")
_BROKEN: Final = _c("broken", st.ArrayType(TEXT), "names of the expectations that the row does not meet")
_TS: Final = _c("ts", WHOLE, "time of the event", "µs since 1970")
_CLIENT: Final = _c("client", TEXT, "client identifier of the sender")

_EVENT: Final = (
    _c("topic", TEXT, "topic it was published on"),
    _TS,
    _c("seq", WHOLE, "number among the messages of its sender"),
    _c("sender", TEXT, "client identifier of the publisher"),
    _c("payload", st.BinaryType(), "the message as it came"),
    _c("properties", st.MapType(TEXT, TEXT), "MQTT user properties"),
    _c("content_type", TEXT, "MQTT content type"),
)
_POLL: Final = (
    _c("url", TEXT, "address of the channel"),
    _c("ts", WHOLE, "when the poll ended", "µs since 1970"),
    _c("status", st.IntegerType(), "HTTP status; 0: no answer"),
    _c("changed", FLAG, "whether the page had changed"),
    _c("bytes", WHOLE, "received over the network", "bytes"),
    _c("duration_us", WHOLE, "duration of the poll", "µs"),
    _c("error", TEXT, "why the poll failed; empty: it succeeded"),
)
_SUBSCRIPTION: Final = (
    _c("url", TEXT, "address of the channel"),
    _c("who_kind", TEXT, "kind of subscriber: mqtt, webhook, xmpp …"),
    _c("ts", WHOLE, "when the subscription began or ended", "µs since 1970"),
    _c("change", st.IntegerType(), "+1: began, -1: ended"),
    _c("subscribers", st.IntegerType(), "subscribers of the channel afterwards"),
)
_TRACE: Final = (
    _c("ts", WHOLE, "when the sample was taken", "µs since 1970"),
    _c("client", TEXT, "client identifier of the receiver"),
    _c("filter", TEXT, "topic filter of the subscription"),
    _c("policy", TEXT, "name of the policy; empty: none"),
    _c("level", st.IntegerType(), "level of the last pack; 0: none"),
    _c("items", WHOLE, "items waiting in the queue"),
    _c("bytes", WHOLE, "bytes waiting in the queue", "bytes"),
    _c("accepted", WHOLE, "events routed to the subscription since it began"),
    _c("delivered", WHOLE, "of these, delivered as themselves"),
    _c("digested", WHOLE, "of these, delivered within digests"),
    _c("counted", WHOLE, "of these, told on $digest topics only"),
    _c("packs", WHOLE, "packs of the queue since the subscription began"),
    _c("oldest_us", WHOLE, "wait of the oldest event", "µs"),
    _c("latency_p50_us", WHOLE, "arrival to transport, median of the last events", "µs"),
    _c("latency_p99_us", WHOLE, "arrival to transport, 99th percentile of the last events", "µs"),
)

RECORDED: Final = {"events": _EVENT, "polls": _POLL, "subscriptions": _SUBSCRIPTION, "traces": _TRACE}
"""The kinds of files that a node records, and their columns."""


def recorded_schema(kind: str) -> st.StructType:
    """Columns of a node's files of one kind."""
    return TableEntry(kind, "", "", RECORDED[kind]).schema


_BRONZE: Final = (
    TableEntry("events", "bronze", "Messages as nodes accepted them.", (*_EVENT, _DAY, _FILE, _BROKEN)),
    TableEntry("polls", "bronze", "Polls of channels.", (*_POLL, _DAY, _FILE, _BROKEN)),
    TableEntry(
        "subscriptions",
        "bronze",
        "Subscriptions to channels that began or ended.",
        (*_SUBSCRIPTION, _DAY, _FILE, _BROKEN),
    ),
    TableEntry("arrivals", "bronze", "Who sent when on which topic.", (_CLIENT, _EVENT[0], _TS, _DAY)),
    TableEntry(
        "traces",
        "bronze",
        "Samples of the receivers' queues: level, depth, account, latency.",
        (*_TRACE, _DAY, _FILE, _BROKEN),
    ),
    TableEntry(
        "quarantine",
        "bronze",
        "Files that could not be read, and rows that an expectation dropped.",
        (
            _c("table", TEXT, "table that the file or row was meant for"),
            _c("file", TEXT, "file of the recorder"),
            _c("reason", TEXT, "what is wrong with it; for a row the name of the expectation"),
            _c("row", TEXT, "the row without its payload, as JSON; null: the whole file"),
        ),
    ),
)

_SILVER: Final = (
    TableEntry(
        "packed",
        "silver",
        "The events of each run, packed by the project's policy: kept events, and digests in the place of "
        "dropped ones. Kept events and counts of digests together are the events.",
        (
            *_EVENT,
            _DAY,
            _c("place", WHOLE, "order within the queue of the run"),
            _c("kind", TEXT, "event or digest"),
            _c("digest", DIGEST, "the digest; null in an event"),
        ),
    ),
    TableEntry(
        "digests",
        "silver",
        "What each filter dropped into each digest.",
        (
            _c("queue", TEXT, "key of the queue"),
            _c("from_us", WHOLE, "time of the first event in the digest", "µs since 1970"),
            _c("to_us", WHOLE, "time of the last event in the digest", "µs since 1970"),
            _c("level", st.IntegerType(), "level of the filter"),
            _c("position", st.IntegerType(), "place of the filter within its level"),
            _c("filter", TEXT, "the filter"),
            _c("count", WHOLE, "events that it dropped"),
        ),
    ),
    TableEntry(
        "channel_factors",
        "silver",
        "What an allocation needs to know of each channel.",
        (
            _POLL[0],
            _c("subscribers", st.IntegerType(), "q: subscribers"),
            _c("cost", REAL, "s: mean size of a poll", "bytes"),
            _c("update_interval_us", WHOLE, "u: maximum-likelihood mean time between two changes", "µs"),
            _c("host", TEXT, "host of the address"),
            _c("polls", WHOLE, "polls that the estimate is made of"),
            _c("changes", WHOLE, "changes among them"),
        ),
    ),
    TableEntry(
        "flows",
        "silver",
        "Flows of the last days: whether they have a constant rate, and how well they keep it.",
        (
            _CLIENT,
            _EVENT[0],
            _c("packets", WHOLE, "messages"),
            _c("constant", FLAG, "whether most windows of 64 arrivals have one period"),
            _c("period_us", REAL, "time between two messages", "µs"),
            _c("jitter_us", REAL, "standard deviation from that time", "µs"),
            _c("loss", REAL, "share of messages that are missing"),
            _c("on_time", REAL, "share of messages within three standard deviations"),
            _c("recognised", REAL, "share of windows with a period"),
            _c("first_us", WHOLE, "first arrival", "µs since 1970"),
            _c("last_us", WHOLE, "last arrival", "µs since 1970"),
        ),
    ),
    TableEntry(
        "filter_effect",
        "silver",
        "What each filter of the policy would drop of the last days' events at the highest level.",
        (
            _c("level", st.IntegerType(), "level of the filter"),
            _c("position", st.IntegerType(), "place of the filter within its level"),
            _c("filter", TEXT, "the filter"),
            _c("seen", WHOLE, "events that reached the filter"),
            _c("dropped", WHOLE, "of these, dropped"),
            _c("ratio", REAL, "dropped / seen"),
        ),
    ),
)

_GOLD: Final = (
    TableEntry(
        "allocation",
        "gold",
        "How often each channel is polled. A control table: nodes follow it.",
        (
            _POLL[0],
            _c("interval_us", WHOLE, "time between two polls", "µs"),
            _c("host", TEXT, "host of the address"),
            _c("price", REAL, "price of a poll at which the interval is the best"),
        ),
    ),
    TableEntry(
        "reservations",
        "gold",
        "Flows that get reserved slots. A control table: nodes follow it.",
        (
            _CLIENT,
            _EVENT[0],
            _c("period_us", WHOLE, "time between two messages", "µs"),
            _c("jitter_us", WHOLE, "standard deviation from that time", "µs"),
        ),
    ),
    TableEntry(
        "policies",
        "gold",
        "Policies of classes of receivers. A control table: nodes follow it.",
        (
            _c("name", TEXT, "name of the policy"),
            _c("client", TEXT, "client identifiers it is for; * and ? match"),
            _c("filter", TEXT, "topic filter that the subscription's own filter must match"),
            _c("policy", TEXT, "the policy, as YAML"),
        ),
    ),
    TableEntry(
        "policy_advice",
        "gold",
        "Policies that were advised, and what became of them.",
        (
            _c("name", TEXT, "name of the class of receivers"),
            _c("learned_us", WHOLE, "time of the newest event that it was learned from", "µs since 1970"),
            _c("state", TEXT, "shadow: not tried on newer events yet; held; failed; refused"),
            _c("policy", TEXT, "the policy, as YAML"),
            _c("kept", REAL, "share of events that the needed level keeps, on held-out events"),
            _c("items", REAL, "items, digests included, that it leaves per event"),
            _c("shadow_us", WHOLE, "time of the newest event of the shadow backtest", "µs since 1970"),
            _c("shadow_events", WHOLE, "events of the shadow backtest"),
            _c("reason", TEXT, "the verdict in a sentence"),
        ),
    ),
    TableEntry(
        "health",
        "gold",
        "Figures about receivers and about the pipeline itself, one in a row.",
        (
            _c("measure", TEXT, "what is measured"),
            _c("name", TEXT, "of what: a table, an expectation, a policy, a level"),
            _c("value", REAL, "the figure"),
            _c("unit", TEXT, "its unit"),
        ),
    ),
    TableEntry(
        "report",
        "gold",
        "One row per day: how much there was, and what the policy made of it.",
        (
            _DAY,
            _c("events", WHOLE, "events recorded"),
            _c("senders", WHOLE, "clients that sent them"),
            _c("topics", WHOLE, "topics they were sent on"),
            _c("bytes", WHOLE, "bytes of their payloads", "bytes"),
            _c("kept", WHOLE, "events that the policy kept as themselves"),
            _c("kept_share", REAL, "kept / events"),
        ),
    ),
)

TABLES: Final = {one.name: one for one in (*_BRONZE, *_SILVER, *_GOLD)}
"""Every table by its name, in the order of the layers."""

CONTROL: Final = ("allocation", "reservations", "policies")
"""Control tables, which nodes follow."""
