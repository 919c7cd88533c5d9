"""`penstock shed`: packs a folder of events into another folder, as a Spark stream."""

from __future__ import annotations

import re
import warnings
from collections import deque
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from penstock.cli.files import read_policy
from penstock.cli.options import MasterOption, MemoryOption, RemoteOption, in_a_hurry, need_spark
from penstock.cli.output import JsonFlag, complain, print_json, print_text, warn
from penstock.cli.terminal import err
from penstock.core.queues import drain as drain_of
from penstock.errors import GoalMissed, InputError, counted
from penstock.policy.lint import unpaced

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame, Row, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from penstock.policy.nodes import Policy

_POLL_S: Final = 1
_TRIGGERS: Final = 1_000
"""Bound of triggers that --json lists, the newest; the totals are of all."""
_SECONDS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_IN: Final = "penstock_in"
_OUT: Final = "penstock_out"


class Backlog(Enum):
    """How `penstock shed` treats a backlog: events older than --behind."""

    REPLAY = "replay"
    SHED = "shed"


class Files(Enum):
    """File format of the folders."""

    PARQUET = "parquet"
    JSON = "json"


def _seconds(text: str, option: str) -> float:
    found = re.fullmatch(r"(\d{1,9}(?:\.\d{1,9})?)(ms|s|m|h)?", text)
    if found is None:
        raise typer.BadParameter(f"{option} {text}: this is no duration; write 500ms, 10s, 2m or 1h")
    return float(found[1]) * _SECONDS[found[2] or "s"]


def shed(
    *,
    source: Annotated[
        str, typer.Option("--in", metavar="FOLDER", help="Folder in which files of events arrive.")
    ],
    target: Annotated[str, typer.Option("--out", metavar="FOLDER", help="Folder of the packed events.")],
    policy: Annotated[Path, typer.Option("--policy", metavar="FILE", help="The policy: YAML, JSON or XML.")],
    capacity: Annotated[
        int,
        typer.Option(
            "--capacity", min=3, help="Rows of a key that a trigger may have before they are packed."
        ),
    ],
    key: Annotated[
        list[str], typer.Option("--key", metavar="COLUMN", help="Column that names a queue; repeatable.")
    ],
    order: Annotated[
        list[str] | None,
        typer.Option(
            "--order", metavar="COLUMN", help="Column that orders a queue; ts if omitted; repeatable."
        ),
    ] = None,
    checkpoint: Annotated[
        str | None,
        typer.Option(
            "--checkpoint", metavar="FOLDER", help="Folder of the checkpoint; OUT/_checkpoint if omitted."
        ),
    ] = None,
    every: Annotated[
        str | None,
        typer.Option(
            "--every", metavar="TIME", help="Look for new files at this interval, as 10s, until stopped."
        ),
    ] = None,
    once: Annotated[
        bool,
        typer.Option("--once", help="Process the files that are there and end; the default without --every."),
    ] = False,
    backlog: Annotated[
        Backlog, typer.Option("--backlog", help="shed: what is older than --behind waits in one queue.")
    ] = Backlog.REPLAY,
    behind: Annotated[
        str, typer.Option("--behind", metavar="TIME", help="Age from which events are a backlog.")
    ] = "60s",
    drain: Annotated[
        str | None,
        typer.Option(
            "--drain",
            metavar="RATE",
            help="How fast rows of a key may leave: 100/s, 30/min, 6250B/s, 50kbit/s; at once if omitted.",
        ),
    ] = None,
    hold: Annotated[
        str, typer.Option("--hold", metavar="TIME", help="Longest time a digest is held back.")
    ] = "60s",
    ts: Annotated[str, typer.Option("--ts", metavar="COLUMN", help="Column of the event time.")] = "ts",
    files: Annotated[
        int | None, typer.Option("--files", min=1, help="Files per trigger; all if omitted.")
    ] = None,
    form: Annotated[
        Files | None,
        typer.Option("--format", help="File format of both folders; by their suffixes if omitted."),
    ] = None,
    partitions: Annotated[
        int | None,
        typer.Option(
            "--partitions",
            min=1,
            help="Parts of the state, fixed by the first run; on this machine as many as cores, if omitted.",
        ),
    ] = None,
    as_json: JsonFlag = False,
    master: MasterOption = None,
    remote: RemoteOption = None,
    memory: MemoryOption = None,
) -> None:
    """Pack a stream of files by a policy, on Spark.

    Dropped events are counted in digests.
    """
    if once and every is not None:
        raise typer.BadParameter("--once ends, --every does not: give one of them")
    if drain is not None and backlog is Backlog.SHED:
        raise typer.BadParameter("--drain holds rows by its pace, --backlog shed by age: give one of them")
    if drain is not None and not _seconds(hold, "--hold"):
        raise typer.BadParameter(f"--hold {hold} holds nothing, and a drain holds what it has not taken yet")
    asked = _Arguments(
        policy=read_policy(policy),
        source=source,
        target=target,
        checkpoint=checkpoint or f"{target.rstrip('/')}/_checkpoint",
        format=None if form is None else form.value,
        every_s=None if every is None else _seconds(every, "--every"),
        packing={
            "capacity": capacity,
            "key": key,
            "order": order or ["ts"],
            "backlog": backlog.value,
            "behind_s": _seconds(behind, "--behind"),
            "hold_s": _seconds(hold, "--hold"),
            "drain": None if drain is None else drain_of(drain),
        },
        reading={"files_per_trigger": files, "ts": ts},
    )
    idle = unpaced(asked.policy, reason="all rows that fit go out at once", instead="give a --drain")
    if drain is None and idle is not None:
        warn(idle)
    for place in (asked.target, asked.checkpoint):
        if remote is None and Path(place).is_file():
            raise InputError("is a file; a folder is needed", path=place)
    need_spark()
    if every is None:
        in_a_hurry(path=source)
    from penstock.pipeline.session import cores, is_local, open_session  # noqa: PLC0415

    with open_session(master=master, remote=remote, memory=memory, app="penstock shed") as spark:
        parts = partitions or (cores(spark) if is_local(master, remote) else None)
        if parts is not None:  # Spark's 200 are for a cluster: each part is a store with workers of its own
            spark.conf.set("spark.sql.shuffle.partitions", parts)
        account = _run(spark, asked)
    _report(asked, account, as_json=as_json)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Arguments:
    policy: Policy
    source: str
    target: str
    checkpoint: str
    format: str | None
    every_s: float | None
    packing: dict[str, Any]
    reading: dict[str, Any]


@dataclass(slots=True)
class _Account:
    """Counts of events in and out, trigger by trigger, and of events held before and after."""

    held_before: int = 0
    held_after: int = 0
    events_in: int = 0
    events_out: int = 0
    digested: int = 0
    digests: int = 0
    last: int = -1
    """The last trigger counted."""
    uncounted: int = 0
    """Triggers that an earlier run had finished but for a note of it: Spark does not count them again."""
    triggers: deque[dict[str, int]] = field(default_factory=lambda: deque(maxlen=_TRIGGERS))

    def add(self, progress: Any) -> dict[str, int] | None:
        """Count a trigger that Spark reports; None if nothing happened in it."""
        ran = "addBatch" in progress["durationMs"]
        if not ran or progress["batchId"] <= self.last:
            return None
        self.last = progress["batchId"]
        metrics = progress["observedMetrics"]
        if _IN not in metrics or _OUT not in metrics:
            self.uncounted += 1
            return None
        gone = _named(metrics[_OUT])
        counts = {"events_in": _named(metrics[_IN])["events"], "events_out": gone["events"]}
        counts |= {"digested": gone["digested"], "digests": gone["digests"]}
        if not any(counts.values()):
            return None
        for name, count in counts.items():
            setattr(self, name, getattr(self, name) + count)
        found = {"trigger": self.last, **counts, "milliseconds": progress["durationMs"]["triggerExecution"]}
        self.triggers.append(found)
        return found

    @property
    def conserved(self) -> bool | None:
        """Whether every event is accounted for; None if something was not counted."""
        came = self.held_before + self.events_in
        return None if self.uncounted else came == self.events_out + self.digested + self.held_after


def _named(row: Row) -> dict[str, Any]:
    """Metrics by name; through Spark Connect they come as values beside their schema."""
    found = row.asDict()
    if found.keys() != {"values", "schema"}:
        return found
    names = [field["name"] for field in found["schema"]["fields"]]
    return dict(zip(names, found["values"], strict=True))


def _run(spark: SparkSession, asked: _Arguments) -> _Account:
    from penstock.pipeline.stream.pack_stream import (  # noqa: PLC0415
        held_count,
        pack_stream,
        stands_for,
    )
    from penstock.pipeline.tables.files import format_of  # noqa: PLC0415
    from penstock.pipeline.tables.folders import folder_stream, write_folder  # noqa: PLC0415  # Spark is an extra

    stream = folder_stream(spark, asked.source, format=asked.format, **asked.reading)
    stream = stream.observe(_IN, stands_for(stream.schema).alias("events"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # told already, in the words of the command line
        packed = _observed(stream.transform(pack_stream(asked.policy, schema=stream.schema, **asked.packing)))
    account = _Account(held_before=held_count(spark, asked.checkpoint))
    query = write_folder(
        packed,
        asked.target,
        checkpoint=asked.checkpoint,
        format=asked.format or format_of(asked.target),
        every_s=asked.every_s,
    )
    with suppress(KeyboardInterrupt), _of_the_same_key(asked):  # Ctrl-C is the way to end --every
        _watch(query, account)
    if query.isActive:
        query.stop()
        _take(query, account)
    account.held_after = held_count(spark, asked.checkpoint)
    return account


@contextmanager
def _of_the_same_key(asked: _Arguments) -> Iterator[None]:
    from pyspark.errors import PySparkException  # noqa: PLC0415

    try:
        yield
    except PySparkException as error:
        if "STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE" not in str(error):
            raise
        key = ", ".join(asked.packing["key"])
        raise InputError(
            f"this checkpoint is of queues by other columns than {key}; name another one",
            path=asked.checkpoint,
        ) from error


def _observed(packed: DataFrame) -> DataFrame:
    from pyspark.sql import functions as sf  # noqa: PLC0415

    events = sf.count_if(sf.col("kind") == "event")
    digested = sf.coalesce(sf.sum("digest.count"), sf.lit(0))
    digests = sf.count_if(sf.col("kind") == "digest")
    return packed.observe(_OUT, events.alias("events"), digested.alias("digested"), digests.alias("digests"))


def _watch(query: StreamingQuery, account: _Account) -> None:
    while not query.awaitTermination(_POLL_S):
        _take(query, account)
    _take(query, account)


def _take(query: StreamingQuery, account: _Account) -> None:
    """Print a line for each trigger that has finished since the last call."""
    for progress in query.recentProgress:
        found = account.add(progress)
        if found is not None:
            err.print(
                f"trigger {found['trigger']}: {found['events_in']:,} in, {found['events_out']:,} out, "
                f"{found['digested']:,} in {counted(found['digests'], 'digest')}, "
                f"{found['milliseconds']:,} ms"
            )


def _report(asked: _Arguments, account: _Account, *, as_json: bool) -> None:
    if as_json:
        names = ("held_before", "events_in", "events_out", "digested", "digests", "held_after", "conserved")
        totals = {name: getattr(account, name) for name in names}
        print_json({"out": asked.target, "triggers": list(account.triggers), **totals})
    else:
        sign = {True: "=", False: "≠", None: "?"}[account.conserved]
        print_text(
            f"{account.events_in:,} in + {account.held_before:,} held before {sign} "
            f"{account.events_out:,} out + {account.digested:,} in {counted(account.digests, 'digest')} "
            f"+ {account.held_after:,} held"
        )
    if account.conserved is False:
        complain("events are missing from the account; please report it")
        raise typer.Exit(GoalMissed.exit_code)
