"""The report of `penstock backtest`: tables, lines that prove that nothing is missing, a page with plots."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

from penstock.cli.html_page import Page, Table
from penstock.model.instant import duration

if TYPE_CHECKING:
    from pathlib import Path

    from penstock.core.backtest.account import Account
    from penstock.core.backtest.measures import Kept
    from penstock.core.backtest.settings import Backtest


def tables(found: Backtest) -> list[Table]:
    """Return the tables of results; an empty table is left out."""
    made = [
        _candidate_table(found),
        matters_table(found),
        _errors(found),
        _levels(found),
        _filters(found),
        _worst(found),
    ]
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
    header = (
        "candidate", "lost", "newest value, age p50", "p99", "latency p50", "p99", "digests", "packs",
        "most often at level",
    )  # fmt: skip
    rows = []
    for name, account in found.accounts.items():
        often = max(account.levels, key=lambda level: account.levels[level], default=None)
        rows.append(
            (
                name,
                share(account.loss),
                *(latency(account.age.quantile(rank)) for rank in (0.5, 0.99)),
                *(latency(account.latency.quantile(rank)) for rank in (0.5, 0.99)),
                "–" if name in found.silent else f"{account.digests:,}",
                f"{account.packs:,}",
                "–" if often is None else _level(often),
            )
        )
    return Table("Candidates", header, tuple(rows))


def matters_table(found: Backtest) -> Table:
    """Return the table of what the receiver wants most: how much of it arrives, and how late."""
    rows: list[tuple[str, ...]] = []
    first = next(iter(found.accounts.values()))
    for what in first.matters:
        for name, account in found.accounts.items():
            own = account.matters[what]
            times = (latency(own.delay.quantile(rank)) for rank in (0.5, 0.99))
            rows.append((what, name, *_kept(own.kept), *times))
    for attribute, (low, high) in found.stream.normal.items():
        for name, account in found.accounts.items():
            what = f"{attribute} outside {low:.4g} … {high:.4g}"
            rows.append((what, name, *_kept(account.unusual[attribute]), "", ""))
    for attribute in first.extremes:
        for name, account in found.accounts.items():
            rows.append((f"extremes of {attribute}", name, *_kept(account.extremes[attribute]), "", ""))
    shown = tuple(row for row in rows if row[2] != "0")
    return Table("What matters", ("what", "candidate", "events", "kept", "delay p50", "p99"), shown)


def _kept(found: Kept) -> tuple[str, str]:
    return f"{found.n:,}", "–" if found.share is None else share(found.share)


def _levels(found: Backtest) -> Table:
    rows = []
    for name, account in found.accounts.items():
        if account.packs:
            levels = ", ".join(
                f"{_level(level)}: {share(count / account.packs)}" for level, count in account.levels.items()
            )
            spaced = account.intervals
            times = (spaced.mean, spaced.quantile(0.5), spaced.quantile(0.99))
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
    rows: list[tuple[str, ...]] = []
    for name, account in found.accounts.items():
        for attribute, held in account.errors.items():
            spread = held.spread.stddev
            for when, error in (("live", held.live), ("later", held.later)):
                if error.rmse is not None:
                    own = error.sources
                    sources = (own.quantile(0.5), own.quantile(0.99), own.largest)
                    relative = "–" if not spread else f"{error.rmse / spread:.3f}"
                    rows.append(
                        (
                            attribute,
                            name,
                            when,
                            *(f"{one:.4g}" for one in sources if one is not None),
                            relative,
                        )
                    )
    header = ("attribute", "candidate", "seen", "RMSE of a source, p50", "p99", "worst", "of all / std")
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
