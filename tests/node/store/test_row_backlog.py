"""Rows that are changed, cancelled and struck out while they wait for the disk."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from penstock.node.store.row_backlog import RowBacklog

if TYPE_CHECKING:
    from collections.abc import Sequence
    from random import Random

    from penstock.node.store.database import Row


class Table:
    """Keeps what was written."""

    def __init__(self) -> None:
        self.rows: list[Row] = []

    def write(self, rows: Sequence[Row]) -> None:
        self.rows += rows


def subject(row: Row) -> str | None:
    """Rows of `put` are about their first parameter, others stand for themselves."""
    return str(row[1][0]) if row[0] == "put" else None


def backlog() -> RowBacklog:
    return RowBacklog(Table(), key=subject)


def test_a_row_can_be_changed_and_cancelled_until_it_is_taken() -> None:
    rows = backlog()
    rows.add("put", ("a",))
    rows.add_numbered(1, "message", (1, "x"))
    rows.add_numbered(2, "message", (2, "y"))
    rows.add_numbered(3, "message", (3, "z"))
    assert rows.fresh(2) == ("message", (2, "y"))
    rows.replace(2, ("message", (2, "Y")))
    assert rows.cancel(1)
    assert not rows.cancel(1)
    assert rows.fresh(1) is None
    work = rows.take()
    assert work == [("put", ("a",)), ("message", (2, "Y")), ("message", (3, "z"))]
    assert rows.fresh(3) is None
    assert not rows.cancel(3), "it may be on disk"


def test_what_was_cancelled_altogether_is_no_transaction() -> None:
    rows = backlog()
    rows.add_numbered(1, "message", (1,))
    rows.cancel(1)
    assert rows.pending() == 1
    assert rows.take() is None
    assert rows.pending() == 0


def test_rows_put_back_come_first_and_newer_ones_stay_fresh() -> None:
    rows = backlog()
    rows.add_numbered(1, "message", (1,))
    work = rows.take()
    assert work is not None
    rows.add_numbered(2, "message", (2,))
    rows.add_numbered(3, "message", (3,))
    rows.put_back(work)
    assert not rows.cancel(1), "it may be on disk"
    assert rows.cancel(2)
    assert rows.take() == [("message", (1,)), ("message", (3,))]


def test_of_rows_about_the_same_only_the_newest_is_tried_again() -> None:
    rows = backlog()
    for number in range(3):
        rows.add("put", ("a", number))
        rows.add("message", (number,))
    rows.add("put", ("b", 0))
    work = rows.take()
    assert work is not None
    rows.add("put", ("a", 3))
    rows.put_back(work)
    assert rows.take() == [
        *(("message", (number,)) for number in range(3)),
        ("put", ("b", 0)),
        ("put", ("a", 3)),
    ]


steps = st.lists(st.sampled_from(["add", "cancel", "commit", "fail"]), max_size=40)


@given(steps, st.randoms(use_true_random=False))
def test_every_row_is_written_once_unless_cancelled(found: list[str], dice: Random) -> None:
    table = Table()
    rows = RowBacklog(table, key=subject)
    number = 0
    wanted: dict[int, None] = {}
    for step in found:
        if step == "add":
            number += 1
            rows.add_numbered(number, "message", (number,))
            wanted[number] = None
        elif step == "cancel" and number:
            one = dice.randint(1, number)
            if rows.cancel(one):
                del wanted[one]
        else:
            work = rows.take()
            if work is not None and step == "commit":
                rows.write(work)
            elif work is not None:
                rows.put_back(work)
    rows.write(rows.take() or [])
    assert [parameters[0] for _, parameters in table.rows] == list(wanted)
