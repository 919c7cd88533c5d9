"""The benchmarks by name; a module is loaded when its benchmark is run."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final, Protocol, cast

if TYPE_CHECKING:
    from penstock.bench.outcome import Outcome, Progress


class Benchmark(Protocol):
    """What every benchmark module offers as `measure`."""

    def __call__(self, *, quick: bool, progress: Progress) -> Outcome:
        """Run it."""
        ...


BENCHMARKS: Final = {"policy": "penstock.bench.policy"}
"""Name → module."""


def load(module: str) -> Benchmark:
    """The benchmark of a module."""
    return cast("Benchmark", import_module(module).measure)
