"""The benchmarks by name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from penstock.bench import policy

if TYPE_CHECKING:
    from penstock.bench.outcome import Outcome, Progress


class Benchmark(Protocol):
    """What every benchmark module offers as `measure`."""

    def __call__(self, *, quick: bool, progress: Progress) -> Outcome:
        """Run it."""
        ...


BENCHMARKS: Final[dict[str, tuple[str, Benchmark]]] = {
    policy.NAME: ("ns per event for packing a queue, against a hand-written loop", policy.measure),
}
"""Name → (what it measures, how to run it)."""
