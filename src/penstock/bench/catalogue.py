"""The benchmarks by name; a module is loaded when its benchmark is run."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final, Protocol, cast

if TYPE_CHECKING:
    from penstock.bench.outcome import Outcome, Progress


class Benchmark(Protocol):
    """What every benchmark module offers as `measure`."""

    def __call__(self, *, quick: bool, progress: Progress, **options: str) -> Outcome:
        """Run it; `options` are those of OPTIONS that were given."""
        ...


BENCHMARKS: Final = {
    "policy": "penstock.bench.policy",
    "node": "penstock.bench.node",
    "overload": "penstock.bench.overload",
    "attach": "penstock.bench.attach",
    "spark": "penstock.bench.spark",
    "polling": "penstock.bench.polling",
    "poller": "penstock.bench.poller",
    "allocate": "penstock.bench.allocate",
    "slots": "penstock.bench.slots",
    "diff": "penstock.bench.diff",
    "streams": "penstock.bench.streams",
}
"""Name → module."""


OPTIONS: Final = {"poller": ("channels",), "spark": ("events", "master", "remote", "memory")}
"""Name → options that this benchmark has beside those of all."""


def load(module: str) -> Benchmark:
    """The benchmark of a module."""
    return cast("Benchmark", import_module(module).measure)
