"""The Gryphon paper's figures: rates, queues, NACK windows, doubt horizons and alerts over time.

Nothing is drawn without a folder for pictures, or without matplotlib, which takes a second to import.
"""

from __future__ import annotations

from importlib.util import find_spec
from math import isfinite
from typing import TYPE_CHECKING, Final

from penstock_lab.sim.streams.gryphon import KB

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path
    from typing import Any

    from penstock_lab.sim.streams.gryphon import Played

COLOURS: Final = ("#d1495b", "#1f6f8b", "#edae49", "#66a182", "#8d6a9f", "#2e4057")
SMOOTHED: Final = 5
"""Seconds over which rates are averaged in the pictures."""


def draw(
    played: Played,
    out: Path | None,
    name: str,
    *,
    title: str,
    panels: Sequence[str],
    leaf: str,
    link: str = "",
) -> tuple[Path, ...]:
    """Draw one picture with some of the panels `rates`, `queue`, `window`, `horizon` and `alerts`."""
    if out is None or find_spec("matplotlib") is None:
        return ()
    plt = _pyplot()
    figure, axes = plt.subplots(
        len(panels), 1, figsize=(10, 2.6 * len(panels)), layout="constrained", sharex=True, squeeze=False
    )
    for axis, panel in zip(axes[:, 0], panels, strict=True):
        {"rates": _rates, "queue": _queue, "window": _window, "horizon": _horizon, "alerts": _alerts}[panel](
            axis, played, leaf=leaf, link=link
        )
        axis.grid(alpha=0.25)
    axes[-1, 0].set_xlabel("seconds")
    figure.suptitle(title)
    return _saved(figure, out, name)


def draw_times(times: Sequence[tuple[float, float | None]], out: Path | None, name: str) -> tuple[Path, ...]:
    """Draw Figure 16: how long recovery takes, by Δt_rec."""
    if out is None or find_spec("matplotlib") is None:
        return ()
    figure, axis = _pyplot().subplots(figsize=(7, 4), layout="constrained")
    done = [(gain, seconds) for gain, seconds in times if seconds is not None]
    axis.plot([gain for gain, _ in done], [seconds for _, seconds in done], marker="o", color=COLOURS[1])
    axis.set(xlabel="Δt_rec, tick-seconds per second", ylabel="recovery, s", ylim=(0, None))
    axis.grid(alpha=0.25)
    return _saved(figure, out, name)


def _pyplot() -> Any:
    import matplotlib as mpl  # noqa: PLC0415

    mpl.use("Agg")
    from matplotlib import pyplot as plt  # noqa: PLC0415  # after the backend is chosen

    return plt


def _saved(figure: Any, out: Path, name: str) -> tuple[Path, ...]:
    out.mkdir(parents=True, exist_ok=True)
    path = out / f"{name}.png"
    figure.savefig(path, dpi=110)
    _pyplot().close(figure)
    return (path,)


def _smooth(values: Sequence[float]) -> list[float]:
    return [
        sum(values[max(0, at - SMOOTHED + 1) : at + 1]) / min(at + 1, SMOOTHED) for at in range(len(values))
    ]


def _rates(axis: Any, played: Played, *, leaf: str, link: str) -> None:
    del leaf, link
    seconds = [sample.second for sample in played.samples]
    published = _smooth([sum(sample.published) for sample in played.samples])
    axis.plot(seconds, published, color=COLOURS[0], label="PB")
    for colour, name in zip(COLOURS[1:], played.samples[0].delivered, strict=False):
        got = _smooth([sample.delivered[name] for sample in played.samples])
        axis.plot(seconds, got, color=colour, lw=1, label=name)
    axis.set_ylabel("messages/s")
    axis.legend(fontsize=8, ncols=3)


def _queue(axis: Any, played: Played, *, leaf: str, link: str) -> None:
    del leaf
    seconds = [sample.second for sample in played.samples]
    axis.plot(seconds, [sample.queues[link] / KB for sample in played.samples], color=COLOURS[1])
    axis.set_ylabel(f"KB before {link}")


def _window(axis: Any, played: Played, *, leaf: str, link: str) -> None:
    del link
    seconds = [sample.second for sample in played.samples]
    for number, colour in enumerate(COLOURS[1:5]):
        window = [1_000 * sample.nack_window[leaf][number] for sample in played.samples]
        axis.plot(seconds, window, color=colour, lw=1, label=f"pubend {number + 1}")
    axis.set_ylabel("NACK window,\ntick-ms")
    axis.legend(fontsize=8, ncols=4)


def _horizon(axis: Any, played: Played, *, leaf: str, link: str) -> None:
    del link
    seconds = [sample.second for sample in played.samples]
    axis.plot(seconds, [min(sample.horizon_rate[leaf]) for sample in played.samples], color=COLOURS[1])
    recovering = [bool(sample.recovering[leaf]) for sample in played.samples]
    axis.fill_between(seconds, 0, 1, where=recovering, alpha=0.15, transform=axis.get_xaxis_transform())
    axis.set_ylabel(f"doubt horizon of {leaf},\ntick-s/s (shaded: recovers)")


def _alerts(axis: Any, played: Played, *, leaf: str, link: str) -> None:
    del leaf, link
    for name, colour in (("keeping", COLOURS[1]), ("recovering", COLOURS[0])):
        points = [(one.second, getattr(one, name)) for one in played.alerts if isfinite(getattr(one, name))]
        axis.plot(
            [second for second, _ in points],
            [rate for _, rate in points],
            linestyle="none",
            marker=".",
            ms=3,
            color=colour,
            label=f"{name} nodes",
        )
    axis.set_ylabel("rates in alerts\nat PB, tick-s/s")
    axis.legend(fontsize=8)
