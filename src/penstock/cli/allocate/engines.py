"""The engines of `penstock allocate`: numpy in this process, or Spark.

numpy reads a file of channels (Parquet, CSV or JSON lines) itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from penstock.cli.allocate.report import AllocationSummary
from penstock.cli.options import need_spark
from penstock.cli.terminal import progress
from penstock.core.channels.allocation import Factors, Scheme, allocate
from penstock.errors import InputError, MissingTool

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from penstock.model.control_table import Version
    from penstock.pipeline.jobs.allocation import AllocationTerms

ENDINGS: Final = {".parquet": "parquet", ".pq": "parquet", ".csv": "csv", ".jsonl": "json", ".ndjson": "json"}

NUMBERS: Final = {"subscribers": 0.0, "cost": None, "update_interval_us": None}
"""Columns of numbers with the smallest allowed value; None for columns whose values must be above 0."""


@dataclass(frozen=True, slots=True)
class Channels:
    """The channels of a file, row by row."""

    urls: pa.Array
    hosts: list[str]
    """Hosts; empty if neither given nor needed."""
    columns: dict[str, np.ndarray[Any, np.dtype[np.float64]]]

    def factors(self, *, by_cost: bool) -> Factors:
        """Return the factors for the solver."""
        return Factors(
            self.columns["subscribers"],
            self.columns["cost"] if by_cost else None,
            self.columns.get("update_interval_us"),
            np.array(self.hosts, object) if self.hosts else None,
        )


def read_channels(path: Path, *, needed: list[str], hosts: bool) -> Channels:
    """Read channels from a file; `needed` are columns it must have, `hosts` whether hosts are needed."""
    table = _table(path)
    for name in ("url", *needed):
        if name not in table.column_names:
            there = ", ".join(table.column_names) or "none"
            raise InputError(f"there is no column '{name}'; there are: {there}", path=path)
    if len(table) == 0:
        raise InputError("the file has no channels", path=path)
    urls = _urls(table, path)
    columns = {
        name: _numbers(table, urls, name, least, path)
        for name, least in NUMBERS.items()
        if name in table.column_names
    }
    return Channels(urls, _hosts(table, urls, path) if hosts else [], columns)


def _table(path: Path) -> pa.Table:
    kind = ENDINGS.get(path.suffix.lower())
    if kind is None:
        known = ", ".join(ENDINGS)
        raise InputError(f"unknown file format; the name should end in one of {known}", path=path)
    try:
        import pyarrow as pa  # noqa: PLC0415  # an extra; said so where it is missing
        from pyarrow import csv, json, parquet  # noqa: PLC0415
    except ImportError:
        raise MissingTool("pyarrow is not installed: pip install 'penstock[spark]'") from None
    if not path.is_file():
        raise InputError("there is no such file; a folder of files needs --engine spark", path=path)
    if path.stat().st_size == 0:
        raise InputError("the file has no channels", path=path)
    readers = {"parquet": parquet.read_table, "csv": csv.read_csv, "json": json.read_json}
    try:
        return readers[kind](str(path))
    except (pa.ArrowException, OSError, ValueError) as error:
        raise InputError(f"is not {kind}: {str(error).splitlines()[0]}", path=path) from None


def _urls(table: pa.Table, path: Path) -> pa.Array:
    from pyarrow import compute, types  # noqa: PLC0415

    urls = table["url"].combine_chunks()
    if not (types.is_string(urls.type) or types.is_large_string(urls.type)):
        raise InputError(f"the column 'url' holds {urls.type}, not texts", path=path)
    if urls.null_count:
        row = urls.is_null().index(True).as_py()
        raise InputError(f"channel {row + 1} has no url", path=path)
    if compute.count_distinct(urls).as_py() < len(urls):
        counts = compute.value_counts(urls)
        twice = counts.field("values").filter(compute.greater(counts.field("counts"), 1))[0]
        raise InputError(f"duplicate channel {twice}", path=path)
    return urls


def _numbers(
    table: pa.Table, urls: pa.Array, name: str, least: float | None, path: Path
) -> np.ndarray[Any, np.dtype[np.float64]]:
    from pyarrow import types  # noqa: PLC0415

    column = table[name].combine_chunks()
    if not (types.is_integer(column.type) or types.is_floating(column.type) or types.is_decimal(column.type)):
        raise InputError(f"the column '{name}' holds {column.type}, not numbers", path=path)
    numbers: np.ndarray[Any, np.dtype[np.float64]] = column.cast("float64").to_numpy(zero_copy_only=False)
    bad = ~np.isfinite(numbers) | (numbers <= 0 if least is None else numbers < least)
    if bad.any():
        row = int(bad.argmax())
        found = column[row].as_py()
        wanted = "above 0" if least is None else f"at least {least:g}"
        said = "missing" if found is None else found
        raise InputError(f"{name} of {urls[row]} is {said}; it should be {wanted}", path=path)
    return numbers


def _hosts(table: pa.Table, urls: pa.Array, path: Path) -> list[str]:
    """Return the column `host`, or the registrable domains of the URLs."""
    if "host" in table.column_names:
        given = table["host"].combine_chunks()
        if given.null_count:
            row = given.is_null().index(True).as_py()
            raise InputError(f"the host of {urls[row]} is missing", path=path)
        return [str(host) for host in given.to_pylist()]
    domains: dict[str, str] = {}
    found: list[str] = []
    for url in urls.to_pylist():
        place = "/".join(url.split("/", 3)[:3])  # scheme and host: what the channels of a host share
        if place not in domains:
            domains[place] = _domain(place)
            if not domains[place]:
                raise InputError(f"there is no host in {url}; add a column 'host'", path=path)
        found.append(domains[place])
    return found


def _domain(place: str) -> str:
    from penstock.core.channels.address import registrable  # noqa: PLC0415  # an extra

    try:
        return registrable(place)
    except ValueError:
        return ""


TABLE: Final = "allocation"


@dataclass(frozen=True, slots=True)
class AllocateArguments:
    """The arguments of the command."""

    scheme: Scheme
    budget: float | None
    target_us: int | None
    tau_us: int
    least_us: int
    most_us: int
    host_limit: float
    host_limits: dict[str, float]
    by_cost: bool
    out: Path | None

    @property
    def has_limits(self) -> bool:
        """Whether there are limits of hosts."""
        return self.host_limit < inf or bool(self.host_limits)

    @property
    def note(self) -> str:
        """Note stored with the control table."""
        return f"scheme {self.scheme.value}"


def by_numpy(path: Path, asked: AllocateArguments) -> AllocationSummary:
    """Allocate with numpy, in this process."""
    needed = ["subscribers"]
    needed += ["cost"] if asked.by_cost else []
    needed += ["update_interval_us"] if asked.scheme.value.startswith("fair") else []
    channels = read_channels(path, needed=needed, hosts=asked.has_limits)
    factors = channels.factors(by_cost=asked.by_cost)
    limits: dict[str, float] | None = None
    if asked.has_limits:
        limits = dict.fromkeys(channels.hosts, asked.host_limit) | asked.host_limits
    found = allocate(
        factors,
        scheme=asked.scheme,
        budget=asked.budget,
        target_us=asked.target_us,
        tau_us=asked.tau_us,
        least_us=asked.least_us,
        most_us=asked.most_us,
        host_limits=limits,
    )
    version = None
    if asked.out is not None:
        need_spark()  # the table's writer lives with Spark's results
        import pyarrow as pa  # noqa: PLC0415

        from penstock.pipeline.tables.control_tables import write_version  # noqa: PLC0415

        hosts = channels.hosts or [""] * len(channels.urls)
        beyond = [found.host_prices.get(host, 0.0) for host in hosts]
        table = pa.table(
            {
                "url": channels.urls,
                "interval_us": found.interval_us,
                "host": hosts,
                "price": found.price + np.array(beyond),
            }
        )
        version = write_version(table, asked.out, name=TABLE, note=asked.note)
    known = "update_interval_us" in channels.columns
    quartiles = np.percentile(found.interval_us, [0, 25, 50, 75, 100], method="lower")
    return AllocationSummary.of(
        found,
        scheme=asked.scheme,
        channels=len(factors),
        intervals_us=quartiles.astype(int).tolist(),
        tau_us=asked.tau_us,
        by_cost=asked.by_cost,
        per_update=known,
        out=None if version is None else (str(asked.out), version.version),
    )


def by_spark(
    sources: tuple[str, ...],
    asked: AllocateArguments,
    master: str | None,
    remote: str | None,
    memory: str | None,
) -> AllocationSummary:
    """Allocate on Spark, from a file of channels or from logs of polls and subscriptions."""
    from penstock.pipeline.jobs.allocation import (  # noqa: PLC0415  # Spark, where it is needed
        AllocationTerms,
        allocated,
    )
    from penstock.pipeline.progress import watched  # noqa: PLC0415
    from penstock.pipeline.session import few_parts, open_session  # noqa: PLC0415

    terms = AllocationTerms(
        tau_us=asked.tau_us,
        least_us=asked.least_us,
        most_us=asked.most_us,
        scheme=asked.scheme,
        budget=asked.budget,
        target_us=asked.target_us,
        host_limit=asked.host_limit,
        host_limits=asked.host_limits,
        by_cost=asked.by_cost,
    )
    with progress("allocate") as step:
        step(0, 0, "starting Spark")
        with (
            open_session(
                master=master,
                remote=remote,
                memory=memory,
                app="penstock allocate",
                config=few_parts(master, remote),
            ) as spark,
            watched(spark, step, "sharing out polls"),
        ):
            found = allocated(_factors(spark, sources, terms), terms)
            version = _publish(found.frame, asked)
    return AllocationSummary.of(
        found,
        scheme=asked.scheme,
        channels=found.channels,
        intervals_us=list(found.interval_us),
        tau_us=asked.tau_us,
        by_cost=asked.by_cost,
        per_update=True,
        out=None if version is None else (str(asked.out), version.version),
    )


def _publish(frame: DataFrame, asked: AllocateArguments) -> Version | None:
    from penstock.pipeline.tables.control_tables import publish  # noqa: PLC0415

    return None if asked.out is None else publish(frame, asked.out, name=TABLE, note=asked.note)


def _factors(spark: SparkSession, sources: tuple[str, ...], terms: AllocationTerms) -> DataFrame:
    from penstock.pipeline.jobs.allocation import read_factors  # noqa: PLC0415
    from penstock.pipeline.tables.channels import (  # noqa: PLC0415
        POLLS,
        SUBSCRIPTIONS,
        by_domain,
        channel_factors,
        need,
    )
    from penstock.pipeline.tables.files import format_of  # noqa: PLC0415
    from penstock.pipeline.tables.recorded import load  # noqa: PLC0415

    if len(sources) == 1:
        return read_factors(spark, sources[0], terms)
    polls, subscriptions = (load(spark, path, format_of(path)) for path in sources)
    need(subscriptions, SUBSCRIPTIONS, "subscriptions")
    factors = need(polls, POLLS, "polls").transform(channel_factors(subscriptions)).persist()
    return factors.transform(by_domain()) if terms.has_limits else factors
