"""Readings of a log are bounded by messages and by bytes, however large its messages become."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock import limits
from penstock.core.streams.log import MemoryLog, cut_short, safe_name
from penstock.core.streams.messages import Data, Nack
from penstock.core.streams.options import StreamOptions
from penstock.core.streams.pubend import Pubend
from penstock.errors import NodeError

TINY, SMALL, LARGE = b"", bytes(100), bytes(1 << 20)
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


@pytest.mark.parametrize(
    ("bodies", "most", "more"),
    [
        ([], 1, False),
        ([SMALL], 2, False),
        ([TINY], 1, True),
        ([LARGE], 2, True),
        ([SMALL, LARGE], 9, True),
        ([bytes(limits.STREAM_FETCH_BYTES - 1)], 2, False),
    ],
)
def test_it_is_known_whether_more_may_follow(bodies: list[bytes], most: int, more: bool) -> None:
    assert cut_short(list(enumerate(bodies)), most) is more


@pytest.mark.parametrize(
    ("bodies", "readings"),
    [
        ([LARGE] * 20, [1] * 20),
        ([SMALL] * 600, [256, 256, 88]),
        ([TINY] * 300 + [LARGE] * 20 + [SMALL] * 10, [256, 45] + [1] * 19 + [10]),
    ],
    ids=["large", "small", "tiny, then large"],
)
def test_a_nack_is_answered_in_readings_of_few_bytes(bodies: list[bytes], readings: list[int]) -> None:
    log = Counted()
    pubend = Pubend("p", log, StreamOptions(), now_us=NOW_US)
    first = pubend.publish_many(bodies, now_us=NOW_US)
    until, claimed = log.commit()
    pubend.committed(until, claimed=claimed, now_us=NOW_US)
    pubend.outgoing()
    log.readings.clear()
    told: list[int] = []
    while len(told) < len(bodies):
        pubend.receive(Nack("p", ((first + len(told), until),)), now_us=NOW_US)
        told += [one.tick for one in pubend.outgoing() if isinstance(one, Data)]
    assert told == list(range(first, until))
    assert [one for one in log.readings if one] == readings


@given(st.text(min_size=1, max_size=20), st.text(min_size=1, max_size=20))
def test_safe_names_differ_as_names_do(one: str, other: str) -> None:
    assert (safe_name(one) == safe_name(other)) == (one == other)
    assert not set(safe_name(one)) - set("abcdefghijklmnopqrstuvwxyz0123456789-_")


def test_safe_names() -> None:
    assert safe_name("orders-2") == "orders-2"
    assert safe_name("Orders/../x") == "_4frders_2f_2e_2e_2fx"
    with pytest.raises(NodeError, match="use one that is shorter"):
        safe_name("ö" * 100)
