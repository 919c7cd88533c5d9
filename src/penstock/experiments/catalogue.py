"""The experiments by name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from penstock.experiments import pack_fig8, ward

if TYPE_CHECKING:
    from pathlib import Path

    from penstock.experiments.outcome import Outcome, Progress


class Experiment(Protocol):
    """What every experiment module offers as `reproduce`."""

    def __call__(self, *, seed: int, quick: bool, out: Path | None, progress: Progress) -> Outcome:
        """Run it; pictures go to `out`, if given."""
        ...


EXPERIMENTS: Final[dict[str, tuple[str, Experiment]]] = {
    pack_fig8.NAME: ("latency and loss of a packed queue before a slow link", pack_fig8.reproduce),
    ward.NAME: ("alarms of a ward through a slow link, with a policy and without", ward.reproduce),
}
"""Name → (what it shows, how to run it)."""
