"""`penstock backtest`: replays a recorded stream under policies; prints tables, writes a page with plots."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from penstock import limits
from penstock.cli.backtest.report import balances, tables, write_page
from penstock.cli.files import read_policy, writable
from penstock.cli.options import (
    ColumnsOption,
    EventsOption,
    FormatOption,
    KeyOption,
    MasterOption,
    MattersOption,
    MemoryOption,
    RemoteOption,
    SeqOption,
    TsOption,
    WindowOption,
    chosen,
    columns_of,
    in_a_hurry,
    need_spark,
    window_of,
)
from penstock.cli.output import JsonFlag, complain, print_json, warn
from penstock.cli.terminal import escape, out, print_table, progress
from penstock.core.backtest.settings import BASELINES, Candidate, Controllers, Settings
from penstock.core.queues import drain
from penstock.errors import GoalMissed, counted
from penstock.pipeline.tables.files import NeedsSpark, format_of, is_small
from penstock.policy import paths
from penstock.policy.nodes import read_by
from penstock.policy.paths import Source
from penstock.policy.predicates import predicate
from penstock.policy.text import forms

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.core.backtest.settings import Backtest
    from penstock.policy.nodes import Policy
    from penstock.policy.predicates import Predicate

ENGINES: Final = {"local": False, "spark": True}


def backtest(
    *,
    events: EventsOption,
    policies: Annotated[
        list[Path],
        typer.Option("--policy", metavar="FILE", help="A policy to try; may be given several times."),
    ],
    capacity: Annotated[
        int, typer.Option("--capacity", min=limits.QUEUE_EVENTS_LEAST, help="Events a queue may hold.")
    ],
    rate: Annotated[
        str,
        typer.Option("--drain", metavar="RATE", help="How fast a queue empties: 100/s, 6250B/s, 50kbit/s."),
    ],
    key: KeyOption = None,
    series: Annotated[
        list[str] | None,
        typer.Option(
            "--series",
            metavar="COL",
            help="Column that tells sources of values apart; sender and topic if omitted.",
        ),
    ] = None,
    attribute: Annotated[
        list[str] | None,
        typer.Option(
            "--attribute",
            metavar="PATH",
            help="Attribute whose error is measured; those that policies read if omitted.",
        ),
    ] = None,
    controller: Annotated[
        str, typer.Option("--controller", help="What chooses the level: predictive, ladder, or printed.")
    ] = "predictive",
    ts: TsOption = "ts",
    seq: SeqOption = None,
    columns: ColumnsOption = None,
    form: FormatOption = None,
    matters: MattersOption = None,
    window: WindowOption = "1min",
    folder: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="Write a page with tables and plots here.")
    ] = None,
    engine: Annotated[
        str | None,
        typer.Option(
            "--engine", help="local (this process) or spark; if omitted, local up to a million events."
        ),
    ] = None,
    as_json: JsonFlag = False,
    master: MasterOption = None,
    remote: RemoteOption = None,
    memory: MemoryOption = None,
) -> None:
    """Replay a recorded stream under each policy.

    Every queue of it is replayed. Two baselines run beside them: drop-newest (drop-tail) and drop-oldest,
    which tell the receiver nothing.
    """
    read_policies = [(path, read_policy(path)) for path in policies]
    candidates = _candidates(read_policies)
    settings = Settings(
        candidates=(*candidates, *BASELINES),
        capacity=capacity,
        drain=drain(rate),
        key=tuple(key or ()),
        series=tuple(series or ()),
        measured=tuple(attribute or _read([policy for _, policy in read_policies])),
        attributes=columns_of(columns, seq=seq),
        controller=chosen({one.value: one for one in Controllers}, controller, "controller"),
        matters=predicates_of(matters, [policy for _, policy in read_policies]),
        window_us=window_of(window),
    )
    if folder is not None:
        writable(folder, folder=True)
    on_spark = None if engine is None else chosen(ENGINES, engine, "engine")
    if (master or remote) and on_spark is False:
        raise typer.BadParameter("--master and --remote go with --engine spark")
    wanted = on_spark if on_spark is not None else bool(master or remote) or None
    found = _run(events, settings, form=form, ts=ts, on_spark=wanted, where=(master, remote, memory))
    setting = _setting(events, found, settings)
    report = None
    if folder is not None:
        texts = {one.name: forms.to_yaml(one.policy) for one in candidates if one.policy}
        report = write_page(found, f"Backtest of {Path(events).name}", setting, texts, folder)
    _show(found, setting, report, as_json=as_json, settings=settings)
    if report is not None and find_spec("matplotlib") is None:
        warn("no pictures: matplotlib is not installed; pip install 'penstock[plots]'")
    if not all(account.is_conserved for account in found.accounts.values()):
        complain("an event was neither delivered nor counted in a digest; please report this")
        raise typer.Exit(GoalMissed.exit_code)


def predicates_of(given: list[str] | None, policies: Sequence[Policy]) -> tuple[Predicate, ...]:
    """Return the predicates of the command line; one that names no attribute reads the first policy's."""
    attribute = next((policy.attribute for policy in policies), None)
    return tuple(predicate(text, attribute=attribute) for text in given or ())


def _run(
    events: str,
    settings: Settings,
    *,
    form: str | None,
    ts: str,
    on_spark: bool | None,
    where: tuple[str | None, str | None, str | None],
) -> Backtest:
    """Replay on the engine asked for, or on the one that suits the size."""
    if on_spark is None:
        on_spark = "://" in events or not is_small(events, form or format_of(events))
        if not on_spark:
            try:
                return _locally(events, settings, form, ts)
            except NeedsSpark as error:
                warn(f"{error}; Spark is started")
    elif not on_spark:
        return _locally(events, settings, form, ts)
    return _by_spark(events, settings, form, ts, where)


def _locally(events: str, settings: Settings, form: str | None, ts: str) -> Backtest:
    from penstock.pipeline.jobs.backtest import local  # noqa: PLC0415  # pyarrow, an extra

    return local.backtest(local.read(events, format=form, ts=ts), settings)


def _by_spark(
    events: str,
    settings: Settings,
    form: str | None,
    ts: str,
    where: tuple[str | None, str | None, str | None],
) -> Backtest:
    need_spark()
    in_a_hurry(path=events)
    from penstock.pipeline.jobs.backtest import replay  # noqa: PLC0415  # Spark, where it is needed
    from penstock.pipeline.progress import watched  # noqa: PLC0415
    from penstock.pipeline.session import few_parts, open_session  # noqa: PLC0415
    from penstock.pipeline.tables.recorded import read  # noqa: PLC0415

    master, remote, memory = where
    with progress("backtest") as step:
        step(0, 0, "starting Spark")
        with (
            open_session(
                master=master,
                remote=remote,
                memory=memory,
                app="penstock backtest",
                config=few_parts(master, remote),
            ) as spark,
            watched(spark, step, "replaying queues"),
        ):
            return replay.backtested(read(spark, events, format=form, ts=ts), settings)


def _candidates(found: list[tuple[Path, Policy]]) -> list[Candidate]:
    """Return policies by name; by file where names repeat."""
    names = [policy.name or path.stem for path, policy in found]
    return [
        Candidate(name if names.count(name) == 1 else str(path), policy)
        for name, (path, policy) in zip(names, found, strict=True)
    ]


def _read(policies: list[Policy]) -> list[str]:
    """Return the payload attributes that policies read."""
    names = dict.fromkeys(name for policy in policies for name in read_by(policy))
    return [name for name in names if paths.parse(name).source is Source.PAYLOAD]


def _setting(events: str, found: Backtest, settings: Settings) -> str:
    stream = found.stream
    return (
        f"{counted(stream.events, 'event')} of {stream.span_s:,.0f} s in {counted(stream.queues, 'queue')} "
        f"from {events}; capacity {settings.capacity:,}, drain {settings.drain.text}, "
        f"{settings.controller.value}"
    )


def _show(found: Backtest, setting: str, report: Path | None, *, as_json: bool, settings: Settings) -> None:
    if as_json:
        stream: dict[str, Any] = {
            "events": found.stream.events,
            "queues": found.stream.queues,
            "span_s": found.stream.span_s,
            "normal": {name: list(ends) for name, ends in found.stream.normal.items()},
        }
        print_json(
            {
                "stream": stream,
                "capacity": settings.capacity,
                "drain": settings.drain.text,
                "controller": settings.controller.value,
                "candidates": {name: account.as_json() for name, account in found.accounts.items()},
                "report": None if report is None else str(report),
            }
        )
        return
    out.print(f"{escape(setting)}\n")
    for table in tables(found):
        print_table(table.title, table.header, table.rows)
    for line in balances(found):
        out.print(escape(line))
    if report is not None:
        out.print(f"written: {escape(str(report))}")
