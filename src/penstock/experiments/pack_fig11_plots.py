"""The four panels of Figure 11: levels, packing ratios, time between packs, latency."""

from __future__ import annotations

from typing import TYPE_CHECKING

import matplotlib as mpl

if TYPE_CHECKING:
    from pathlib import Path

    from penstock.experiments.pack_fig11_trace import Measured

mpl.use("Agg")

COLOUR = "#1f6f8b"
PAPER = "#d1495b"


def draw(measured: Measured, out: Path) -> tuple[Path, ...]:
    """Write the picture; the folder is made if it is not there."""
    from matplotlib import pyplot as plt  # noqa: PLC0415  # after the backend is chosen

    from penstock.experiments.pack_fig11_trace import SHARES  # noqa: PLC0415

    out.mkdir(parents=True, exist_ok=True)
    figure, ((levels, ratios), (intervals, latencies)) = plt.subplots(
        2, 2, figsize=(10, 7.5), layout="constrained"
    )
    names = list(measured.levels)
    levels.bar(names, [measured.per_hour(level) for level in names], color=COLOUR)
    levels.axhspan(31, 61, color=PAPER, alpha=0.15, label="paper: 31 to 61")
    levels.set(xlabel="level", ylabel="packs in an hour", title="(a) Levels asked for")
    shown = [one for one in measured.filters if one.level]
    ratios.bar([one.level for one in shown], [one.ratio for one in shown], color=COLOUR)
    ratios.set(xlabel="filter", ylabel="share dropped", ylim=(0, 1), title="(b) Packing ratio of each filter")
    for panel, values, mark, label in (
        (intervals, measured.intervals_s, 11, "paper: median ≈ 11 s"),
        (latencies, measured.latencies_s, 84, "paper: longest 84 s"),
    ):
        panel.plot(values, SHARES, color=COLOUR)
        panel.axvline(mark, color=PAPER, ls="--", lw=1, label=label)
        panel.set(xlabel="seconds", ylabel="share of all", ylim=(0, 1), xlim=(0, None))
    intervals.set_title("(c) Time between packs")
    latencies.set_title("(d) Latency of answers")
    for panel in (levels, ratios, intervals, latencies):
        panel.grid(alpha=0.25)
        if panel is not ratios:
            panel.legend(fontsize=8)
    path = out / "pack-fig11.png"
    figure.savefig(path, dpi=120)
    plt.close(figure)
    return (path,)
