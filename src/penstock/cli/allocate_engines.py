"""Where `penstock allocate` has its work done: numpy in this process, or Spark."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from penstock.cli.allocate_report import Summary
from penstock.cli.channel_files import read_channels
from penstock.cli.output import progress
from penstock.cli.spark import need_spark
from penstock.core.channels.allocation import Scheme, allocate

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from penstock.model.control_table import Version
    from penstock.pipeline.channels_prices import Terms

TABLE: Final = "allocation"


@dataclass(frozen=True, slots=True)
class Asked:
    """The command line, read."""

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
        """Whether hosts matter."""
        return self.host_limit < inf or bool(self.host_limits)

    @property
    def note(self) -> str:
        """For who looks at the table."""
        return f"scheme {self.scheme.value}"


def by_numpy(path: Path, asked: Asked) -> Summary:
    """In this process."""
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

        from penstock.pipeline.control_tables import write_version  # noqa: PLC0415

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
    return Summary.of(
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
    sources: tuple[str, ...], asked: Asked, master: str | None, remote: str | None, memory: str | None
) -> Summary:
    """On Spark, from a file of channels or from logs of polls and subscriptions."""
    from penstock.pipeline.channels_allocation import allocation  # noqa: PLC0415  # Spark, where it is needed
    from penstock.pipeline.channels_prices import Terms  # noqa: PLC0415
    from penstock.pipeline.session import few_parts, open_session  # noqa: PLC0415
    from penstock.pipeline.watching import watched  # noqa: PLC0415

    terms = Terms(
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
            watched(spark, step),
        ):
            found = allocation(_factors(spark, sources, terms), terms)
            version = _publish(found.frame, asked)
    return Summary.of(
        found,
        scheme=asked.scheme,
        channels=found.channels,
        intervals_us=list(found.interval_us),
        tau_us=asked.tau_us,
        by_cost=asked.by_cost,
        per_update=True,
        out=None if version is None else (str(asked.out), version.version),
    )


def _publish(frame: DataFrame, asked: Asked) -> Version | None:
    from penstock.pipeline.control_tables import publish  # noqa: PLC0415

    return None if asked.out is None else publish(frame, asked.out, name=TABLE, note=asked.note)


def _factors(spark: SparkSession, sources: tuple[str, ...], terms: Terms) -> DataFrame:
    from penstock.pipeline.channels import by_domain, channel_factors  # noqa: PLC0415
    from penstock.pipeline.channels_files import read_factors  # noqa: PLC0415
    from penstock.pipeline.recorded import format_of, load  # noqa: PLC0415

    if len(sources) == 1:
        return read_factors(spark, sources[0], terms)
    polls, subscriptions = (load(spark, path, format_of(path)) for path in sources)
    factors = polls.transform(channel_factors(subscriptions)).persist()
    return factors.transform(by_domain) if terms.has_limits else factors
