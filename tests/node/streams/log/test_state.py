"""What a node keeps of its streams beside their logs."""

from __future__ import annotations

import asyncio
import sqlite3
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock import limits
from penstock.errors import StoreError
from penstock.node.streams.log.state import FILE, StateFile
from tests.kit.stream_state import commit

if TYPE_CHECKING:
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
def test_it_is_a_dictionary(changes: list[tuple[str, int, bytes | None] | str]) -> None:
    """Whatever is written down of it at whatever moments."""

    async def go() -> None:
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

    asyncio.run(go())
