"""A simulated world: one seed, one clock, named random streams, named links, and the trace of the run.

The trace keeps the facts of a run and a digest of them; two digests are equal exactly if the runs were.
"""

from __future__ import annotations

from random import Random
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec
import xxhash

from penstock.errors import SimulationError
from penstock_lab.sim.clock import Clock, LocalClock
from penstock_lab.sim.link import Link, LinkOptions, LinkStatistics

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from penstock_lab.sim.faults import FaultOptions


class Trace:
    """Facts in the order in which they happened; each is hashed when it is recorded."""

    def __init__(self, *, keep: bool = True) -> None:
        self._facts: list[object] = []
        self._keep = keep
        self._count = 0
        self._hash = xxhash.xxh3_128()
        # Not sorted: if the order of a set leaks into a fact, two hash seeds must give two fingerprints.
        self._encoder = msgspec.msgpack.Encoder()

    def __len__(self) -> int:
        return self._count

    @property
    def facts(self) -> Sequence[object]:
        """The facts; empty if they are not kept."""
        return self._facts

    def record(self, fact: object) -> None:
        """Add a dataclass or a tuple of plain values; what has no stable bytes is refused."""
        try:
            line = self._encoder.encode((type(fact).__qualname__, fact))
        except (TypeError, OverflowError) as error:
            raise SimulationError(
                f"{fact!r} cannot be a fact: {error}; use dataclasses or tuples of numbers, text and bytes"
            ) from error
        self._hash.update(line)
        self._count += 1
        if self._keep:
            self._facts.append(fact)

    def fingerprint(self) -> str:
        """32 hexadecimal digits that depend on every fact so far and on their order."""
        return self._hash.hexdigest()


Message = TypeVar("Message")

SEEDS: Final = 1 << 64
"""Upper bound of a seed: XXH64, which takes it, has a seed of 64 bits."""


class World:
    """One simulated run; two worlds of one seed that are used alike have equal fingerprints."""

    def __init__(self, seed: int, *, keep_trace: bool = True) -> None:
        if not 0 <= seed < SEEDS:
            raise SimulationError(f"the seed is {seed}: give a number from 0 to {SEEDS - 1}")
        self.seed = seed
        self.clock = Clock()
        self._trace = Trace(keep=keep_trace)
        self._dice: dict[str, Random] = {}
        self._clocks: dict[str, LocalClock] = {}
        self._links: dict[str, Link[Any]] = {}

    @property
    def now_us(self) -> int:
        """The present moment."""
        return self.clock.now_us

    @property
    def links(self) -> Mapping[str, Link[Any]]:
        """The links by name, in the order of their making."""
        return MappingProxyType(self._links)

    @property
    def trace(self) -> Sequence[object]:
        """The facts so far, in order; empty if `keep_trace` is off."""
        return self._trace.facts

    def dice(self, name: str) -> Random:
        """Return the random generator of a name, which depends on seed and name only and is kept."""
        if name not in self._dice:
            # XXH64 and not hash(): the latter changes with PYTHONHASHSEED.
            seed = xxhash.xxh64_intdigest(name.encode(), seed=self.seed)
            self._dice[name] = Random(seed)  # noqa: S311 - repeatable on purpose, guards no secret
        return self._dice[name]

    def link(
        self,
        name: str,
        options: LinkOptions,
        *,
        deliver: Callable[[Message, int], None],
        on_ready: Callable[[int], None] | None = None,
        faults: FaultOptions | None = None,
    ) -> Link[Message]:
        """Open a link; its random generator is `link <name>`, and it writes into the trace."""
        if name in self._links:
            raise SimulationError(f"there is a link {name!r} already: give each its own name")
        link = Link(
            name,
            options,
            clock=self.clock,
            dice=self.dice(f"link {name}"),
            deliver=deliver,
            on_ready=on_ready,
            faults=faults,
            record=self.record,
        )
        self._links[name] = link
        return link

    def local_clock(self, name: str, faults: FaultOptions) -> LocalClock:
        """Return a node's own clock; its error is drawn by `clock <name>` within the faults' bounds."""
        if name in self._clocks:
            raise SimulationError(f"there is a clock {name!r} already: give each its own name")
        dice = self.dice(f"clock {name}")
        self._clocks[name] = LocalClock(
            self.clock,
            offset_us=round((2 * dice.random() - 1) * faults.clock_offset_us),
            drift_ppm=round((2 * dice.random() - 1) * faults.clock_drift_ppm),
        )
        return self._clocks[name]

    def record(self, fact: object) -> None:
        """Write a fact into the trace: a frozen dataclass, or a tuple of plain values."""
        self._trace.record(fact)

    def run(self, until_us: int) -> int:
        """Run up to and including a moment; return the steps."""
        return self.clock.run(until_us)

    def run_until_idle(self) -> int:
        """Run until nothing is planned; return the steps."""
        return self.clock.run_until_idle()

    def statistics(self) -> dict[str, LinkStatistics]:
        """A snapshot of every link."""
        return {name: link.statistics() for name, link in self._links.items()}

    def fingerprint(self) -> str:
        """Equal exactly if the traces are: compare it to prove a replay."""
        return self._trace.fingerprint()
