"""Packet identifiers: 1 to 65,535, each used by one packet at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

MOST: Final = 65_535


class PacketIds:
    """Gives out identifiers in turn, so that one just freed is not used again at once."""

    __slots__ = ("_last", "_used")

    def __init__(self) -> None:
        self._last = 0
        self._used: set[int] = set()

    def __len__(self) -> int:
        """How many are in use."""
        return len(self._used)

    def take(self) -> int:
        """One that is not in use; there must be one."""
        used = self._used
        packet_id = self._last % MOST + 1
        if packet_id in used:
            assert len(used) < MOST, "every packet identifier is in use; look at the window first"
            while packet_id in used:
                packet_id = packet_id % MOST + 1
        used.add(packet_id)
        self._last = packet_id
        return packet_id

    def take_many(self, count: int) -> list[int]:
        """So many that are not in use; there must be as many."""
        first = self._last + 1
        ids = range(first, first + count)
        if ids.stop > MOST or not self._used.isdisjoint(ids):
            return [self.take() for _ in ids]
        self._used.update(ids)
        self._last = ids.stop - 1
        return list(ids)

    def claim(self, packet_id: int) -> None:
        """Use this very one, as a stored session says."""
        assert 0 < packet_id <= MOST, packet_id
        self._used.add(packet_id)
        self._last = packet_id

    def hold(self, packet_id: int) -> None:
        """Keep it from being given out although nothing is sent under it now; `free` ends that."""
        self._used.add(packet_id)

    def free(self, packet_id: int) -> None:
        """It may be given out again."""
        self._used.discard(packet_id)

    def free_many(self, packet_ids: Iterable[int]) -> None:
        """They may be given out again."""
        self._used.difference_update(packet_ids)
