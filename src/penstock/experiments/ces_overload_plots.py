"""Jitter, loss and delay of the two classes over the load, with slots reserved and without."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import matplotlib as mpl

if TYPE_CHECKING:
    from pathlib import Path

    from penstock.experiments.ces_overload import Class, Measured

mpl.use("Agg")

COLOURS: Final = {True: "#1f6f8b", False: "#d1495b"}
PANELS: Final = (("jitter_ms", "jitter, ms"), ("loss", "share lost"), ("p99_ms", "p99 delay, ms"))


def draw(alone: Measured, found: list[Measured], out: Path) -> tuple[Path, ...]:
    """Write the picture; the folder is made if it is not there."""
    from matplotlib import pyplot as plt  # noqa: PLC0415  # after the backend is chosen

    out.mkdir(parents=True, exist_ok=True)
    figure, panels = plt.subplots(1, 3, figsize=(13, 4), layout="constrained")
    for panel, (name, label) in zip(panels, PANELS, strict=True):
        for reserve, colour in COLOURS.items():
            some = [one for one in found if one.reserve is reserve]
            loads = [one.load for one in some]
            for kind, style in (("flows", "-"), ("best effort", ":")):
                values = [getattr(_class(one, kind), name) for one in some]
                said = f"{kind}, {'slots reserved' if reserve else 'no slots'}"
                panel.plot(loads, values, style, color=colour, marker="o", ms=3, label=said)
        panel.axhline(getattr(alone.voice, name), color="#999999", lw=1, label="flows alone")
        panel.set(xlabel="offered load / link", ylabel=label)
        panel.grid(alpha=0.25)
        if name != "loss":
            panel.set_yscale("log")
    panels[0].legend(fontsize=8)
    path = out / "ces-overload.png"
    figure.savefig(path, dpi=120)
    plt.close(figure)
    return (path,)


def _class(measured: Measured, kind: str) -> Class:
    if kind == "flows":
        return measured.voice
    assert measured.bursts is not None
    return measured.bursts
