"""The facts of a run, and a digest of them that is equal exactly if the runs were."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import xxhash

from penstock.errors import SimulationError

if TYPE_CHECKING:
    from collections.abc import Sequence


class Trace:
    """Facts in the order in which they happened; each is digested when it is recorded."""

    def __init__(self, *, keep: bool = True) -> None:
        self._facts: list[object] = []
        self._keep = keep
        self._count = 0
        self._hash = xxhash.xxh3_128()
        # Not sorted: if the order of a set leaks into a fact, two hash seeds must give two digests.
        self._encoder = msgspec.msgpack.Encoder()

    def __len__(self) -> int:
        return self._count

    @property
    def facts(self) -> Sequence[object]:
        """The facts; none if the trace was told not to keep them."""
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
