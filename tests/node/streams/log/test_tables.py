"""Typed tables of the state file."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from penstock.errors import StoreError
from penstock.node.streams.log.state import StateFile
from penstock.node.streams.log.tables import StateTable

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def state() -> Iterator[StateFile]:
    made = StateFile(None)
    yield made
    made._database.close()


def test_values_come_back_with_their_type_and_in_the_order_of_keys(state: StateFile) -> None:
    table = StateTable(state, "marks", dict[int, int], width=2)
    StateTable(state, "other", int, width=1).put(("a",), 1)
    table.put(("b", "x"), {1: 2})
    table.put(("a", "y"), {})
    table.put(("a", "y"), {3: 4})
    table.put(("c", "z"), {5: 6})
    table.remove(("c", "z"))
    table.remove(("never", "there"))
    assert list(table.load().items()) == [(("a", "y"), {3: 4}), (("b", "x"), {1: 2})]


@pytest.mark.parametrize(
    ("key", "value", "problem"),
    [
        (("b",), b"not a number", "row ('b',) of table 'ticks': "),
        (("b", "c"), b"\x05", "row ('b', 'c') of table 'ticks': its key has 2 parts instead of 1"),
    ],
)
def test_a_row_that_cannot_be_read_is_refused_or_left_out(
    state: StateFile, caplog: pytest.LogCaptureFixture, key: tuple[str, ...], value: bytes, problem: str
) -> None:
    table = StateTable(state, "ticks", int, width=1)
    table.put(("a",), 7)
    state.put("ticks", key, value)
    with pytest.raises(StoreError) as caught:
        table.load()
    assert problem in str(caught.value)
    assert "move the file away" in str(caught.value)
    assert table.load(skip=True) == {("a",): 7}
    assert "is left out" in caplog.text
