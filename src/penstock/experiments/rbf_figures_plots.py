"""Figures 5 to 7 as pictures."""

from __future__ import annotations

from typing import TYPE_CHECKING

import matplotlib as mpl

from penstock.core.slots import formulas
from penstock.experiments.rbf_figures_sweep import ARRAYS, SLOTS

if TYPE_CHECKING:
    from pathlib import Path

    from penstock.experiments.rbf_figures import Curves

mpl.use("Agg")


def draw(curves: Curves, out: Path) -> tuple[Path, ...]:
    """Write the pictures; the folder is made if it is not there."""
    out.mkdir(parents=True, exist_ok=True)
    return _closed_forms(out / "rbf-fig5-6.png"), _bursts(curves, out / "rbf-fig7.png")


def _closed_forms(path: Path) -> Path:
    from matplotlib import pyplot as plt  # noqa: PLC0415  # after the backend is chosen

    figure, (cost, waste) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
    cost.plot(ARRAYS, [SLOTS // arrays for arrays in ARRAYS], marker="o", color="#1f6f8b")
    cost.set(ylabel="cost of a query, in C", title="Figure 5: cost", yscale="log")
    shares = [formulas.waste(arrays=arrays, groups=SLOTS // arrays) for arrays in ARRAYS]
    waste.plot(ARRAYS, shares, marker="o", color="#d1495b")
    waste.set(ylabel="share of storage", title="Figure 6: waste", ylim=(0, None))
    for panel in (cost, waste):
        panel.set(xlabel="arrays u (u · v = 64)", xscale="log")
        panel.set_xticks(ARRAYS, [str(arrays) for arrays in ARRAYS])
        panel.minorticks_off()
        panel.grid(alpha=0.25)
    figure.savefig(path, dpi=120)
    plt.close(figure)
    return path


def _bursts(curves: Curves, path: Path) -> Path:
    from matplotlib import pyplot as plt  # noqa: PLC0415

    figure, panels = plt.subplots(1, 2, figsize=(10, 4.4), sharey=True, layout="constrained")
    colours = plt.get_cmap("viridis")
    for panel, paid in zip(panels, (False, True), strict=True):
        for number, arrays in enumerate(ARRAYS):
            values = [curves.at(paid=paid, arrays=arrays, stdc=stdc) for stdc in curves.stdc]
            colour = colours(number / len(ARRAYS))
            panel.plot(curves.stdc, values, marker=".", color=colour, label=f"u = {arrays}")
        panel.set(
            xlabel="stdc",
            yscale="log",
            title=f"Figure 7: spare {'paid: u + 1 arrays in 12 Mbit' if paid else 'free, as in the paper'}",
        )
        panel.grid(alpha=0.25)
    panels[0].set(ylabel="joint false positive")
    panels[0].legend(fontsize=8)
    figure.savefig(path, dpi=120)
    plt.close(figure)
    return path
