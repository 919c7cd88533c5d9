"""`penstock allocate`: how often each channel is polled, for a load or for a delay."""

from __future__ import annotations

from math import inf
from pathlib import Path
from time import perf_counter
from typing import Annotated, Final

import typer

from penstock.cli.allocate.engines import AllocateArguments, by_numpy, by_spark
from penstock.cli.allocate.report import show
from penstock.cli.options import MasterOption, MemoryOption, RemoteOption, chosen, need_spark
from penstock.cli.output import JsonFlag, complain, print_json
from penstock.core.channels.allocation import Scheme
from penstock.errors import GoalMissed
from penstock.model.instant import to_us
from penstock.node.config.amounts import SECONDS, quantity

ENGINES: Final = {"numpy": False, "spark": True}
LOADS: Final = {"polls": False, "cost": True}


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
    """How often to poll each channel for the least delay.

    Every channel gets the interval that makes the most of a load, or reaches a delay with the least.

    The columns of --channels are url, subscribers, and where they matter update_interval_us (the fair
    schemes), cost (--load cost), and host (--host-limit; the URL's domain if omitted).
    """
    if (channels is None) == (polls is None and subscriptions is None):
        raise typer.BadParameter("give --channels, or --polls and --subscriptions")
    if (polls is None) != (subscriptions is None):
        raise typer.BadParameter("--polls and --subscriptions go together")
    general, single = _limits(host_limit or [])
    asked = AllocateArguments(
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
        found = by_spark(sources, asked, master, remote, memory)
    else:
        assert channels is not None
        found = by_numpy(channels, asked)
    if as_json:
        print_json(found.as_json() | {"seconds": round(perf_counter() - start, 3)})
    else:
        show(found, seconds=perf_counter() - start)
    if not found.met:
        complain(found.missed)
        raise typer.Exit(GoalMissed.exit_code)


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
