"""Pictures of Corona's Figures 3 to 10, drawn from simulated polls."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import matplotlib as mpl
import numpy as np

from penstock_lab.sim.corona.workload import HOUR_US, MINUTE_US

if TYPE_CHECKING:
    from pathlib import Path

    from penstock_lab.sim.corona.simulation import CoronaRuns, Run

mpl.use("Agg")

COLOURS: Final = {
    "Legacy-RSS": "#888888",
    "Corona-Lite": "#1f6f8b",
    "Corona-Fast": "#d1495b",
    "Corona-Fair": "#edae49",
    "Corona-Fair-Sqrt": "#66a182",
    "Corona-Fair-Log": "#8d5a97",
    "ours, lite": "#000000",
}
BUCKET_US: Final = 10 * MINUTE_US
SHOWN: Final = 20_000
"""Channels in Figures 5 and 6, as in the paper."""
SAMPLED: Final = 200
"""Channels in Figures 7 and 8, as in the paper."""


def draw(found: CoronaRuns, out: Path) -> tuple[Path, ...]:
    """Draw Figures 3 to 8 into a folder, which is created if needed."""
    from matplotlib import pyplot as plt  # noqa: PLC0415  # after the backend is chosen

    out.mkdir(parents=True, exist_ok=True)
    timed = {name: found.runs[name] for name in ("Legacy-RSS", "Corona-Lite", "Corona-Fast", "ours, lite")}
    figure, (loads, times) = plt.subplots(1, 2, figsize=(11, 4.2), layout="constrained")
    _over_time(loads, times, timed)
    loads.set(title="Fig. 3: load on servers", ylabel="polls per 30 min per channel", ylim=(0, None))
    times.set(title="Fig. 4: detection time per subscription")
    first = out / "corona-fig3-4.png"
    figure.savefig(first, dpi=120)
    plt.close(figure)
    figure, (pollers, delays) = plt.subplots(1, 2, figsize=(11, 4.2), layout="constrained")
    _by_popularity(pollers, delays, found)
    second = out / "corona-fig5-6.png"
    figure.savefig(second, dpi=120)
    plt.close(figure)
    figure, panels = plt.subplots(1, 2, figsize=(11, 4.2), layout="constrained", sharey=True)
    _by_interval(panels[0], found, ("Corona-Lite", "Corona-Fair"), "Fig. 7")
    _by_interval(panels[1], found, ("Corona-Fair-Sqrt", "Corona-Fair-Log"), "Fig. 8")
    third = out / "corona-fig7-8.png"
    figure.savefig(third, dpi=120)
    plt.close(figure)
    return first, second, third


def draw_deployment(found: dict[str, list[Run]], out: Path) -> tuple[Path, ...]:
    """Draw Figures 9 and 10 from the first ring."""
    from matplotlib import pyplot as plt  # noqa: PLC0415  # after the backend is chosen

    out.mkdir(parents=True, exist_ok=True)
    figure, (loads, times) = plt.subplots(1, 2, figsize=(11, 4.2), layout="constrained")
    names = ("Legacy-RSS", "Corona-Lite", "ours, lite")
    channels = found["Legacy-RSS"][0].channels
    _over_time(loads, times, {name: found[name][0] for name in names}, scale=channels / 30)
    times.axhline(45, color="#d1495b", ls="--", lw=1, label="paper: 45 s")
    times.legend(fontsize=8)
    times.set(title="Fig. 9: detection time per subscription")
    loads.set(title="Fig. 10: load on servers", ylabel="polls per minute, all channels", ylim=(0, None))
    path = out / "corona-fig9-10.png"
    figure.savefig(path, dpi=120)
    plt.close(figure)
    return (path,)


def _over_time(loads: Any, times: Any, runs: dict[str, Run], *, scale: float = 1.0) -> None:
    for name, run in runs.items():
        starts = np.arange(0, run.setting.length_us, BUCKET_US)
        hours = (starts + BUCKET_US / 2) / HOUR_US
        load = [scale * run.load(int(start), int(start + BUCKET_US)) for start in starts]
        delay = [run.probes.mean_s(int(start), int(start + BUCKET_US)) for start in starts]
        loads.plot(hours, load, color=COLOURS[name], label=name)
        times.semilogy(hours, delay, color=COLOURS[name], label=name)
    times.set(ylabel="seconds")
    for panel in (loads, times):
        panel.set(xlabel="hours", xlim=(0, None))
        panel.grid(alpha=0.25)
        panel.legend(fontsize=8)


def _by_popularity(pollers: Any, delays: Any, found: CoronaRuns) -> None:
    count = len(found.workload)
    shown = np.unique(np.linspace(0, count - 1, min(SHOWN, count)).astype(int))
    pollers.semilogy(
        shown, found.workload.subscribers[shown], color=COLOURS["Legacy-RSS"], label="Legacy-RSS", lw=2
    )
    for name in ("Corona-Lite", "ours, lite"):
        marks = {"ls": "", "marker": ".", "ms": 1.5, "color": COLOURS[name], "label": name}
        pollers.semilogy(shown, found.runs[name].pollers[shown], **marks)
        delays.semilogy(shown, np.maximum(found.delays_s(name)[shown], 0.1), **marks)
    pollers.set(title="Fig. 5: polls per 30 min of each channel", ylabel="polls")
    delays.set(title="Fig. 6: detection time of each channel", ylabel="seconds")
    for panel in (pollers, delays):
        panel.set(xlabel="channels by popularity")
        panel.grid(alpha=0.25)
        panel.legend(fontsize=8, markerscale=6)


def _by_interval(panel: Any, found: CoronaRuns, names: tuple[str, ...], title: str) -> None:
    interval = found.workload.update_interval_us
    order = np.lexsort((np.arange(len(interval)), interval))
    shown = order[np.linspace(0, len(order) - 1, min(SAMPLED, len(order))).astype(int)]
    for name in names:
        panel.semilogy(found.delays_s(name)[shown], ls="", marker="o", ms=3, color=COLOURS[name], label=name)
    panel.set(title=f"{title}: detection time", xlabel="channels by update interval", ylabel="seconds")
    panel.grid(alpha=0.25)
    panel.legend(fontsize=8)
