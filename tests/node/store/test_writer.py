"""The group commit: order, transactions, callbacks, and a disk that refuses."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING

import pytest

from penstock import limits
from penstock.errors import StoreError
from penstock.node.store.writer import GroupCommit

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "JOURNAL_RETRY_S", 0.01)


class Numbers:
    """A backlog of numbers, and the disk they go to."""

    def __init__(self) -> None:
        self.rows: list[int] = []
        self.disk: list[list[int]] = []
        """Transactions."""
        self.tries = 0
        self.full = False
        self.go_on = threading.Event()
        self.go_on.set()
        self.released = False
        self.commits: GroupCommit[list[int]] = GroupCommit(self, name="numbers", rows="numbers")

    def add(self, *numbers: int) -> None:
        self.rows += numbers
        self.commits.soon()

    @property
    def flat(self) -> list[int]:
        return [number for rows in self.disk for number in rows]

    async def close(self) -> None:
        def release() -> None:
            self.released = True

        await self.commits.close(release)

    def pending(self) -> int:
        return len(self.rows)

    def take(self) -> list[int] | None:
        rows, self.rows = self.rows, []
        return rows or None

    def write(self, work: list[int]) -> None:
        self.go_on.wait(60)
        self.tries += 1
        if self.full:
            raise StoreError("disk is full", "numbers")
        self.disk.append(work)

    def written(self, work: list[int]) -> None:
        pass

    def put_back(self, work: list[int]) -> None:
        self.rows = [*work, *self.rows]


@pytest.fixture
def numbers() -> Iterator[Numbers]:
    made = Numbers()
    yield made
    made.go_on.set()


async def failed(numbers: Numbers, times: int = 1) -> None:
    async with asyncio.timeout(60):
        while numbers.tries < times or not numbers.commits.fault:
            await asyncio.sleep(0.001)


async def test_what_comes_during_a_transaction_is_the_next_one(numbers: Numbers) -> None:
    numbers.add(0)
    numbers.commits.start()
    numbers.go_on.clear()
    numbers.add(1)
    await asyncio.sleep(0.01)
    numbers.add(2)
    await asyncio.sleep(0.01)
    numbers.add(3)
    assert (numbers.commits.rows, numbers.commits.behind) == (4, True)
    numbers.go_on.set()
    await numbers.commits.committed()
    assert numbers.disk == [[0, 1], [2, 3]]
    await numbers.close()
    assert numbers.released
    assert not numbers.commits.behind


async def test_callbacks_are_called_in_order_after_what_was_added_before_them(numbers: Numbers) -> None:
    numbers.commits.start()
    called: list[tuple[str, list[int]]] = []

    def call(name: str) -> None:
        numbers.commits.after_commit(lambda: called.append((name, numbers.flat)))

    call("nothing before")
    numbers.add(1)
    call("1")
    await asyncio.sleep(0)
    assert [name for name, _ in called] == []
    numbers.add(2)
    call("2")
    call("2 again")
    assert numbers.commits.waiting == 4
    await numbers.commits.committed()
    assert [name for name, _ in called] == ["nothing before", "1", "2", "2 again"]
    assert all(int(name[0]) in on_disk for name, on_disk in called[1:])
    call("nothing more")
    assert len(called) == 4, "never within the same turn"
    await numbers.commits.committed()
    assert called[-1] == ("nothing more", [1, 2])
    await numbers.close()


async def test_a_callback_that_fails_keeps_no_other_waiting(
    numbers: Numbers, caplog: pytest.LogCaptureFixture
) -> None:
    numbers.commits.start()
    called: list[int] = []
    numbers.add(1)
    numbers.commits.after_commit(lambda: called.append(1 // 0))
    numbers.commits.after_commit(lambda: called.append(2))
    await numbers.commits.committed()
    assert called == [2]
    assert "ZeroDivisionError" in caplog.text
    await numbers.close()


async def test_a_disk_that_refuses_is_tried_again_in_order_and_said_once(
    numbers: Numbers, caplog: pytest.LogCaptureFixture
) -> None:
    numbers.commits.start()
    numbers.full = True
    called: list[int] = []
    for number in (1, 2):
        numbers.add(number)
        numbers.commits.after_commit(lambda number=number: called.append(number))  # type: ignore[misc]
        await failed(numbers, 3 * number)
    assert "disk is full" in numbers.commits.fault
    assert (called, numbers.commits.waiting, numbers.disk) == ([], 2, [])
    numbers.full = False
    await numbers.commits.committed()
    assert (numbers.flat, called, numbers.commits.fault) == ([1, 2], [1, 2], "")
    await numbers.close()
    assert caplog.text.count("trying again") == 1
    assert caplog.text.count("numbers: can be written again") == 1


async def test_now_begins_within_the_turn_unless_the_disk_refuses(
    numbers: Numbers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        limits, "JOURNAL_RETRY_S", 900
    )  # else a stalled machine makes the next attempt at once
    numbers.commits.start()
    numbers.add(1)
    numbers.commits.now()
    assert numbers.pending() == 0
    await numbers.commits.committed()
    numbers.full = True
    numbers.add(2)
    await failed(numbers)
    numbers.commits.now()
    assert numbers.pending() == 1, "it waits for the next attempt"
    numbers.full = False
    await numbers.close()
    assert numbers.flat == [1, 2]


async def test_choked_when_more_waits_than_the_bound(
    numbers: Numbers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "JOURNAL_ROWS", 2)
    numbers.commits.start()
    numbers.go_on.clear()
    numbers.add(1, 2)
    found = [numbers.commits.choked]
    await asyncio.sleep(0.01)
    numbers.add(3)
    found.append(numbers.commits.choked)  # what is being written counts
    numbers.go_on.set()
    await numbers.commits.committed()
    assert [*found, numbers.commits.choked] == [False, True, False]
    await numbers.close()


async def test_close_writes_the_rest_and_what_callbacks_add(numbers: Numbers) -> None:
    numbers.commits.start()
    numbers.add(1)
    numbers.commits.after_commit(lambda: numbers.add(2))
    numbers.commits.after_commit(lambda: numbers.commits.after_commit(lambda: numbers.add(3)))
    await numbers.close()
    assert numbers.flat == [1, 2, 3]


async def test_close_tries_once_more_and_tells_what_is_left(
    numbers: Numbers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "JOURNAL_RETRY_S", 60)
    numbers.commits.start()
    numbers.full = True
    numbers.add(1, 2)
    await failed(numbers)
    waiting = asyncio.create_task(numbers.commits.committed())
    await asyncio.sleep(0)
    with pytest.raises(StoreError, match="numbers: 2 numbers could not be written: numbers: disk is full"):
        await numbers.close()
    assert numbers.tries == 2
    assert numbers.released
    with pytest.raises(asyncio.CancelledError):
        await waiting


async def test_close_after_the_disk_came_back_loses_nothing(
    numbers: Numbers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "JOURNAL_RETRY_S", 60)
    numbers.commits.start()
    numbers.full = True
    numbers.add(1)
    await failed(numbers)
    numbers.full = False
    await numbers.close()
    assert numbers.flat == [1]


async def test_a_transaction_that_fails_while_it_closes_is_tried_once_more(numbers: Numbers) -> None:
    numbers.commits.start()
    numbers.full = True
    numbers.go_on.clear()
    numbers.add(1)
    await asyncio.sleep(0.01)
    closing = asyncio.create_task(numbers.close())
    await asyncio.sleep(0.01)
    numbers.go_on.set()
    with pytest.raises(StoreError):
        await closing
    assert numbers.tries == 2


async def test_nobody_waits_for_a_writer_that_is_closed(numbers: Numbers) -> None:
    numbers.commits.start()
    numbers.add(1)
    await numbers.close()
    async with asyncio.timeout(120):
        await numbers.commits.committed()
    numbers.add(2)
    async with asyncio.timeout(120):
        with pytest.raises(asyncio.CancelledError):
            await numbers.commits.committed()
    assert numbers.flat == [1]


async def test_a_writer_that_never_started_lets_go_of_its_file(numbers: Numbers) -> None:
    numbers.add(1)
    await numbers.close()
    assert (numbers.released, numbers.disk) == (True, [])


async def test_other_work_runs_in_the_thread_of_the_transactions(numbers: Numbers) -> None:
    numbers.commits.start()
    numbers.go_on.clear()
    numbers.add(1)
    await asyncio.sleep(0.01)
    found = asyncio.create_task(numbers.commits.run(lambda: numbers.flat))
    await asyncio.sleep(0.01)
    assert not found.done()
    numbers.go_on.set()
    assert await found == [1]
    await numbers.close()
