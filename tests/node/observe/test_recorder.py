"""The recorder: what it writes, how much it keeps, and a disk that is full."""

from __future__ import annotations

import asyncio
import builtins
import errno
import logging
import shutil
import time
from collections import namedtuple
from contextlib import asynccontextmanager
from time import monotonic
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow.parquet as pq
import pytest

from penstock import Client, limits
from penstock.errors import MissingTool, NodeError
from penstock.model.event import Event
from penstock.model.recording import TakenMark, mark_name
from penstock.mqtt.packets.properties import Properties
from penstock.node.config.read import LoadedConfig
from penstock.node.config.schema import Config, Http, RecorderSettings
from penstock.node.observe import metrics
from penstock.node.observe.recorder import Recorder
from penstock.node.observe.status import Observed
from penstock.node.service import Node
from penstock.node.store.parquet import EVENTS, RecordFiles
from penstock.pipeline.tables.files import read_table
from tests.kit.peer import node, run
from tests.kit.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from penstock.node.broker.broker import Broker

Usage = namedtuple("Usage", "total used free")  # noqa: PYI024  # what shutil.disk_usage gives


@pytest.fixture(autouse=True)
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing waits for long."""
    monkeypatch.setattr(limits, "RECORD_LATEST_S", 0.02)
    monkeypatch.setattr(limits, "RECORD_RETRY_S", 0.02)


@asynccontextmanager
async def recording(folder: Path, **settings: Any) -> AsyncIterator[tuple[Broker, Recorder]]:
    async with node() as running:
        recorder = Recorder(RecorderSettings(topics=("ward/#",), **settings), str(folder))
        recorder.start(running.broker)
        try:
            yield running.broker, recorder
        finally:
            await recorder.close()
            assert recorder.status().balanced


def files(folder: Path) -> list[Path]:
    return sorted((folder / "recorded").glob("*.parquet"))


def rows(folder: Path) -> list[dict[str, Any]]:
    return [row for path in files(folder) for row in pq.read_table(path).to_pylist()]


def payloads(folder: Path) -> list[bytes]:
    return [row["payload"] for row in rows(folder)]


def some(count: int, start: int = 0) -> list[bytes]:
    return [b"%d" % number for number in range(start, start + count)]


def publish(broker: Broker, *bodies: bytes) -> None:
    for body in bodies:
        broker.publish("ward/1", body)


def test_every_message_of_the_topics_with_all_that_spark_reads(tmp_path: Path) -> None:
    async def test() -> None:
        async with recording(tmp_path) as (broker, _):
            properties = Properties(content_type="application/json", user=(("unit", "bpm"), ("unit", "ü")))
            broker.publish("ward/1", b'{"pulse": 70}', properties=properties)
            broker.publish("ward/2", b"\xff\x00")
            broker.publish("elsewhere", b"no")
        assert not [path for path in (tmp_path / "recorded").iterdir() if path.name.startswith(".")]

    run(test())
    first, second = rows(tmp_path)
    assert (first["topic"], first["payload"], first["sender"], first["seq"]) == (
        "ward/1",
        b'{"pulse": 70}',
        "$node",
        1,
    )
    assert first["properties"] == [("unit", "bpm"), ("unit", "ü")]
    assert first["content_type"] == "application/json"
    assert (second["payload"], second["properties"], second["content_type"]) == (b"\xff\x00", [], "")
    assert second["ts"] >= first["ts"] > 1_700_000_000_000_000


def test_messages_of_clients_are_recorded_in_order_and_once(tmp_path: Path) -> None:
    async def test() -> None:
        async with node() as running, Client(f"mqtt://127.0.0.1:{running.port}", client_id="s") as client:
            recorder = Recorder(RecorderSettings(topics=("ward/#", "ward/+", "ward/1")), str(tmp_path))
            recorder.start(running.broker)
            for number in range(300):
                await client.publish("ward/1", str(number), qos=number % 3)
            await client.publish("end", qos=1)
            await recorder.close()
            assert recorder.status().seen == recorder.status().recorded == 300

    run(test())
    assert payloads(tmp_path) == some(300)
    assert {row["sender"] for row in rows(tmp_path)} == {"s"}
    assert [row["seq"] for row in rows(tmp_path)] == sorted(row["seq"] for row in rows(tmp_path))


def test_a_file_ends_after_so_many_events(tmp_path: Path) -> None:
    async def test() -> None:
        async with recording(tmp_path, rotate_events=40) as (broker, recorder):
            publish(broker, *some(100))
            await until(lambda: recorder.status().recorded == 100)
            assert [pq.read_metadata(path).num_rows for path in files(tmp_path)] == [40, 40]
            assert recorder.status().files == 2

    run(test())
    assert [pq.read_metadata(path).num_rows for path in files(tmp_path)] == [40, 40, 20]
    assert payloads(tmp_path) == some(100)


def test_a_file_ends_after_some_time(tmp_path: Path) -> None:
    async def test() -> None:
        async with recording(tmp_path, rotate_s=1) as (broker, _):
            publish(broker, b"0")
            await until(lambda: files(tmp_path))
            publish(broker, b"1")

    run(test())
    assert payloads(tmp_path) == some(2)


def test_the_first_files_end_soon_and_the_next_are_twice_as_old(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "RECORD_FIRST_S", 0.1)

    async def test() -> None:
        async with recording(tmp_path, rotate_s=300) as (broker, recorder):
            for number in range(3):
                publish(broker, b"%d" % number)
                await until(lambda: recorder.status().files == number + 1)  # noqa: B023  # awaited here

    before = monotonic()
    run(test())
    assert monotonic() - before >= 0.1 + 0.2 + 0.4
    assert payloads(tmp_path) == some(3)


def test_the_oldest_files_go(tmp_path: Path) -> None:
    async def test() -> None:
        async with recording(tmp_path, rotate_events=10, keep_bytes=1) as (broker, recorder):
            publish(broker, *some(30))
            await until(lambda: recorder.status().files == 3)
            assert recorder.status().deleted == 2

    run(test())
    assert payloads(tmp_path) == some(10, 20)


def test_what_the_disk_is_too_slow_for_is_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def test() -> None:
        async with recording(tmp_path, buffer_events=50) as (broker, recorder):
            publish(broker, *some(80))
            assert (recorder.status().waiting, recorder.status().dropped) == (50, 30)
            assert recorder.status().balanced
            await until(lambda: recorder.status().recorded == 50)
            monkeypatch.setattr(limits, "RECORD_BYTES", 100)
            broker.publish("ward/1", bytes(101))
            assert recorder.status().dropped == 31
            monkeypatch.undo()
            publish(broker, b"50")

    run(test())
    assert payloads(tmp_path) == [*some(50), b"50"]
    assert "the disk does not keep up" in caplog.text
    assert "30 events were not recorded" in caplog.text


def test_a_full_disk_pauses_the_recording_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    free = [1 << 40]
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(0, 0, free[0]))

    async def test() -> None:
        async with recording(tmp_path, buffer_events=20) as (broker, recorder):
            publish(broker, *some(10))
            await until(lambda: recorder.status().recorded == 10)
            free[0] = 15 << 20
            publish(broker, *some(10, 10))
            await until(lambda: recorder.status().fault)
            assert "15 MiB are free" in recorder.status().fault
            assert broker.status().account.balanced
            assert payloads(tmp_path) == some(10)  # the file that was begun is finished
            publish(broker, *some(30, 20))
            assert (recorder.status().waiting, recorder.status().dropped) == (20, 20)
            free[0] = 1 << 40
            await until(lambda: not recorder.status().fault)
            assert recorder.status().recorded == 30

    run(test())
    assert payloads(tmp_path) == some(30)
    assert "recording pauses: 15 MiB are free" in caplog.text
    assert "recording goes on" in caplog.text
    assert caplog.text.count("recording pauses") == 1


def test_a_file_that_cannot_be_written_is_given_up_and_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    write = pq.ParquetWriter.write_table
    broken = [False]

    def failing(self: Any, *arguments: Any, **options: Any) -> None:
        if broken[0]:
            raise OSError(errno.EIO, "Input/output error")
        write(self, *arguments, **options)

    monkeypatch.setattr(pq.ParquetWriter, "write_table", failing)

    async def test() -> None:
        async with recording(tmp_path) as (broker, recorder):
            publish(broker, *some(5))
            await until(lambda: recorder.status().recorded == 5)
            broken[0] = True
            publish(broker, *some(5, 5))
            await until(lambda: recorder.status().fault)
            assert recorder.status().balanced
            assert (recorder.status().lost, recorder.status().waiting) == (5, 5)
            broken[0] = False
            await until(lambda: recorder.status().recorded == 5)

    run(test())
    assert payloads(tmp_path) == some(5, 5)
    assert "recording pauses: Input/output error" in caplog.text
    assert "5 events of an unfinished file are lost" in caplog.text


def test_what_a_killed_node_left_is_cleared_away(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder = tmp_path / "recorded"
    folder.mkdir()
    left = folder / ".events-20260101T000000.000000Z.parquet.inprogress"
    left.write_bytes(b"PAR1")
    (folder / "mine.txt").write_text("not the recorder's")

    async def test() -> None:
        async with recording(tmp_path):
            pass

    run(test())
    assert [path.name for path in folder.iterdir()] == ["mine.txt"]
    assert f"{left}: unfinished file deleted" in caplog.text


def test_a_reader_gets_what_was_just_recorded(tmp_path: Path) -> None:
    async def test() -> None:
        async with recording(tmp_path) as (broker, recorder):
            publish(broker, *some(5))
            await until(lambda: recorder.status().recorded == 5)
            assert not files(tmp_path)  # the file is being written
            table = await asyncio.to_thread(read_table, str(tmp_path / "recorded"), "parquet")
            assert table["payload"].to_pylist() == some(5)
            publish(broker, *some(5, 5))
            await until(lambda: recorder.status().recorded == 10)
            table = await asyncio.to_thread(read_table, str(tmp_path / "recorded"), "parquet")
            assert table.num_rows == 10

    run(test())
    assert len(files(tmp_path)) == 2
    assert not list((tmp_path / "recorded").glob(".*"))


def mark(folder: Path, pipeline: str, through: str, *, at_us: int | None = None) -> Path:
    found = TakenMark(
        pipeline="p", through=through, at_us=time.time_ns() // 1_000 if at_us is None else at_us
    )
    path = folder / mark_name(pipeline)
    path.write_bytes(msgspec.json.encode(found))
    return path


def test_a_file_is_deleted_only_when_every_pipeline_has_read_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "recorded"
    folder.mkdir()
    record = RecordFiles(folder, EVENTS, rotate_events=1, keep_bytes=1)
    events = [Event("ward/1", b"x", ts_us=number) for number in range(1, 6)]
    slow = mark(folder, "slow", "")
    mark(folder, "given-up", "", at_us=1)  # so old that it holds nothing
    (folder / mark_name("broken")).write_text("{")
    for event in events[:3]:
        assert not record.record([event], finish=False).deleted
    assert len(files(tmp_path)) == 3
    assert "a pipeline has not read" in caplog.text
    mark(folder, "fast", files(tmp_path)[2].name)
    mark(folder, "slow", files(tmp_path)[0].name)
    first = files(tmp_path)[0]
    assert record.record(events[3:4], finish=False).deleted == (first,)
    slow.unlink()
    assert len(record.record(events[4:], finish=False).deleted) == 2
    assert len(files(tmp_path)) == 2


@pytest.mark.parametrize(
    ("newest", "next_"),
    [
        ("events-29990101T000000.999999Z.parquet", "events-29990101T000001.000000Z.parquet"),
        ("events-copy.parquet", None),  # not the recorder's own
        ("events-99991231T235959.999999Z.parquet", None),  # nothing is later
    ],
)
def test_a_clock_that_is_set_back_names_no_file_before_others(
    tmp_path: Path, newest: str, next_: str | None
) -> None:
    folder = tmp_path / "recorded"
    folder.mkdir()
    (folder / newest).write_bytes(b"")
    record = RecordFiles(folder, EVENTS, rotate_events=1, keep_bytes=1 << 20)
    record.record([Event("ward/1", b"x", ts_us=1)], finish=False)
    (made,) = {path.name for path in files(tmp_path)} - {newest}
    assert next_ is None or made == next_


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "recorded").write_text("a file")
    with pytest.raises(NodeError, match="recorded: cannot be recorded to: File exists"):
        Recorder(RecorderSettings(topics=("a",)), str(tmp_path))


def test_without_pyarrow_it_says_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    importing = builtins.__import__

    def without(name: str, *rest: Any) -> Any:
        if name.startswith("pyarrow"):
            raise ImportError(name)
        return importing(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(MissingTool, match=r"pip install 'penstock\[spark\]'"):
        Recorder(RecorderSettings(topics=("a",)), str(tmp_path))


def test_a_node_records_as_it_is_configured(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)

    async def test() -> None:
        config = Config(
            data=str(tmp_path / "data"),
            listeners=(),
            http=Http(enabled=False),
            recorder=RecorderSettings(topics=("a", "b/#"), folder="kept"),
        )
        async with Node(LoadedConfig(config)) as running:
            running.broker.publish("b/1", b"x")
            status = running.observed.status().recorder
            assert status is not None
            assert (status.seen, status.folder) == (1, str(tmp_path / "data" / "kept"))

    run(test())
    (path,) = (tmp_path / "data" / "kept").glob("*.parquet")
    assert pq.read_table(path)["payload"].to_pylist() == [b"x"]
    assert f"recording a, b/# to {tmp_path / 'data' / 'kept'}" in caplog.text
    assert f"{path}: 1 events are recorded" in caplog.text


async def test_a_node_that_cannot_record_does_not_start(tmp_path: Path) -> None:
    (tmp_path / "recorded").write_text("a file")
    config = Config(data=str(tmp_path), listeners=(), recorder=RecorderSettings(topics=("a",)))
    with pytest.raises(NodeError, match="cannot be recorded to"):
        await Node(LoadedConfig(config)).start()


async def test_its_figures_are_among_the_metrics(tmp_path: Path) -> None:
    async with recording(tmp_path) as (broker, recorder):
        observed = Observed(broker)
        assert b"penstock_recorder" not in metrics.text(observed.status())[0]
        observed.recorder = recorder
        publish(broker, *some(3))
        shown = metrics.text(observed.status())[0].decode()
        assert 'penstock_recorder_events{fate="seen"} 3.0' in shown
        assert "penstock_recorder_paused 0.0" in shown


def test_samples_of_a_node_without_a_data_folder_lie_beside_its_events(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)

    async def scenario() -> None:
        async with node() as running:
            settings = RecorderSettings(topics=("a/#",), folder=str(tmp_path / "there" / "events"))
            recorder = Recorder(settings, "")
            recorder.start(running.broker)
            await recorder.close()

    run(scenario())
    assert list(here.iterdir()) == []
    assert sorted(each.name for each in (tmp_path / "there").iterdir()) == ["events", "traces"]
