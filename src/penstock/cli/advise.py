"""`penstock advise`: proposes a policy for a recorded stream and a budget, with the expected results."""

from __future__ import annotations

from math import isinf
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from penstock import limits
from penstock.cli.backtest.report import balances, latency, matters_table, share
from penstock.cli.files import writable
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
    columns_of,
    in_a_hurry,
    need_spark,
)
from penstock.cli.output import JsonFlag, complain, print_json, print_text, warn
from penstock.cli.starters import write_yaml
from penstock.cli.terminal import escape, out, print_table, progress
from penstock.core.queues import drain
from penstock.errors import GoalMissed
from penstock.pipeline.jobs.advise.verdict import Figures, time_of
from penstock.policy.predicates import predicate
from penstock.policy.text import forms

if TYPE_CHECKING:
    from penstock.core.backtest.account import Account
    from penstock.pipeline.jobs.advise.advice import Advice
    from penstock.pipeline.jobs.advise.measure import LevelResult


def advise(
    *,
    events: EventsOption,
    attribute: Annotated[
        list[str],
        typer.Option(
            "--attribute",
            metavar="PATH",
            help="Attribute that matters to the receiver, the most important one first; repeatable.",
        ),
    ],
    budget: Annotated[
        float, typer.Option("--budget", metavar="SHARE", help="Share of the events that may be kept, as 0.3.")
    ],
    key: KeyOption = None,
    series: Annotated[
        list[str] | None,
        typer.Option(
            "--series", metavar="COL", help="Column that tells sources apart; sender and topic if omitted."
        ),
    ] = None,
    matters: MattersOption = None,
    rate: Annotated[
        str | None,
        typer.Option(
            "--drain",
            metavar="RATE",
            help="How fast a queue empties: 100/s, 50kbit/s; what the budget needs if omitted.",
        ),
    ] = None,
    capacity: Annotated[
        int, typer.Option("--capacity", min=limits.QUEUE_EVENTS_LEAST, help="Events a queue may hold.")
    ] = limits.QUEUE_EVENTS,
    ts: TsOption = "ts",
    seq: SeqOption = None,
    columns: ColumnsOption = None,
    form: FormatOption = None,
    path: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="Write the policy here, as YAML.")
    ] = None,
    as_json: JsonFlag = False,
    master: MasterOption = None,
    remote: RemoteOption = None,
    memory: MemoryOption = None,
) -> None:
    """Propose a policy for a share of the events.

    Its levels come down to that share. Learned on the first 70 % of each queue, checked on the rest beside
    drop-newest and drop-oldest. Exits 1 if no level meets the budget there, or if the policy does not beat
    both in what matters.
    """
    need_spark()
    in_a_hurry(path=events)
    from penstock.pipeline.jobs.advise.advice import advise as propose  # noqa: PLC0415  # Spark, where it is needed
    from penstock.pipeline.jobs.advise.profile import AdviceRequest  # noqa: PLC0415
    from penstock.pipeline.session import few_parts, open_session  # noqa: PLC0415
    from penstock.pipeline.tables.recorded import read  # noqa: PLC0415

    asked = AdviceRequest(
        attributes=tuple(dict.fromkeys(attribute)),
        budget=budget,
        capacity=capacity,
        key=tuple(key or ()),
        series=tuple(series or ()),
        columns=columns_of(columns, seq=seq),
        matters=tuple(predicate(text, attribute=attribute[0]) for text in matters or ()),
        drain=None if rate is None else drain(rate),
    )
    if path is not None:
        writable(path)
    with progress("advise") as step:
        step(0, 5, "starting Spark")
        with open_session(
            master=master,
            remote=remote,
            memory=memory,
            app="penstock advise",
            config=few_parts(master, remote),
        ) as spark:
            found = propose(read(spark, events, format=form, ts=ts), asked, step)
    text = forms.to_yaml(found.policy)
    if path is not None:
        write_yaml(path, text, "policy")
    for doubt in found.doubts:
        warn(doubt)
    if as_json:
        print_json(_as_json(found, text, path))
    else:
        _show(found, text, path)
    if found.needed is None:
        best = min(one.kept for one in found.measured)
        complain(f"no level keeps {share(budget)} or less of what was held out; the best keeps {share(best)}")
    if not found.verdict.good:
        complain(f"the policy {found.verdict.sentence}")
    if found.needed is None or not found.verdict.good:
        raise typer.Exit(GoalMissed.exit_code)


def _show(found: Advice, text: str, path: Path | None) -> None:
    print_text(text)
    rows = []
    for level, reasons in enumerate(found.reasons, start=1):
        expected, measured = found.expected[level - 1], found.measured[level - 1]
        rows.append(
            (
                str(level),
                "\n".join(reasons),
                share(expected.kept),
                share(measured.kept),
                f"{measured.items:.2f}",
                _rmse(expected),
                _rmse(measured),
            )
        )
    header = ("level", "why", "kept, expected", "measured", "items per event", "RMSE, expected", "measured")
    print_table("Levels: as learned, and on what was held out", header, rows)
    _show_timing(found)
    replayed = [
        (
            name,
            *_figures(Figures.of(account)),
            latency(account.latency.quantile(0.99)),
            _held(account, "live"),
            _held(account, "later"),
        )
        for name, account in found.replayed.accounts.items()
    ]
    columns = (*FIGURES, "latency p99", "RMSE live", "later")
    title = f"What was held out, replayed: {found.setting}"
    print_table(title, columns, replayed)
    for line in balances(found.replayed):
        out.print(escape(line))
    table = matters_table(found.replayed)
    print_table(f"{table.title}, on what was held out", table.header, table.rows)
    if found.needed is not None:
        kept = share(found.measured[found.needed - 1].kept)
        out.print(f"the budget of {share(found.budget)} is met from level {found.needed} on: it keeps {kept}")
    if found.verdict.good:
        out.print(f"the policy {escape(found.verdict.sentence)}")
    if path is not None:
        out.print(f"written: {escape(str(path))}")
    elif found.needed is not None:
        warn("the policy is not written to a file; give --out policy.yaml")


FIGURES: Final = ("candidate", "matters: kept", "half after", "newest: age", "lost")


def _show_timing(found: Advice) -> None:
    rows = [(name, *_figures(one)) for name, one in found.tried.items()]
    print_table("Urgent and fresh: tried on the part learned from", FIGURES, rows)
    for sentence in found.timing:
        out.print(escape(sentence))


def _figures(found: Figures) -> tuple[str, str, str, str]:
    kept = "–" if found.kept is None else share(found.kept)
    return kept, time_of(found.half_us), time_of(found.age_us), share(found.loss)


def _rmse(found: LevelResult) -> str:
    shown = [f"{name} {error.rmse:.4g}" for name, error in found.errors.items() if error.rmse is not None]
    return "\n".join(shown) or "–"


def _held(account: Account, when: str) -> str:
    errors = ((name, getattr(held, when).sources.quantile(0.5)) for name, held in account.errors.items())
    return "\n".join(f"{name} {rmse:.4g}" for name, rmse in errors if rmse is not None) or "–"


def _as_json(found: Advice, text: str, path: Path | None) -> dict[str, Any]:
    return {
        "budget": found.budget,
        "met": found.needed is not None,
        "needed_level": found.needed,
        "policy": text,
        "levels": [
            {
                "level": level,
                "reasons": list(reasons),
                "expected": _reached(found.expected[level - 1]),
                "measured": _reached(found.measured[level - 1]),
            }
            for level, reasons in enumerate(found.reasons, start=1)
        ],
        "stddev": found.spreads,
        "doubts": list(found.doubts),
        "tried": {name: _figures_json(one) for name, one in found.tried.items()},
        "timing": list(found.timing),
        "verdict": {
            "good": found.verdict.good,
            "sentence": found.verdict.sentence,
            "beaten": list(found.verdict.beaten),
            "unbeaten": list(found.verdict.unbeaten),
        },
        "setting": found.setting,
        "backtest": {name: account.as_json() for name, account in found.replayed.accounts.items()},
        "out": None if path is None else str(path),
    }


def _figures_json(found: Figures) -> dict[str, float | None]:
    return {
        "kept": found.kept,
        "half_s": None if found.half_us is None or isinf(found.half_us) else found.half_us / 1e6,
        "age_s": None if found.age_us is None else found.age_us / 1e6,
        "loss": found.loss,
    }


def _reached(found: LevelResult) -> dict[str, Any]:
    return {
        "kept": found.kept,
        "items": found.items,
        "errors": {
            name: {"rmse": error.rmse, "max": error.largest, "unheld": error.unheld}
            for name, error in found.errors.items()
        },
    }
