"""State of streams that a node keeps beside their logs."""

from __future__ import annotations

import asyncio
import sqlite3
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock import limits
from penstock.errors import StoreError
from penstock.node.streams.log.state import FILE, StateFile, StateTable
from tests.kit.stream_state import commit

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


async def durable(state: StateFile) -> None:
    done = asyncio.Event()
    state.when_durable(done.set)
    async with asyncio.timeout(120):
        await done.wait()


def test_values_survive(tmp_path: Path) -> None:
    async def before() -> None:
        state = StateFile(tmp_path / FILE)
        state.put("cursor", ("client", "orders"), b"1")
        state.start()
        state.put("cursor", ("client", "orders"), b"2")
        state.put("cursor", ("client",), b"3")
        state.put("other", ("client", "orders"), b"4")
        state.put("other", ("", "a\x00b"), b"")
        assert state.load("cursor") == [(("client",), b"3"), (("client", "orders"), b"2")]
        await durable(state)
        state.remove("cursor", ("client",))
        state.remove("cursor", ("never",))
        assert state.load("cursor") == [(("client", "orders"), b"2")]
        await state.close()

    async def after() -> None:
        state = StateFile(tmp_path / FILE)
        assert state.load("cursor") == [(("client", "orders"), b"2")]
        assert state.load("other") == [(("", "a\x00b"), b""), (("client", "orders"), b"4")]
        assert state.load("nothing") == []
        await state.close()

    asyncio.run(before())
    asyncio.run(after())


async def test_whoever_waits_is_called_after_the_disk(tmp_path: Path) -> None:
    state = StateFile(tmp_path / FILE)
    state.start()
    second = sqlite3.connect(tmp_path / FILE)
    said: list[int] = []

    def told() -> None:
        said.extend(count for (count,) in second.execute("SELECT COUNT(*) FROM state"))

    state.when_durable(told)
    assert said == [0]  # nothing waited
    state.put("t", ("1",), b"")
    state.when_durable(told)
    await asyncio.sleep(0)
    await asyncio.sleep(0)  # the first is being written
    state.put("t", ("2",), b"")
    state.when_durable(told)
    assert said == [0]
    await durable(state)
    assert said in ([0, 1, 2], [0, 2, 2])
    second.close()
    await state.close()


def test_who_fails_keeps_no_others_waiting(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def go() -> None:
        state = StateFile(tmp_path / FILE)
        state.start()
        told: list[int] = []
        state.put("t", ("1",), b"")
        state.when_durable(lambda: told.extend([1 // len(told)]))
        state.when_durable(lambda: told.append(2))
        await state.close()
        assert told == [2]

    asyncio.run(go())
    assert "ZeroDivisionError" in caplog.text


def test_a_full_disk_acknowledges_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(limits, "JOURNAL_RETRY_S", 0.02)

    async def go() -> None:
        state = StateFile(tmp_path / FILE)
        state.start()
        state._database.rows("PRAGMA max_page_count = 8")
        said: list[str] = []
        state.put("t", ("large",), bytes(100_000))
        state.when_durable(lambda: said.append("large"))
        await asyncio.sleep(0.1)
        assert "disk is full; free some space" in state.fault
        state.put("t", ("small",), b"s")
        state.when_durable(lambda: said.append("small"))
        await asyncio.sleep(0.1)
        assert not said
        assert [key for key, _ in state.load("t")] == [("large",), ("small",)]
        state._database.rows("PRAGMA max_page_count = 1000")
        await durable(state)
        assert said == ["large", "small"]
        assert state.fault == ""
        state._database.rows("PRAGMA max_page_count = 30")
        state.put("t", ("last",), bytes(100_000))
        with pytest.raises(StoreError, match=r"1 values could not be written: .*disk is full"):
            await state.close()

    asyncio.run(go())
    assert caplog.text.count("trying again") == 2
    assert "can be written again" in caplog.text


def test_a_file_of_another_version_is_refused(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / FILE) as other:
        other.execute("PRAGMA user_version = 9")
    other.close()
    with pytest.raises(StoreError, match=r"streams\.sqlite: version 9 of the store; this is 1"):
        StateFile(tmp_path / FILE)


change = st.tuples(st.sampled_from("ab"), st.integers(0, 3), st.one_of(st.none(), st.binary(max_size=3)))


@given(st.lists(st.one_of(change, st.just("commit"))))
async def test_it_is_a_dictionary(changes: list[tuple[str, int, bytes | None] | str]) -> None:
    """Whatever is written down of it at whatever moments."""
    state = StateFile(None)
    model: dict[tuple[str, int], bytes] = {}
    for one in changes:
        if isinstance(one, str):
            commit(state)
            continue
        table, number, value = one
        if value is None:
            model.pop((table, number), None)
            state.remove(table, (str(number),))
        else:
            model[table, number] = value
            state.put(table, (str(number),), value)
        for each in "ab":
            expected = [((str(n),), value) for (t, n), value in sorted(model.items()) if t == each]
            assert state.load(each) == expected
    await state.close()


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
