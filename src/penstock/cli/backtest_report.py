"""A backtest as tables, and as a page with pictures."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

from penstock.cli.html_page import Page, Table

if TYPE_CHECKING:
    from pathlib import Path

    from penstock.pipeline.backtest import Backtest
    from penstock.pipeline.backtest_account import Account


def tables(found: Backtest) -> list[Table]:
    """What was measured; a table with nothing in it is left out."""
    made = [_candidates(found), _levels(found), _filters(found), _errors(found), _worst(found)]
    return [table for table in made if table.rows]


def balances(found: Backtest) -> list[str]:
    """The lines that show that nothing is lost unaccounted."""
    return [_balance(name, account, silent=name in found.silent) for name, account in found.accounts.items()]


def _balance(name: str, account: Account, *, silent: bool) -> str:
    gone = "dropped without a word" if silent else "counted in digests"
    sign = "=" if account.is_conserved else "≠"
    parts = f"delivered {account.delivered:,} + {gone} {account.digested:,}"
    return f"{name}: accepted {account.accepted:,} {sign} {parts}"


def write_page(found: Backtest, title: str, setting: str, policies: dict[str, str], folder: Path) -> Path:
    """The page, in a file of its own; `policies` are texts by candidate."""
    page = Page(title)
    page.text(setting)
    drawn: tuple[Path, ...] = ()
    if find_spec("matplotlib") is not None:
        from penstock.cli.backtest_plots import draw  # noqa: PLC0415  # an extra

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


def _candidates(found: Backtest) -> Table:
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
                *map(duration, times),
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
            rows.append((name, f"{account.packs:,}", levels, *map(duration, times)))
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
        (name, one.queue or "all events", f"{one.events:,}", share(one.share), duration(one.latency_us))
        for name, account in found.accounts.items()
        for one in account.worst[:3]
    ]
    return Table(
        "Queues that lost most", ("candidate", "queue", "events", "lost", "mean latency"), tuple(rows)
    )


def _level(level: int) -> str:
    return str(level) if level else "worst case"


def share(found: float) -> str:
    """A share for people."""
    return f"{100 * found:.1f} %"


def duration(time_us: float | None) -> str:
    """A time for people."""
    if time_us is None:
        return "–"
    return f"{time_us / 1e6:,.3g} s" if time_us >= 1e6 else f"{time_us / 1e3:.3g} ms"
