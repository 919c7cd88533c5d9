"""`penstock backtest`: a recorded stream replayed under policies, before one of them meets a real one."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from penstock import limits
from penstock.cli.backtest_report import balances, tables, write_page
from penstock.cli.choices import chosen
from penstock.cli.files import read_policy, writable
from penstock.cli.output import JsonFlag, complain, escape, out, print_json, print_table, progress, warn
from penstock.cli.spark import (
    ColumnsOption,
    EventsOption,
    FormatOption,
    KeyOption,
    MasterOption,
    MemoryOption,
    RemoteOption,
    SeqOption,
    TsOption,
    columns_of,
    in_a_hurry,
    need_spark,
)
from penstock.core.queues import drain
from penstock.errors import GoalMissed
from penstock.policy import paths, write
from penstock.policy.paths import Source

if TYPE_CHECKING:
    from penstock.pipeline.backtest import Backtest, Candidate, Settings
    from penstock.policy.nodes import Policy


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
            "--attribute", metavar="PATH", help="Measure the error of this; what policies read if omitted."
        ),
    ] = None,
    controller: Annotated[
        str, typer.Option("--controller", help="Who chooses the level: ladder or predictive.")
    ] = "ladder",
    ts: TsOption = "ts",
    seq: SeqOption = None,
    columns: ColumnsOption = None,
    form: FormatOption = None,
    folder: Annotated[Path, typer.Option("--out", help="Where the report goes.")] = Path("out"),
    as_json: JsonFlag = False,
    master: MasterOption = None,
    remote: RemoteOption = None,
    memory: MemoryOption = None,
) -> None:
    """Replay every queue of a recorded stream under each policy, on Spark.

    Two baselines run beside them: drop-newest (drop-tail) and drop-oldest, which tell the receiver nothing.
    """
    read_policies = [(path, read_policy(path)) for path in policies]
    drained, attributes = drain(rate), columns_of(columns, seq=seq)
    writable(folder, folder=True)
    need_spark()
    in_a_hurry(path=events)
    from penstock.pipeline import backtest as run  # noqa: PLC0415  # Spark, where it is needed
    from penstock.pipeline.recorded import read  # noqa: PLC0415
    from penstock.pipeline.session import few_parts, open_session  # noqa: PLC0415
    from penstock.pipeline.watching import watched  # noqa: PLC0415

    candidates = _candidates(read_policies)
    settings = run.Settings(
        candidates=(*candidates, *run.BASELINES),
        capacity=capacity,
        drain=drained,
        key=tuple(key or ()),
        series=tuple(series or ()),
        measured=tuple(attribute or _read([policy for _, policy in read_policies])),
        attributes=attributes,
        controller=chosen({one.value: one for one in run.Controllers}, controller, "controller"),
    )
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
            watched(spark, step),
        ):
            found = run.backtest(read(spark, events, format=form, ts=ts), settings)
    setting = _setting(events, found, settings)
    texts = {candidate.name: write.to_yaml(candidate.policy) for candidate in candidates if candidate.policy}
    report = write_page(found, f"Backtest of {Path(events).name}", setting, texts, folder)
    _show(found, setting, report, as_json=as_json, settings=settings)
    if find_spec("matplotlib") is None:
        warn("no pictures: matplotlib is not installed; pip install 'penstock[plots]'")
    if not all(account.is_conserved for account in found.accounts.values()):
        complain("an event was neither delivered nor counted in a digest; please report this")
        raise typer.Exit(GoalMissed.exit_code)


def _candidates(found: list[tuple[Path, Policy]]) -> list[Candidate]:
    """Policies by their names; by their files where names repeat."""
    from penstock.pipeline.backtest import Candidate  # noqa: PLC0415

    names = [policy.name or path.stem for path, policy in found]
    return [
        Candidate(name if names.count(name) == 1 else str(path), policy)
        for name, (path, policy) in zip(names, found, strict=True)
    ]


def _read(policies: list[Policy]) -> list[str]:
    """The attributes of payloads that policies read."""
    from penstock.pipeline.fates import read_by  # noqa: PLC0415

    names = dict.fromkeys(name for policy in policies for name in read_by(policy))
    return [name for name in names if paths.parse(name).source is Source.PAYLOAD]


def _setting(events: str, found: Backtest, settings: Settings) -> str:
    stream = found.stream
    queues = "one queue" if stream.queues == 1 else f"{stream.queues:,} queues"
    return (
        f"{stream.events:,} events of {stream.span_s:,.0f} s in {queues} from {events}; capacity "
        f"{settings.capacity:,}, drain {settings.drain.text}, {settings.controller.value}"
    )


def _show(found: Backtest, setting: str, report: Path, *, as_json: bool, settings: Settings) -> None:
    if as_json:
        stream: dict[str, Any] = {
            "events": found.stream.events,
            "queues": found.stream.queues,
            "span_s": found.stream.span_s,
        }
        print_json(
            {
                "stream": stream,
                "capacity": settings.capacity,
                "drain": settings.drain.text,
                "controller": settings.controller.value,
                "candidates": {name: account.as_json() for name, account in found.accounts.items()},
                "report": str(report),
            }
        )
        return
    out.print(f"{escape(setting)}\n")
    for table in tables(found):
        print_table(table.title, table.header, table.rows)
    for line in balances(found):
        out.print(escape(line))
    out.print(f"written: {escape(str(report))}")
