"""The broker's file: rows changed many at a time mean what they mean one by one."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from penstock.node.store import tables as sql
from penstock.node.store.database import Database
from penstock.node.store.tables import Store

if TYPE_CHECKING:
    from penstock.node.store.database import Row

PLACES = st.integers(1, 6)
CLIENTS = st.sampled_from(["a", "b"])
NUMBERS = st.integers(0, 3)
BODIES = st.binary(max_size=2)
ROWS = st.one_of(
    st.tuples(st.just(sql.PUT_MESSAGE), st.tuples(PLACES, CLIENTS, st.just("f"), NUMBERS, NUMBERS, BODIES)),
    st.tuples(st.just(sql.MOVE_MESSAGE), st.tuples(NUMBERS, NUMBERS, PLACES)),
    st.tuples(st.just(sql.END_MESSAGE), st.tuples(PLACES)),
    st.tuples(st.just(sql.END_MESSAGES), st.tuples(CLIENTS)),
    st.tuples(st.just(sql.PUT_SESSION), st.tuples(CLIENTS, BODIES)),
    st.tuples(st.just(sql.END_SESSION), st.tuples(CLIENTS)),
    st.tuples(st.just(sql.PUT_RECEIVED), st.tuples(CLIENTS, NUMBERS)),
    st.tuples(st.just(sql.END_RECEIVED), st.tuples(CLIENTS, NUMBERS)),
    st.tuples(st.just(sql.END_ALL_RECEIVED), st.tuples(CLIENTS)),
    st.tuples(st.just(sql.PUT_RETAINED), st.tuples(CLIENTS, BODIES)),
)


@given(transactions=st.lists(st.lists(ROWS, max_size=30), max_size=3))
def test_many_at_a_time_is_the_same_as_one_by_one(transactions: list[list[Row]]) -> None:
    with (
        TemporaryDirectory() as folder,
        closing(Store(Path(folder, "many"))) as many,
        closing(Store(Path(folder, "one"))) as one,
    ):
        for rows in transactions:
            many.write(rows)
            Database.write(one, rows)
            assert many.load() == one.load()


def test_more_rows_than_one_statement_takes(tmp_path: Path) -> None:
    with closing(Store(tmp_path / sql.STORE)) as store:
        places = range(1, 1_402)
        store.write([(sql.PUT_MESSAGE, (place, "c", "f", 0, 0, b"x")) for place in places])
        store.write([(sql.MOVE_MESSAGE, (2, place, place)) for place in places])
        assert [(row[0], row[3], row[4]) for row in store.load().messages] == [(n, 2, n) for n in places]
        store.write([(sql.END_MESSAGE, (place,)) for place in places if place % 700])
        assert [row[0] for row in store.load().messages] == [700, 1_400]
