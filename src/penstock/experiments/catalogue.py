"""The experiments by name; a module is loaded when its experiment is run."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final, Protocol, cast

if TYPE_CHECKING:
    from pathlib import Path

    from penstock.experiments.outcome import Outcome, Progress


class Experiment(Protocol):
    """What every experiment module offers as `reproduce`."""

    def __call__(
        self, *, seed: int, quick: bool, out: Path | None, progress: Progress, **options: str
    ) -> Outcome:
        """Run it; pictures go to `out`, if given, and `options` are those of OPTIONS that were."""
        ...


EXPERIMENTS: Final = {
    "pack-fig8": "penstock.experiments.pack_fig8",
    "pack-fig11": "penstock.experiments.pack_fig11",
    "ward": "penstock.experiments.ward",
    "phones": "penstock.experiments.phones",
    "web-feed": "penstock.experiments.web_feed",
    "corona-table2": "penstock.experiments.corona_table2",
    "corona-figures": "penstock.experiments.corona_figures",
    "corona-deployment": "penstock.experiments.corona_deployment",
    "rbf-figures": "penstock.experiments.rbf_figures",
    "ces-overload": "penstock.experiments.ces_overload",
    "gryphon-collapse": "penstock.experiments.gryphon_collapse",
    "gryphon-e1": "penstock.experiments.gryphon_e1",
    "gryphon-e2": "penstock.experiments.gryphon_e2",
    "gryphon-e3": "penstock.experiments.gryphon_e3",
    "gryphon-e4": "penstock.experiments.gryphon_e4",
    "streams-kill": "penstock.experiments.streams_kill",
}
"""Name → module."""

LIVE: Final = {
    "gryphon-e1": "penstock.experiments.gryphon_live_e1",
    "gryphon-e2": "penstock.experiments.gryphon_live_e2",
}
"""Those that can be run between real nodes, too."""


OPTIONS: Final = {"streams-kill": ("rounds", "log", "spark")}
"""Name → options that this experiment has beside those of all."""


def load(module: str) -> Experiment:
    """The experiment of a module."""
    return cast("Experiment", import_module(module).reproduce)
