"""The three panels of Figure 8: latency, loss by second, packs with their ratio."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import matplotlib as mpl

from penstock.model.instant import SECOND_US

if TYPE_CHECKING:
    from pathlib import Path

    from penstock.experiments.pack_fig8 import Measured

mpl.use("Agg")

SHOWN: Final = {"drop-tail": "#999999", "drop-oldest": "#c28e2c", "pack": "#1f6f8b"}
LEVELS: Final = {1: "#8fc1a9", 2: "#1f6f8b", 3: "#d1495b", 0: "#000000"}
SECONDS: Final = 120
"""The first two minutes are drawn: after that it repeats."""


def draw(found: list[Measured], out: Path) -> tuple[Path, ...]:
    """Write the picture; the folder is made if it is not there."""
    from matplotlib import pyplot as plt  # noqa: PLC0415  # after the backend is chosen

    from penstock.experiments.pack_fig8 import losses_by_second  # noqa: PLC0415

    out.mkdir(parents=True, exist_ok=True)
    figure, (latency, loss, packs) = plt.subplots(3, 1, figsize=(9, 9), sharex=True, layout="constrained")
    for measured in found:
        colour = SHOWN.get(measured.contestant.name)
        if colour is None:
            continue
        label = measured.contestant.label
        seen = measured.first
        points = [(at / SECOND_US, (at - event.ts_us) / SECOND_US) for at, event in seen.arrivals]
        latency.plot(*zip(*points, strict=True), color=colour, lw=1, label=label)
        if measured.contestant.name != "drop-oldest":
            seconds = losses_by_second(seen)
            loss.plot(*zip(*seconds, strict=True), color=colour, lw=1, label=label)
        for pack in seen.packs:
            packs.vlines(pack.at_us / SECOND_US, 0, pack.ratio, color=LEVELS[pack.level], lw=2)
    for level, colour in LEVELS.items():
        packs.vlines([], 0, 0, color=colour, lw=2, label=f"level {level}" if level else "worst case")
    latency.set(ylabel="latency, s", ylim=(0, None), title="(a) Latency seen by the receiver")
    loss.set(ylabel="share lost", ylim=(0, 1), title="(b) Loss by second of publication")
    packs.set(
        ylabel="share dropped",
        ylim=(0, 1),
        xlabel="time, s",
        xlim=(0, SECONDS),
        title="(c) Packs on the node",
    )
    for panel, place in ((latency, "lower right"), (loss, "upper right"), (packs, "upper right")):
        panel.legend(loc=place, fontsize=8)
        panel.grid(alpha=0.25)
    path = out / "pack-fig8.png"
    figure.savefig(path, dpi=120)
    plt.close(figure)
    return (path,)
