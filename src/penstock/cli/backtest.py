"""`penstock backtest`: replays a recorded stream under policies; prints tables, writes a page with plots."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from penstock import limits
from penstock.cli.files import read_policy, writable
from penstock.cli.html_page import Page, Table
from penstock.cli.options import (
    ColumnsOption,
    EventsOption,
    FormatOption,
    KeyOption,
    MasterOption,
    MemoryOption,
    RemoteOption,
    SeqOption,
    TsOption,
    chosen,
    columns_of,
    in_a_hurry,
    need_spark,
)
from penstock.cli.output import JsonFlag, complain, print_json, warn
from penstock.cli.terminal import escape, out, print_table, progress
from penstock.core.queues import drain
from penstock.errors import GoalMissed
from penstock.model.instant import duration
from penstock.policy import paths
from penstock.policy.paths import Source
from penstock.policy.text import forms

if TYPE_CHECKING:
    from penstock.pipeline.jobs.backtest.account import Account
    from penstock.pipeline.jobs.backtest.replay import Backtest, Candidate, Settings
    from penstock.policy.nodes import Policy


def tables(found: Backtest) -> list[Table]:
    """Return the tables of results; an empty table is left out."""
    made = [_candidate_table(found), _levels(found), _filters(found), _errors(found), _worst(found)]
    return [table for table in made if table.rows]


def balances(found: Backtest) -> list[str]:
    """Return the lines that show that every event is accounted for."""
    return [_balance(name, account, silent=name in found.silent) for name, account in found.accounts.items()]


def _balance(name: str, account: Account, *, silent: bool) -> str:
    gone = "dropped without a word" if silent else "counted in digests"
    sign = "=" if account.is_conserved else "≠"
    parts = f"delivered {account.delivered:,} + {gone} {account.digested:,}"
    return f"{name}: accepted {account.accepted:,} {sign} {parts}"


def write_page(found: Backtest, title: str, setting: str, policies: dict[str, str], folder: Path) -> Path:
    """Write the HTML page into a folder; `policies` has the text of each candidate."""
    page = Page(title)
    page.text(setting)
    drawn: tuple[Path, ...] = ()
    if find_spec("matplotlib") is not None:
        from penstock.pipeline.jobs.backtest.plots import draw  # noqa: PLC0415  # an extra

        drawn = draw(found, folder)
    first, *others = tables(found)
    page.heading(first.title)
    page.table(first.header, first.rows)
    for line in balances(found):
        page.text(line)
    for path in drawn:
        page.picture(path)
    for table in others:
        page.heading(table.title)
        page.table(table.header, table.rows)
    for name, text in policies.items():
        page.heading(f"Policy {name}")
        page.code(text)
    return page.write(folder / "backtest.html")


def _candidate_table(found: Backtest) -> Table:
    header = ("candidate", "lost", "digests", "mean latency", "p50", "p99", "packs", "most often at level")
    rows = []
    for name, account in found.accounts.items():
        times = (account.latency.mean_us, account.latency.quantile_us(0.5), account.latency.quantile_us(0.99))
        often = max(account.levels, key=lambda level: account.levels[level], default=None)
        rows.append(
            (
                name,
                share(account.loss),
                "–" if name in found.silent else f"{account.digests:,}",
                *map(latency, times),
                f"{account.packs:,}",
                "–" if often is None else _level(often),
            )
        )
    return Table("Candidates", header, tuple(rows))


def _levels(found: Backtest) -> Table:
    rows = []
    for name, account in found.accounts.items():
        if account.packs:
            levels = ", ".join(
                f"{_level(level)}: {share(count / account.packs)}" for level, count in account.levels.items()
            )
            spaced = account.intervals
            times = (spaced.mean_us, spaced.quantile_us(0.5), spaced.quantile_us(0.99))
            rows.append((name, f"{account.packs:,}", levels, *map(latency, times)))
    header = ("candidate", "packs", "by level", "mean interval", "p50", "p99")
    return Table("Packs", header, tuple(rows))


def _filters(found: Backtest) -> Table:
    rows = [
        (name, str(cause), f"{count.seen:,}", f"{count.dropped:,}", share(count.ratio))
        for name, account in found.accounts.items()
        for cause, count in account.effects()
    ]
    return Table("What each filter did", ("candidate", "filter", "seen", "dropped", "share"), tuple(rows))


def _errors(found: Backtest) -> Table:
    rows = []
    for name, account in found.accounts.items():
        for attribute, held in account.errors.items():
            spread = held.spread.stddev
            for when, error in (("live", held.live), ("later", held.later)):
                if error.rmse is not None:
                    relative = "–" if not spread else f"{error.rmse / spread:.3f}"
                    rows.append(
                        (attribute, name, when, f"{error.rmse:.4g}", relative, f"{error.largest:.4g}")
                    )
    header = ("attribute", "candidate", "seen", "RMSE", "RMSE / std", "largest")
    title = "Error of the value held (live: at that moment, delay included; later: delay aside)"
    return Table(title, header, tuple(sorted(rows, key=lambda row: row[0])))


def _worst(found: Backtest) -> Table:
    rows = [
        (name, one.queue or "all events", f"{one.events:,}", share(one.share), latency(one.latency_us))
        for name, account in found.accounts.items()
        for one in account.worst[:3]
    ]
    return Table(
        "Queues that lost most", ("candidate", "queue", "events", "lost", "mean latency"), tuple(rows)
    )


def _level(level: int) -> str:
    return str(level) if level else "worst case"


def share(found: float) -> str:
    """Format a share as a percentage."""
    return f"{100 * found:.1f} %"


def latency(time_us: float | None) -> str:
    """Format a mean or quantile of times with its unit; – if no event was measured."""
    return "–" if time_us is None else duration(round(time_us))


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
        str, typer.Option("--controller", help="Controller that chooses the level: ladder or predictive.")
    ] = "ladder",
    ts: TsOption = "ts",
    seq: SeqOption = None,
    columns: ColumnsOption = None,
    form: FormatOption = None,
    folder: Annotated[Path, typer.Option("--out", help="Folder of the report.")] = Path("out"),
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
    from penstock.pipeline.jobs.backtest import replay as run  # noqa: PLC0415  # Spark, where it is needed
    from penstock.pipeline.progress import watched  # noqa: PLC0415
    from penstock.pipeline.session import few_parts, open_session  # noqa: PLC0415
    from penstock.pipeline.tables.recorded import read  # noqa: PLC0415

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
    texts = {candidate.name: forms.to_yaml(candidate.policy) for candidate in candidates if candidate.policy}
    report = write_page(found, f"Backtest of {Path(events).name}", setting, texts, folder)
    _show(found, setting, report, as_json=as_json, settings=settings)
    if find_spec("matplotlib") is None:
        warn("no pictures: matplotlib is not installed; pip install 'penstock[plots]'")
    if not all(account.is_conserved for account in found.accounts.values()):
        complain("an event was neither delivered nor counted in a digest; please report this")
        raise typer.Exit(GoalMissed.exit_code)


def _candidates(found: list[tuple[Path, Policy]]) -> list[Candidate]:
    """Return policies by name; by file where names repeat."""
    from penstock.pipeline.jobs.backtest.replay import Candidate  # noqa: PLC0415

    names = [policy.name or path.stem for path, policy in found]
    return [
        Candidate(name if names.count(name) == 1 else str(path), policy)
        for name, (path, policy) in zip(names, found, strict=True)
    ]


def _read(policies: list[Policy]) -> list[str]:
    """Return the payload attributes that policies read."""
    from penstock.pipeline.compile.fates import read_by  # noqa: PLC0415

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
