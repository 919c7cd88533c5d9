"""Options of `format("penstock")`, checked, and the schema of a message; InputError names a wrong option."""

from __future__ import annotations

import json
import ssl
import warnings
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING, Final, Self

from pyspark.sql.types import (
    BinaryType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from penstock import limits
from penstock.client.streams.connection import StreamConnection, read_stream_address
from penstock.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping

EARLIEST: Final = "earliest"
LATEST: Final = "latest"
ALL: Final = "*"

SCHEMA: Final = StructType(
    [
        StructField("stream", StringType()),
        StructField("tick", LongType()),
        StructField("topic", StringType()),
        StructField("payload", BinaryType()),
        StructField("ts", TimestampType()),
        StructField("sender", StringType()),
        StructField("seq", LongType()),
        StructField("qos", IntegerType()),
        StructField("content_type", StringType()),
        StructField("properties", MapType(StringType(), StringType())),
    ]
)
"""Schema of a message: `ts` is when the node accepted it; the rest is as in `StreamMessage`."""


@dataclass(frozen=True, slots=True)
class Option:
    """An option of the format, as its page shows it."""

    name: str
    reads: bool
    """Whether it is for reading."""
    writes: bool
    meaning: str
    default: str


OPTIONS: Final = (
    Option(
        "url",
        True,
        True,
        "where the node is: `stream://[user:password@]host:1884`, `streams://` for TLS",
        "needed",
    ),
    Option(
        "stream",
        True,
        True,
        "its name; reading takes several with commas, or `*` for all that the node hosts",
        "needed",
    ),
    Option(
        "patience",
        True,
        True,
        "seconds that a node is waited for which cannot be reached",
        f"{limits.STREAM_PATIENCE_S:g}",
    ),
    Option("ca", True, True, "PEM file of authorities, for `streams://`", "those of the machine"),
    Option(
        "consumer",
        True,
        False,
        "name under which the node keeps the query's place, and its messages with it",
        "none: messages may go after `retain_s`",
    ),
    Option(
        "startingOffsets",
        True,
        False,
        '`earliest`, `latest`, or ticks by stream as JSON, `{"orders": 1811936280576000}`',
        "`latest`; in a batch `earliest`",
    ),
    Option("endingOffsets", True, False, "`latest` or JSON, only in a batch", "`latest`"),
    Option("maxRowsPerTrigger", True, False, "rows of one trigger, shared by the streams", "no bound"),
    Option("rowsPerPartition", True, False, "rows of one task", f"{limits.STREAM_PARTITION_ROWS:,}"),
    Option("failOnDataLoss", True, False, "whether a query fails if messages it needs are gone", "`true`"),
    Option("topic", False, True, "topic of all rows", "their column `topic`"),
    Option("writer", False, True, "whom the messages name as their sender", "`spark`"),
)
"""Every option; the guide's table is held to this one."""
_SPARK: Final = {"path", "checkpointlocation", "queryname"}
"""Options that Spark itself adds."""


@dataclass(frozen=True, slots=True)
class NodeAddress:
    """Address of a node, and how to connect to it."""

    url: str
    patience_s: float
    """How long to try to reach the node."""
    ca: str
    """PEM file of certificate authorities, for streams://; empty: those of the machine."""

    def connection(self) -> StreamConnection:
        """A connection, opened on first use."""
        try:
            tls = ssl.create_default_context(cafile=self.ca) if self.ca else None
        except OSError as error:
            raise InputError(
                f"option ca: certificates cannot be read ({error.strerror or error}); the file must be on "
                "the driver and on every worker",
                path=self.ca,
            ) from None
        return StreamConnection(self.url, name="spark", tls=tls, patience_s=self.patience_s)


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """Options of a source."""

    where: NodeAddress
    streams: tuple[str, ...]
    """Names of streams; empty: all that the node hosts."""
    consumer: str
    starting: str | dict[str, int]
    """earliest, latest or ticks by stream; empty: not given."""
    ending: str | dict[str, int]
    most_rows: int
    """Most rows of one trigger; 0: no limit."""
    partition_rows: int
    strict: bool
    """Fail if messages have been deleted."""

    @classmethod
    def of(cls, options: Mapping[str, str]) -> Self:
        """Parse and check Spark's options."""
        _known(options, reads=True)
        stream = _needed(options, "stream", "the name of a stream, several with commas, or *")
        names = tuple(name.strip() for name in stream.split(",") if name.strip())
        if not names:
            raise InputError("option stream is empty; give the name of a stream, several with commas, or *")
        return cls(
            _where(options),
            () if ALL in names else names,
            options.get("consumer") or "",
            _offsets(options, "startingOffsets", (EARLIEST, LATEST)),
            _offsets(options, "endingOffsets", (LATEST,)),
            _count(options, "maxRowsPerTrigger", 0),
            _count(options, "rowsPerPartition", limits.STREAM_PARTITION_ROWS),
            _flag(options, "failOnDataLoss", default=True),
        )


@dataclass(frozen=True, slots=True)
class SinkOptions:
    """Options of a sink."""

    where: NodeAddress
    stream: str
    topic: str
    """Topic of all rows; empty: they have a column `topic`."""
    writer: str
    """Sender of the messages."""

    @classmethod
    def of(cls, options: Mapping[str, str]) -> Self:
        """Parse and check Spark's options."""
        _known(options, reads=False)
        stream = _needed(options, "stream", "the name of the stream to write into")
        return cls(_where(options), stream, options.get("topic") or "", options.get("writer") or "spark")


def check_schema(schema: StructType) -> None:
    """Refuse a user-defined schema: the source's columns are fixed."""
    if [(one.name, one.dataType) for one in schema] != [(one.name, one.dataType) for one in SCHEMA]:
        raise InputError(f"the columns of penstock are {SCHEMA.simpleString()}; give no other schema")


def _known(options: Mapping[str, str], *, reads: bool) -> None:
    """Refuse an option that is another one misspelled, or for the other direction; warn of a strange one.

    Options that resemble none of ours may be meant for others: Spark hands on what a session or a pipeline
    gives to all sources.
    """
    own = {one.name.lower(): one.name for one in OPTIONS if (one.reads if reads else one.writes)}
    others = {one.name.lower() for one in OPTIONS} - own.keys()
    for name in sorted(options):
        given = name.lower()
        if given in own or given in _SPARK:
            continue
        near = get_close_matches(given, own, n=1)
        allowed = ", ".join(sorted(own.values()))
        if given in others:
            raise InputError(f"unknown option {name}: it is for {_OTHER[reads]}; allowed: {allowed}")
        if near:
            raise InputError(f"unknown option {name}; did you mean {own[near[0]]}? Allowed: {allowed}")
        warnings.warn(f"format penstock ignores the unknown option {name}; it has: {allowed}", stacklevel=3)


_OTHER: Final = {True: "writing", False: "reading"}


def _needed(options: Mapping[str, str], name: str, what: str) -> str:
    found = options.get(name)
    if not found:
        raise InputError(f"option {name} is missing: {what}")
    return found


def _where(options: Mapping[str, str]) -> NodeAddress:
    url = _needed(options, "url", "where the node is, as stream://127.0.0.1:1884")
    read_stream_address(url)
    patience = options.get("patience") or str(limits.STREAM_PATIENCE_S)
    try:
        patience_s = float(patience)
    except ValueError:
        patience_s = -1.0
    if not 0 <= patience_s < 1e9:
        raise InputError(f"option patience is {patience!r}: how many seconds a lost node is waited for")
    return NodeAddress(url, patience_s, options.get("ca") or "")


def _offsets(options: Mapping[str, str], name: str, words: tuple[str, ...]) -> str | dict[str, int]:
    text = options.get(name) or ""
    if not text or text in words:
        return text
    wanted = f'{", ".join(words)} or ticks by stream, as {{"orders": 1811936280576000}}'
    try:
        found = json.loads(text)
    except ValueError:
        raise InputError(f"option {name} is {text!r}: {wanted}") from None
    if not isinstance(found, dict) or not all(
        isinstance(tick, int) and 0 <= tick < limits.STREAM_TICKS for tick in found.values()
    ):
        raise InputError(f"option {name} is {text!r}: {wanted}")
    return found


def _count(options: Mapping[str, str], name: str, default: int) -> int:
    text = options.get(name)
    if text is None:
        return default
    if not text.isdecimal() or not 0 < int(text) < limits.STREAM_TICKS:
        raise InputError(f"option {name} is {text!r}: a number of rows from 1")
    return int(text)


def _flag(options: Mapping[str, str], name: str, *, default: bool) -> bool:
    text = options.get(name)
    if text is None:
        return default
    if text.lower() not in ("true", "false"):
        raise InputError(f"option {name} is {text!r}: true or false")
    return text.lower() == "true"
