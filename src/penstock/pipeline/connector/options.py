"""Options of `format("penstock")`, checked, and the schema of a message; InputError names a wrong option."""

from __future__ import annotations

import json
import ssl
from dataclasses import dataclass
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

_SHARED: Final = {"url", "stream", "patience", "ca"}
_SOURCE: Final = _SHARED | {
    "consumer", "startingoffsets", "endingoffsets", "maxrowspertrigger", "rowsperpartition", "failondataloss",
}  # fmt: skip
_SINK: Final = _SHARED | {"topic", "writer"}
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
        _known(options, _SOURCE)
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
        _known(options, _SINK)
        stream = _needed(options, "stream", "the name of the stream to write into")
        return cls(_where(options), stream, options.get("topic") or "", options.get("writer") or "spark")


def check_schema(schema: StructType) -> None:
    """Refuse a user-defined schema: the source's columns are fixed."""
    if [(one.name, one.dataType) for one in schema] != [(one.name, one.dataType) for one in SCHEMA]:
        raise InputError(f"the columns of penstock are {SCHEMA.simpleString()}; give no other schema")


def _known(options: Mapping[str, str], known: set[str]) -> None:
    strange = sorted(name for name in options if name.lower() not in known | _SPARK)
    if strange:
        raise InputError(f"unknown option {strange[0]}; allowed: {', '.join(sorted(known))}")


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
