"""`penstock allocate`: how often each channel is polled, for a load or for a delay."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Final

import numpy as np
import typer

from penstock.cli.allocate_report import Summary, show
from penstock.cli.channel_files import read_channels
from penstock.cli.choices import chosen
from penstock.cli.output import JsonFlag, complain, print_json, progress
from penstock.cli.spark import MasterOption, MemoryOption, RemoteOption, need_spark
from penstock.core.channels.allocation import Scheme
from penstock.core.channels.allocation import allocate as solve
from penstock.errors import GoalMissed
from penstock.model.instant import to_us
from penstock.node.config import SECONDS
from penstock.node.quantity import quantity

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from penstock.model.control_table import Version
    from penstock.pipeline.channels_prices import Terms

TABLE: Final = "allocation"
ENGINES: Final = {"numpy": False, "spark": True}
LOADS: Final = {"polls": False, "cost": True}


@dataclass(frozen=True, slots=True)
class _Asked:
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
        return self.host_limit < inf or bool(self.host_limits)

    @property
    def note(self) -> str:
        """For who looks at the table."""
        return f"scheme {self.scheme.value}"


def allocate(
    *,
    channels: Annotated[
        Path | None,
        typer.Option(
            "--channels", metavar="FILE", help="Channels and their factors: Parquet, CSV or JSON lines."
        ),
    ] = None,
    polls: Annotated[
        str | None, typer.Option("--polls", metavar="DIR", help="Or a node's log of polls, on Spark …")
    ] = None,
    subscriptions: Annotated[
        str | None, typer.Option("--subscriptions", metavar="DIR", help="… with its log of subscriptions.")
    ] = None,
    scheme: Annotated[
        str | None,
        typer.Option("--scheme", help=f"{', '.join(one.value for one in Scheme)}; lite if omitted."),
    ] = None,
    budget: Annotated[
        float | None,
        typer.Option(
            "--budget", metavar="N", help="Load per τ; what subscribers would cause alone, if omitted."
        ),
    ] = None,
    target: Annotated[
        str | None,
        typer.Option(
            "--target", metavar="TIME", help="Mean delay to reach with the least load: scheme fast."
        ),
    ] = None,
    tau: Annotated[
        str, typer.Option("--tau", metavar="TIME", help="The time that loads are counted in.")
    ] = "30min",
    least: Annotated[str, typer.Option("--min", metavar="TIME", help="Shortest interval.")] = "1min",
    most: Annotated[str, typer.Option("--max", metavar="TIME", help="Longest interval.")] = "1d",
    host_limit: Annotated[
        list[str] | None,
        typer.Option(
            "--host-limit", metavar="N|HOST=N", help="Most load per τ of every host, or of one; repeatable."
        ),
    ] = None,
    load: Annotated[
        str, typer.Option("--load", help="What load is: polls, or cost (bytes, the column of that name).")
    ] = "polls",
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="DIR", help="Write a new version of the control table here."),
    ] = None,
    engine: Annotated[
        str | None, typer.Option("--engine", help="numpy or spark; numpy unless Spark is asked for.")
    ] = None,
    as_json: JsonFlag = False,
    master: MasterOption = None,
    remote: RemoteOption = None,
    memory: MemoryOption = None,
) -> None:
    """Give every channel the interval that makes the most of a load, or reaches a delay with the least.

    The columns of --channels are url, subscribers, and where they matter update_interval_us (the fair
    schemes), cost (--load cost), and host (--host-limit; the URL's domain if there is none).
    """
    if (channels is None) == (polls is None and subscriptions is None):
        raise typer.BadParameter("give --channels, or --polls and --subscriptions")
    if (polls is None) != (subscriptions is None):
        raise typer.BadParameter("--polls and --subscriptions go together")
    general, single = _limits(host_limit or [])
    asked = _Asked(
        scheme=chosen({one.value: one for one in Scheme}, scheme or ("fast" if target else "lite"), "scheme"),
        budget=budget,
        target_us=None if target is None else _us(target, "--target"),
        tau_us=_us(tau, "--tau"),
        least_us=_us(least, "--min"),
        most_us=_us(most, "--max"),
        host_limit=general,
        host_limits=single,
        by_cost=chosen(LOADS, load, "load"),
        out=out,
    )
    wants_spark = bool(polls or master or remote)
    on_spark = wants_spark if engine is None else chosen(ENGINES, engine, "engine")
    if wants_spark and not on_spark:
        raise typer.BadParameter("--polls, --master and --remote go with --engine spark")
    start = perf_counter()
    if on_spark:
        need_spark()
        sources = (str(channels),) if channels is not None else (str(polls), str(subscriptions))
        found = _by_spark(sources, asked, master, remote, memory)
    else:
        assert channels is not None
        found = _by_numpy(channels, asked)
    if as_json:
        print_json(found.as_json() | {"seconds": round(perf_counter() - start, 3)})
    else:
        show(found, seconds=perf_counter() - start)
    if not found.met:
        complain(found.missed)
        raise typer.Exit(GoalMissed.exit_code)


def _by_numpy(path: Path, asked: _Asked) -> Summary:
    needed = ["subscribers"]
    needed += ["cost"] if asked.by_cost else []
    needed += ["update_interval_us"] if asked.scheme.value.startswith("fair") else []
    channels = read_channels(path, needed=needed, hosts=asked.has_limits)
    factors = channels.factors(by_cost=asked.by_cost)
    limits: dict[str, float] | None = None
    if asked.has_limits:
        limits = dict.fromkeys(channels.hosts, asked.host_limit) | asked.host_limits
    found = solve(
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


def _by_spark(
    sources: tuple[str, ...], asked: _Asked, master: str | None, remote: str | None, memory: str | None
) -> Summary:
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


def _publish(frame: DataFrame, asked: _Asked) -> Version | None:
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


def _us(text: str, option: str) -> int:
    seconds = float(text) if text.isdecimal() else quantity(text, SECONDS)
    if seconds is None or seconds <= 0:
        raise typer.BadParameter(f"{option} {text}: this is no duration; write 90s, 30min, 1h or 1d")
    return to_us(seconds)


def _limits(texts: list[str]) -> tuple[float, dict[str, float]]:
    general, single = inf, dict[str, float]()
    for text in texts:
        host, _, number = text.rpartition("=")
        try:
            limit = float(number)
        except ValueError:
            limit = -1.0
        if not 0 < limit < inf:
            raise typer.BadParameter(f"--host-limit {text}: write 60 or example.org=60, a load above 0")
        if host:
            single[host] = limit
        else:
            general = limit
    return general, single
