"""Readings of a log begin small, and then have about as many bytes as an answer may have."""

from __future__ import annotations

import pytest

from penstock import limits
from penstock.core.streams.log import MemoryLog
from penstock.core.streams.messages import Data, Nack
from penstock.core.streams.options import StreamOptions
from penstock.core.streams.pubend import Pubend
from penstock.core.streams.read_size import FEW, ReadSize

SMALL, LARGE = bytes(100), bytes(1 << 20)
NOW_US = 1_000_000_000


class Counted(MemoryLog):
    """Keeps how many messages each reading had."""

    def __init__(self) -> None:
        super().__init__()
        self.readings: list[int] = []

    def read(self, since: int, until: int, most: int) -> list[tuple[int, bytes]] | None:
        found = super().read(since, until, most)
        self.readings.append(len(found or ()))
        return found


def test_it_grows_with_what_is_small_and_shrinks_with_what_is_large() -> None:
    size = ReadSize()
    sizes = []
    for body in (SMALL, SMALL, SMALL, SMALL, LARGE, LARGE, SMALL, bytes(limits.STREAM_FETCH_BYTES // 3)):
        size.came([(tick, body) for tick in range(size.messages)])
        sizes.append(size.messages)
    assert sizes == [32, 128, 256, 256, 1, 1, 4, 3]


@pytest.mark.parametrize("found", [[], [(1, SMALL)], [(1, b"")] * (FEW - 1)])
def test_a_reading_that_is_not_full_does_not_let_it_grow(found: list[tuple[int, bytes]]) -> None:
    size = ReadSize()
    size.came(found)
    assert size.messages == FEW


@pytest.mark.parametrize(
    ("body", "readings"),
    [(LARGE, [FEW] + 32 * [1]), (SMALL, [FEW, 32, 128] + 7 * [256] + [40])],
    ids=["large", "small"],
)
def test_a_nack_is_answered_in_readings_of_few_bytes(body: bytes, readings: list[int]) -> None:
    count = sum(readings)
    log = Counted()
    pubend = Pubend("p", log, StreamOptions(), now_us=NOW_US)
    first = pubend.publish_many([body] * count, now_us=NOW_US)
    until, claimed = log.commit()
    pubend.committed(until, claimed=claimed, now_us=NOW_US)
    pubend.outgoing()
    log.readings.clear()
    told: list[int] = []
    while len(told) < count:
        pubend.receive(Nack("p", ((first + len(told), until),)), now_us=NOW_US)
        told += [one.tick for one in pubend.outgoing() if isinstance(one, Data)]
    assert told == list(range(first, until))
    assert [one for one in log.readings if one] == readings
