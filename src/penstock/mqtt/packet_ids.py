"""Packet identifiers: 1 to 65,535, each used by one packet at a time."""

from __future__ import annotations

from typing import Final

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

    def claim(self, packet_id: int) -> None:
        """Use this very one, as a stored session says."""
        assert 0 < packet_id <= MOST, packet_id
        self._used.add(packet_id)
        self._last = packet_id

    def free(self, packet_id: int) -> None:
        """It may be given out again."""
        self._used.discard(packet_id)
