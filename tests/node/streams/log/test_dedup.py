"""Nothing that a publisher sends again is logged twice, and nothing new is taken for a repetition."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.streams.log import MemoryLog
from penstock.core.streams.wire import Record, encode_record
from penstock.node.streams.log import dedup as module
from penstock.node.streams.log.dedup import FORGOTTEN, MARKS, PublisherMarks
from penstock.node.streams.log.state import StateFile
from tests.kit.stream_state import commit

if TYPE_CHECKING:
    from penstock.node.streams.log.protocol import LoggedMessages


class Disk(MemoryLog):
    """A log that can be read before it is started."""

    async def fetch(self, since: int, until: int, most: int) -> LoggedMessages:
        return self.read(since, until, most) or []

    def commit_some(self, left: int) -> int:
        """All but the last messages are durable; behind those that are."""
        self._durable = max(self._durable, len(self._ticks) - left)
        return self._ticks[self._durable - 1] + 1 if self._durable else 0


def recovered(state: StateFile, log: Disk) -> PublisherMarks:
    marks = PublisherMarks(state, "orders")
    asyncio.run(marks.recover(log))  # type: ignore[arg-type]  # what it needs of a log
    return marks


class World:
    """A publisher's messages, the log and the state, driven by hand."""

    def __init__(self) -> None:
        self.log = Disk()
        self.state = StateFile(None)
        self.marks = PublisherMarks(self.state, "orders")
        self.tick = 1_000

    def send(self, origin: str, number: int, step: int = 1) -> int:
        self.tick += step
        self.log.append(self.tick, encode_record(Record("orders", b"x", origin=origin, number=number)))
        self.marks.note(origin, number, self.tick)
        return self.tick

    def commit_log(self, left: int = 0) -> int:
        until = self.log.commit_some(left)
        self.marks.committed(until)
        return until

    def commit_state(self) -> None:
        commit(self.state)

    def crash(self) -> None:
        self.log.crash()
        self.state._changes.clear()
        self.state._commits._waiting.clear()
        self.marks = recovered(self.state, self.log)


def test_a_writer_is_known_by_its_highest_number() -> None:
    world = World()
    assert not world.marks.seen("w:a", 1)
    first = world.send("w:a", 1)
    last = world.send("w:a", 2)
    assert [world.marks.seen("w:a", number) for number in (1, 2, 3)] == [True, True, False]
    assert not world.marks.seen("w:b", 1)
    assert (world.marks.highest("w:a"), world.marks.highest("w:b")) == (2, 0)
    assert world.marks.tick_of("w:a", 1) == last > first  # whoever waits for the last waits for all
    world.crash()
    assert not world.marks.seen("w:a", 1)  # nothing was durable
    world.send("w:a", 1)
    world.commit_log()
    world.send("w:a", 2)
    world.crash()
    assert [world.marks.seen("w:a", number) for number in (1, 2)] == [True, False]


def test_a_writer_is_forgotten() -> None:
    world = World()
    for number in (1, 2, 3):
        world.send("w:a", number)
    world.marks.forget_all("w:a")
    world.commit_log()
    world.commit_state()
    assert world.marks.highest("w:a") == 0
    world.crash()
    assert world.marks.highest("w:a") == 0
    world.send("w:a", 1)
    world.commit_log()
    world.crash()
    assert world.marks.highest("w:a") == 1


def test_a_packet_id_is_open_until_it_is_released() -> None:
    world = World()
    for number in (7, 8):
        world.send("c:a", number)
    world.commit_log()
    world.marks.forget("c:a", 7)
    assert not world.marks.seen("c:a", 7)
    assert world.marks.seen("c:a", 8)
    assert not world.marks.seen("c:b", 8)
    assert world.marks.clients() == {"c:a": [8]}
    world.crash()
    assert world.marks.seen("c:a", 7)  # the client was not told
    world.marks.forget("c:a", 7)
    world.commit_state()
    world.crash()
    assert world.marks.clients() == {"c:a": [8]}
    world.send("c:a", 7)  # another message with the same number
    world.commit_log()
    world.crash()
    assert sorted(world.marks.clients()["c:a"]) == [7, 8]
    world.marks.forget_all("c:a")
    world.commit_state()
    world.send("c:a", 9)
    world.commit_log()
    world.crash()
    assert world.marks.clients() == {"c:a": [9]}


def test_checkpoints_let_the_log_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CHECKPOINT_TICKS", 100)
    world = World()
    moved: list[int] = []
    world.marks.on_checkpoint = lambda: moved.append(world.marks.checkpoint_tick)
    for number in range(1, 51):
        world.send("w:a", number, step=10)
        world.send("c:b", number, step=10)
        world.commit_log()
        world.commit_state()
        world.log.trim(world.marks.checkpoint_tick)
        if number > 2:
            world.marks.forget("c:b", number - 2)
            world.commit_state()
    assert len(world.log) < 15  # the rest is in the state file
    assert len(world.state.load(FORGOTTEN)) < 10
    assert len(moved) > 5
    assert moved == sorted(set(moved))
    world.crash()
    assert world.marks.highest("w:a") == 50
    assert world.marks.clients() == {"c:b": [49, 50]}
    world.commit_log()  # nothing new: the rest goes into the state file, too
    world.commit_log()
    world.commit_state()
    assert world.marks.checkpoint_tick == world.tick + 1
    for number in (49, 50):
        world.marks.forget("c:b", number)
    world.commit_state()
    assert [key for key, _ in world.state.load(MARKS)] == [("orders", "w:a")]
    assert world.state.load(FORGOTTEN) == []


def test_a_state_that_cannot_be_written_holds_the_log(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CHECKPOINT_TICKS", 10)
    world = World()
    for number in range(1, 100):
        world.send("w:a", number, step=10)
        world.commit_log()
    assert world.marks.checkpoint_tick == 0
    assert world.state.waiting == 1  # they do not gather
    world.commit_state()
    assert world.marks.checkpoint_tick > 1_000
    world.crash()
    assert world.marks.highest("w:a") == 99


def test_logs_share_a_state_file() -> None:
    state = StateFile(None)
    logs = {name: Disk() for name in ("a", "b")}
    for at, (name, log) in enumerate(logs.items()):
        marks = PublisherMarks(state, name)
        log.append(5, encode_record(Record("t", b"", origin="w:x", number=at + 1)))
        marks.note("w:x", at + 1, 5)
        marks.committed(log.commit()[0])
        marks.committed(log.commit()[0])
    commit(state)
    for at, (name, log) in enumerate(logs.items()):
        marks = PublisherMarks(state, name)
        asyncio.run(marks.recover(log))  # type: ignore[arg-type]  # what it needs of a log
        assert marks.highest("w:x") == at + 1


def test_a_lost_state_file_is_told(caplog: pytest.LogCaptureFixture) -> None:
    world = World()
    for number in range(1, 10):
        world.send("w:a", number)
    world.commit_log()
    world.log.append(5_000, b"no record")
    world.log.commit()
    world.log.trim(1_005)
    assert recovered(StateFile(None), world.log).highest("w:a") == 9
    assert "marks were not stored" in caplog.text
    assert "stream 'orders', tick 5000: invalid stream record" in caplog.text


ORIGINS = ("w:a", "c:a", "c:b")

steps = st.one_of(
    st.tuples(st.just("send"), st.sampled_from(ORIGINS), st.integers(1, 2), st.integers(1, 80)),
    st.tuples(st.just("forget"), st.sampled_from(("c:a", "c:b")), st.integers(1, 2), st.just(0)),
    st.tuples(st.just("forget_all"), st.sampled_from(("c:a", "c:b")), st.just(0), st.just(0)),
    st.tuples(st.just("log"), st.just(""), st.integers(0, 2), st.just(0)),
    st.tuples(st.sampled_from(("state", "crash", "trim")), st.just(""), st.just(0), st.just(0)),
)


class Compared:
    """Compare what is known with what must be: everything durable, and no forgetting that was not durable."""

    def __init__(self) -> None:
        self.world = World()
        self.logged: list[tuple[int, str, int]] = []
        self.until = 0
        self.freed: list[tuple[str, int, int]] = []
        self.durable_freed = 0
        self.sent = dict.fromkeys(ORIGINS, 0)

    def send(self, origin: str, number: int, step: int) -> None:
        if origin.startswith("w:"):
            number = self.sent[origin] + 1
        if not self.world.marks.seen(origin, number):  # as a node does
            self.sent[origin] = number
            self.logged.append((self.world.send(origin, number, step), origin, number))

    def forget(self, origin: str, number: int, _: int) -> None:
        tick = self.world.marks.tick_of(origin, number)
        self.world.marks.forget(origin, number)
        if tick is not None:
            self.freed.append((origin, number, tick))

    def forget_all(self, origin: str, *_: int) -> None:
        self.world.marks.forget_all(origin)
        self.freed.append((origin, 0, self.world.tick))

    def log(self, _: str, left: int, __: int) -> None:
        self.until = max(self.until, self.world.commit_log(left))

    def state(self, *_: object) -> None:
        self.world.commit_state()
        self.durable_freed = len(self.freed)

    def trim(self, *_: object) -> None:
        self.world.log.trim(self.world.marks.checkpoint_tick)

    def crash(self, *_: object) -> None:
        self.world.crash()
        self.logged = [one for one in self.logged if one[0] < self.until]
        del self.freed[self.durable_freed :]
        self.sent = {each: self.world.marks.highest(each) for each in ORIGINS}

    def expected(self, origin: str, number: int) -> bool:
        last = 1 << 62 if origin.startswith("w:") else number
        ticks = [tick for tick, each, n in self.logged if each == origin and number <= n <= last]
        freed = [tick for each, n, tick in self.freed if each == origin and n in (0, number)]
        return bool(ticks) and max(ticks) > max(freed, default=-1)

    def check(self) -> None:
        for origin in ORIGINS:
            for number in (1, 2, self.sent[origin] or 1, self.sent[origin] + 1):
                assert self.world.marks.seen(origin, number) == self.expected(origin, number)


@given(st.lists(steps, min_size=80, max_size=160))
def test_any_crash_leaves_the_same_answers(found: list[tuple[str, str, int, int]]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "CHECKPOINT_TICKS", 100)  # a few messages instead of a second of them
        compared = Compared()
        for what, *details in found:
            getattr(compared, what)(*details)
            compared.check()
