"""Plots of a backtest: latency, loss over time, levels, errors. Needs matplotlib."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import matplotlib as mpl

if TYPE_CHECKING:
    from pathlib import Path

    from penstock.core.backtest.settings import Backtest

mpl.use("Agg")

COLOURS: Final = ("#1f6f8b", "#d1495b", "#8fc1a9", "#6f4c8b", "#c28e2c", "#556b2f")
GREYS: Final = {"drop-newest": "#999999", "drop-oldest": "#555555"}


def draw(found: Backtest, folder: Path) -> tuple[Path, ...]:
    """Write the plots; the folder is created if necessary."""
    from matplotlib import pyplot as plt  # noqa: PLC0415  # after the backend is chosen

    folder.mkdir(parents=True, exist_ok=True)
    colours = _colours(found)
    figure, ((latency, levels), (wait, loss)) = plt.subplots(2, 2, figsize=(11, 8), layout="constrained")
    _latency(latency, found, colours)
    _levels(levels, found, colours)
    _over_time(wait, loss, found, colours)
    path = folder / "backtest.png"
    figure.savefig(path, dpi=110)
    plt.close(figure)
    drawn = [path]
    if any(held.spread.stddev for account in found.accounts.values() for held in account.errors.values()):
        figure, panel = plt.subplots(figsize=(11, 3.5), layout="constrained")
        _errors(panel, found, colours)
        drawn.append(folder / "backtest-errors.png")
        figure.savefig(drawn[-1], dpi=110)
        plt.close(figure)
    return tuple(drawn)


def _colours(found: Backtest) -> dict[str, str]:
    named = [name for name in found.accounts if name not in GREYS]
    return GREYS | {name: COLOURS[place % len(COLOURS)] for place, name in enumerate(named)}


def _latency(panel: Any, found: Backtest, colours: dict[str, str]) -> None:
    for name, account in found.accounts.items():
        steps = [(max(time, 1.0) / 1e6, share) for time, share in account.latency.steps()]
        if steps:
            panel.plot(*zip(*steps, strict=True), color=colours[name], label=name)
    panel.set(xscale="log", ylim=(0, 1.02), title="Latency of what was delivered")
    panel.set(xlabel="latency, s", ylabel="share of events")
    panel.legend(fontsize=8)
    panel.grid(alpha=0.25)


def _levels(panel: Any, found: Backtest, colours: dict[str, str]) -> None:
    packing = {name: account for name, account in found.accounts.items() if account.packs}
    highest = max((max(account.levels) for account in packing.values()), default=1)
    width = 0.8 / max(1, len(packing))
    for number, (name, account) in enumerate(packing.items()):
        places = [level + (number - (len(packing) - 1) / 2) * width for level in range(highest + 1)]
        shares = [account.levels.get(level, 0) / account.packs for level in range(highest + 1)]
        panel.bar(places, shares, width, color=colours[name], label=name)
    panel.set_xticks(range(highest + 1), ["worst\ncase", *map(str, range(1, highest + 1))])
    panel.set(xlabel="level", ylabel="share of packs", ylim=(0, 1), title="Packs by level")
    if packing:
        panel.legend(fontsize=8)
    panel.grid(alpha=0.25, axis="y")


def _over_time(wait: Any, loss: Any, found: Backtest, colours: dict[str, str]) -> None:
    for name, account in found.accounts.items():
        slices = account.slices
        step_s = found.stream.span_s / len(slices.events)
        rows = list(zip(slices.events, slices.delivered, slices.waited_us, strict=True))
        means = [
            (place * step_s, waited / delivered / 1e6)
            for place, (_, delivered, waited) in enumerate(rows)
            if delivered
        ]
        shares = [
            (place * step_s, 1 - delivered / events)
            for place, (events, delivered, _) in enumerate(rows)
            if events
        ]
        if means:
            wait.plot(*zip(*means, strict=True), color=colours[name], lw=1, label=name)
        loss.plot(*zip(*shares, strict=True), color=colours[name], lw=1, label=name)
    wait.set(
        xlabel="time of the event, s", ylabel="mean latency, s", ylim=(0, None), title="Latency over time"
    )
    loss.set(xlabel="time of the event, s", ylabel="share lost", ylim=(-0.02, 1.02), title="Loss over time")
    for panel in (wait, loss):
        panel.legend(fontsize=8)
        panel.grid(alpha=0.25)


def _errors(panel: Any, found: Backtest, colours: dict[str, str]) -> None:
    """Error in standard deviations: pale as seen live, solid with the delay aside."""
    attributes = sorted({name for account in found.accounts.values() for name in account.errors})
    width = 0.8 / max(1, len(found.accounts))
    for number, (name, account) in enumerate(found.accounts.items()):
        for place, attribute in enumerate(attributes):
            held = account.errors.get(attribute)
            spread = None if held is None else held.spread.stddev
            if held is None or not spread:
                continue
            at = place + (number - (len(found.accounts) - 1) / 2) * width
            label = name if name not in panel.get_legend_handles_labels()[1] else None
            panel.bar(at, (held.live.rmse or 0.0) / spread, width, color=colours[name], alpha=0.4)
            panel.bar(at, (held.later.rmse or 0.0) / spread, width * 0.6, color=colours[name], label=label)
    panel.set_xticks(range(len(attributes)), attributes)
    panel.set(
        ylabel="RMSE / std", title="Error of the value held: wide and pale live, narrow with the delay aside"
    )
    panel.legend(fontsize=8)
    panel.grid(alpha=0.25, axis="y")
