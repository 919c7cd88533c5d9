"""The source and the sink of streams without Spark's JVM: offsets, cuts, rows, columns."""

from __future__ import annotations

import pickle
import time
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa
import pytest
from pyspark.sql.datasource import CaseInsensitiveDict
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadMaxBytes,
    ReadMaxRows,
    ReadMinRows,
)
from pyspark.sql.types import (
    BinaryType,
    IntegerType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from penstock import limits
from penstock.client import StreamReader, StreamWriter
from penstock.errors import InputError, StreamRefused, Unreachable
from penstock.pipeline.connector import readers
from penstock.pipeline.connector.data_source import Penstock
from penstock.pipeline.connector.options import OPTIONS, SCHEMA, SinkOptions
from penstock.pipeline.connector.writers import StagedRows
from tests.kit.stream_programs import running

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.core.streams.requests import Figures
    from penstock.pipeline.connector.readers import BatchSource, StreamSource
    from penstock.pipeline.connector.writers import BatchSink
    from tests.kit.stream_programs import Running

T = TypeVar("T")

ALL = ReadAllAvailable()
OPENED: list[StreamSource] = []


@pytest.fixture
def node() -> Iterator[Running]:
    with running(hosts=2) as found:
        yield found
        while OPENED:
            OPENED.pop().stop()


def options(node: Running, **more: str) -> CaseInsensitiveDict:
    return CaseInsensitiveDict({"url": node.url, "stream": "s", "patience": "1", **more})


def source(node: Running, **more: str) -> StreamSource:
    OPENED.append(Penstock(options(node, **more)).streamReader(SCHEMA))
    return OPENED[-1]


def batch(node: Running, **more: str) -> BatchSource:
    return Penstock(options(node, **more)).reader(SCHEMA)


def write(node: Running, count: int, *, stream: str = "s", topic: str = "a/b", first: int = 0) -> None:
    with StreamWriter(node.url, stream, f"w{first}") as writer:
        for number in range(first, first + count):
            writer.write(topic, str(number))


def sent(one: T) -> T:
    """As on its way to a worker."""
    copy: T = pickle.loads(pickle.dumps(one))  # noqa: S301
    return copy


def payloads(reader: BatchSource | StreamSource, spans: list[Any]) -> list[bytes]:
    copy = sent(reader)
    return [
        payload
        for span in spans
        for found in copy.read(sent(span))
        for payload in found.column("payload").to_pylist()
    ]


def numbers(*span: int) -> list[bytes]:
    return [b"%d" % number for number in range(*span)]


def test_a_trigger_reads_what_came_since_the_last_one(node: Running) -> None:
    write(node, 3)
    reader = source(node)
    start = reader.initialOffset()
    assert reader.latestOffset(start, ALL) == start
    write(node, 4, first=10)
    end = reader.latestOffset(start, ALL)
    assert payloads(reader, reader.partitions(start, end)) == numbers(10, 14)
    assert reader.latestOffset(end, ALL) == end
    assert reader.partitions(end, end) == []


def test_the_same_offsets_have_the_same_rows(node: Running) -> None:
    write(node, 50)
    first, second = source(node, startingOffsets="earliest"), source(node, rowsPerPartition="7")
    start = first.initialOffset()
    end = first.latestOffset(start, ALL)
    write(node, 5, first=50)
    spans = second.partitions(start, end)
    assert len(spans) == 8
    assert payloads(first, first.partitions(start, end)) == payloads(second, spans) == numbers(50)


def test_columns_are_what_was_written(node: Running) -> None:
    with StreamWriter(node.url, "s", "shop") as writer:
        writer.write("a/b", b"\0", ts_us=1_000_001, content_type="text/plain", properties={"k": "v"})
    reader = batch(node)
    (found,) = [one for span in reader.partitions() for one in reader.read(span)]
    (row,) = found.to_pylist()
    assert row.pop("tick") > 0
    assert row == {
        "stream": "s",
        "topic": "a/b",
        "payload": b"\0",
        "ts": datetime(1970, 1, 1, 0, 0, 1, 1, tzinfo=UTC),
        "sender": "shop",
        "seq": 1,
        "qos": 1,
        "content_type": "text/plain",
        "properties": [("k", "v")],
    }


def test_a_limit_is_shared_by_the_streams(node: Running) -> None:
    write(node, 100)
    write(node, 10, stream="t", topic="t/b")
    reader = source(node, stream="s, t", startingOffsets="earliest", maxRowsPerTrigger="60")
    start = reader.initialOffset()
    assert reader.getDefaultReadLimit() == ReadMaxRows(60)
    end = reader.latestOffset(start, ReadMaxRows(60))
    rows = {
        name: len(payloads(reader, reader.partitions({name: start[name]}, {name: end[name]})))
        for name in "st"
    }
    assert rows == {"s": 50, "t": 10}
    rest = reader.latestOffset(end, ReadMaxRows(60))
    assert payloads(reader, reader.partitions(end, rest)) == numbers(50, 100)
    small = reader.latestOffset(start, ReadMaxBytes(2))
    assert len(payloads(reader, reader.partitions(start, small))) == 2
    assert reader.latestOffset(start, ReadMinRows(111)) == start
    assert reader.latestOffset(start, ReadMinRows(110)) != start


def test_fewer_rows_than_streams_are_taken_from_each_in_turn(node: Running) -> None:
    write(node, 20)
    write(node, 20, stream="t", topic="t/b")
    reader = source(node, stream="*", startingOffsets="earliest")
    at = reader.initialOffset()
    seen: dict[str, int] = {"s": 0, "t": 0}
    for _ in range(10):
        end = reader.latestOffset(at, ReadMaxRows(1))
        (span,) = reader.partitions(at, end)
        seen[span.stream] += len(payloads(reader, [span]))
        at = end
    assert seen["s"] + seen["t"] == 10
    assert min(seen.values()) > 0


def test_available_now_ends_where_it_began(node: Running) -> None:
    write(node, 30)
    reader = source(node, startingOffsets="earliest")
    start = reader.initialOffset()
    reader.prepareForTriggerAvailableNow()
    write(node, 5, first=30)
    middle = reader.latestOffset(start, ReadMaxRows(20))
    end = reader.latestOffset(middle, ReadMaxRows(20))
    assert reader.latestOffset(end, ReadMaxRows(20)) == end
    assert payloads(reader, reader.partitions(start, end)) == numbers(30)


def test_a_stream_that_is_new_to_a_query_is_read_from_its_beginning(node: Running) -> None:
    write(node, 3, stream="t", topic="t/b")
    reader = source(node, stream="*")
    start = {"s": source(node).initialOffset()["s"]}
    first = reader.latestOffset(start, ALL)
    assert reader.partitions(start, first) == []
    second = reader.latestOffset(first, ALL)
    assert payloads(reader, reader.partitions(first, second)) == numbers(3)


def test_silence_moves_the_offset_once_in_a_while(node: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    write(node, 1)
    reader = source(node, startingOffsets="earliest")
    rest = {"s": node.hosted.end}
    while node.hosted.end == rest["s"]:
        time.sleep(0.01)
    assert reader.latestOffset(rest, ALL) == rest
    monkeypatch.setattr(readers, "SILENCE", 0)
    assert reader.latestOffset(rest, ALL)["s"] > rest["s"]


def test_a_commit_moves_the_consumer(node: Running) -> None:
    write(node, 3)
    reader = source(node, startingOffsets="earliest", consumer="query")
    start = reader.initialOffset()
    assert node.call(node.server.figures)[0].place == start["s"]
    end = reader.latestOffset(start, ALL)
    reader.commit(end)
    assert node.call(node.server.figures)[0].place == end["s"]
    write(node, 2, first=3)
    again = source(node, consumer="query")
    assert again.initialOffset() == end


def test_a_query_that_goes_on_from_its_checkpoint_has_its_messages_kept(node: Running) -> None:
    """Its consumer is new, or was forgotten: nobody asks for the initial offset again."""
    write(node, 3)
    start = source(node, startingOffsets="earliest").initialOffset()
    source(node, consumer="first").latestOffset(start, ALL)
    source(node, consumer="second").partitions(start, start)
    places = {one.name: one.place for one in node.call(node.server.figures)}
    assert places == {"first": start["s"], "second": start["s"]}


def test_a_stream_that_is_new_to_a_query_is_kept_for_it(node: Running) -> None:
    write(node, 3, stream="t", topic="t/b")
    reader = source(node, stream="*", consumer="query")
    found = reader.latestOffset({"s": source(node).initialOffset()["s"]}, ALL)
    places = {one.stream: one.place for one in node.call(node.server.figures)}
    assert places["t"] == found["t"]


def test_a_query_begins_with_the_first_message_though_others_go_meanwhile(
    node: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(node, 10)
    with StreamReader(node.url, "s", start="earliest") as found:
        ticks = [next(found).tick for _ in range(10)]
    reader = source(node, startingOffsets="earliest", consumer="query")
    streams = reader._streams

    def then_trimmed() -> dict[str, Figures]:
        found = streams()
        node.trim(ticks[4])
        return found

    monkeypatch.setattr(reader, "_streams", then_trimmed)
    start = reader.initialOffset()
    monkeypatch.undo()
    end = reader.latestOffset(start, ALL)
    assert payloads(reader, reader.partitions(start, end)) == numbers(4, 10)
    told = f'{{"s": {ticks[0]}}}'
    with pytest.raises(InputError, match="set failOnDataLoss to false"):
        source(node, startingOffsets=told, consumer="strict").initialOffset()
    lax = source(node, startingOffsets=told, consumer="lax", failOnDataLoss="false")
    assert lax.initialOffset() == {"s": ticks[4]}


def test_messages_that_are_gone_fail_the_query_unless_told_not_to(
    node: Running, caplog: pytest.LogCaptureFixture
) -> None:
    write(node, 10)
    with StreamReader(node.url, "s", start="earliest") as found:
        tick = [next(found).tick for _ in range(5)][-1]
    strict, lax = source(node), source(node, failOnDataLoss="false")
    start, end = {"s": 1}, {"s": node.hosted.end}
    node.trim(tick)
    with pytest.raises(InputError, match=r"are no longer in the log .* set failOnDataLoss to false"):
        strict.partitions(start, end)
    with pytest.raises(InputError, match="are no longer in the log"):
        list(strict.read(readers.Span("s", 1, end["s"])))
    assert payloads(lax, [readers.Span("s", 1, end["s"])]) == numbers(4, 10)
    assert payloads(lax, lax.partitions(start, end)) == numbers(4, 10)
    assert "messages from tick 1 to" in caplog.text


def test_a_batch_has_a_beginning_and_an_end(node: Running) -> None:
    write(node, 10)
    with StreamReader(node.url, "s", start="earliest") as found:
        ticks = [next(found).tick for _ in range(10)]
    whole = batch(node)
    assert payloads(whole, whole.partitions()) == numbers(10)
    part = batch(node, startingOffsets=f'{{"s": {ticks[2]}}}', endingOffsets=f'{{"s": {ticks[5]}}}')
    assert payloads(part, part.partitions()) == numbers(2, 5)
    nothing = batch(node, startingOffsets="latest")
    assert nothing.partitions() == []


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"url": ""}, "option url is missing"),
        ({"url": "http://x"}, "should be like stream://127.0.0.1:1884"),
        ({"stream": ""}, "option stream is missing"),
        ({"stream": ","}, "option stream is empty"),
        ({"stream": "u"}, "node 'home' has no stream 'u'; there are: s, t"),
        ({"startingOffsets": "now"}, "option startingOffsets is 'now': earliest, latest or ticks"),
        ({"startingOffsets": '{"s": -1}'}, "option startingOffsets is"),
        ({"startingOffsets": '{"t": 1}'}, "startingOffsets gives no tick for stream 's'"),
        ({"startingOffsets": '{"s": 1, "t": 1}'}, "startingOffsets names 't', which is not read"),
        ({"maxRowsPerTrigger": "many"}, "option maxRowsPerTrigger is 'many'"),
        ({"failOnDataLoss": "maybe"}, "option failOnDataLoss is 'maybe': true or false"),
        ({"patience": "long"}, "option patience is 'long'"),
        ({"strem": "s"}, "unknown option strem; did you mean stream\\? Allowed: ca, consumer"),
        ({"maxrowpertrigger": "5"}, "did you mean maxRowsPerTrigger"),
        ({"writer": "w"}, "unknown option writer: it is for writing"),
        ({"endingOffsets": "latest"}, "endingOffsets is for spark.read"),
    ],
)
def test_wrong_options_are_named(node: Running, given: dict[str, str], why: str) -> None:
    with pytest.raises(InputError, match=why):
        source(node, **given).initialOffset()


def test_a_strange_option_is_warned_about(node: Running) -> None:
    with pytest.warns(UserWarning, match="ignores the unknown option mergeschema; it has: ca"):
        source(node, mergeSchema="true").initialOffset()


def test_spark_finds_the_format_and_the_guide_has_every_option() -> None:
    """By the module's name; `spark.readStream.format("penstock")` needs no call before it."""
    found = [one.name for one in iter_modules() if one.name.startswith("pyspark_penstock")]
    assert "pyspark_penstock" in found
    assert import_module("pyspark_penstock").DefaultSource.name() == "penstock"
    guide = (Path(__file__).parents[3] / "docs/guides/streams-spark.md").read_text()
    for one in OPTIONS:
        use = "both" if one.reads and one.writes else "reading" if one.reads else "writing"
        assert f"| `{one.name}` | {use} | {one.meaning} | {one.default} |" in guide, one.name


def test_a_node_that_is_not_there_is_named(node: Running) -> None:
    reader = source(node, url="stream://127.0.0.1:1", patience="0")
    with pytest.raises(Unreachable, match=r"stream://127.0.0.1:1: connection refused"):
        reader.initialOffset()
    with pytest.raises(InputError, match=r"ends at tick .*, before 4611686018427387903"):
        source(node).partitions({"s": 0}, {"s": (1 << 62) - 1})
    with pytest.raises(InputError, match="the columns of penstock are"):
        Penstock(options(node)).reader(StructType())


# -- the sink ------------------------------------------------------------------------------------------------


KINDS = {
    "string": StringType(),
    "binary": BinaryType(),
    "int": IntegerType(),
    "timestamp": TimestampType(),
    "map<string,string>": MapType(StringType(), StringType()),
    "map<string,int>": MapType(StringType(), IntegerType()),
}


def columns(**kinds: str) -> StructType:
    return StructType([StructField(name, KINDS[kind]) for name, kind in kinds.items()])


def sink(node: Running, schema: StructType, **more: str) -> BatchSink:
    return sent(Penstock(options(node, **more)).writer(schema, overwrite=False))


def read(node: Running) -> list[tuple[str, bytes]]:
    with StreamReader(node.url, "s", start="earliest", until="end") as reader:
        return [(message.topic, message.payload) for message in reader]


def test_rows_of_tasks_are_in_the_stream_once_they_are_committed(node: Running) -> None:
    writer = sink(node, columns(topic="string", payload="string"), writer="job")
    tasks = [pa.record_batch({"topic": ["a/x", "a/y"], "payload": [f"{task}0", f"{task}1"]}) for task in "pq"]
    made = [writer.write(iter([task])) for task in tasks]
    lost = writer.write(iter(tasks))
    assert read(node) == []
    writer.abort([lost, None])
    writer.commit([made[1], made[0], None])
    writer.commit([made[1], made[0], None])
    assert read(node) == [("a/x", b"q0"), ("a/y", b"q1"), ("a/x", b"p0"), ("a/y", b"p1")]
    with pytest.raises(StreamRefused, match="are missing"):
        sink(node, columns(topic="string", payload="string")).commit([StagedRows("other", lost.attempt, 1)])


def test_rows_of_a_task_that_fails_do_not_stay(node: Running) -> None:
    def rows() -> Iterator[pa.RecordBatch]:
        yield pa.record_batch({"payload": ["x" * 1_000] * limits.STREAM_FETCH})
        assert staged(node) > 1_000
        raise ValueError("the task fails")

    writer = sink(node, columns(payload="string"), topic="a/b")
    with pytest.raises(ValueError, match="the task fails"):
        writer.write(rows())
    assert staged(node) == 0


def staged(node: Running) -> int:
    found = node.run(node.server._staging._run(lambda file: file.rows("SELECT SUM(bytes) FROM attempt")))
    return found[0][0] or 0


def test_rows_with_many_properties_are_no_request_that_is_too_large(node: Running) -> None:
    writer = sink(node, columns(payload="binary", properties="map<string,string>"), topic="a/b")
    rows = pa.record_batch(
        [
            pa.array([b"1"] * 1_000),
            pa.array([[("k", "v" * 30_000)]] * 1_000, pa.map_(pa.string(), pa.string())),
        ],
        names=["payload", "properties"],
    )
    writer.commit([writer.write(iter([rows]))])
    assert len(read(node)) == 1_000


def test_certificates_that_are_not_there_are_named(node: Running) -> None:
    with pytest.raises(InputError, match=r"nowhere.pem: option ca: certificates cannot be read"):
        source(node, ca="nowhere.pem").initialOffset()


def test_all_columns_of_a_message(node: Running) -> None:
    schema = columns(payload="binary", ts="timestamp", content_type="string", properties="map<string,string>")
    writer = sink(node, schema, topic="a/b", writer="me")
    rows = pa.record_batch(
        [
            pa.array([b"1", b"2"]),
            pa.array([5_000_000, None], pa.timestamp("us", "UTC")),
            pa.array(["t", None]),
            pa.array([[("k", "v")], None], pa.map_(pa.string(), pa.string())),
        ],
        names=schema.fieldNames(),
    )
    writer.commit([writer.write(iter([rows]))])
    with StreamReader(node.url, "s", start="earliest") as reader:
        first, second = next(reader), next(reader)
    assert (first.payload, first.ts_us, first.content_type, first.properties) == (
        *(b"1", 5_000_000, "t"),
        (("k", "v"),),
    )
    assert first.sender == "me"
    assert second.ts_us > 10**15
    assert (second.content_type, second.properties) == ("", ())


def test_an_empty_batch_is_nothing(node: Running) -> None:
    writer = sink(node, columns(payload="string"), topic="a/b")
    writer.commit([writer.write(iter([])), None])
    assert read(node) == []


@pytest.mark.parametrize(
    ("schema", "given", "why"),
    [
        (columns(payload="int"), {"topic": "a"}, "column 'payload' is int; a stream takes binary or string"),
        (columns(payload="string", topic="int"), {}, "column 'topic' is int; a stream takes string"),
        (columns(payload="string", v="int"), {"topic": "a"}, "column 'v' is unknown"),
        (columns(payload="string"), {}, "there is no column 'topic'"),
        (columns(topic="string"), {}, "there is no column 'payload'; there are: topic"),
        (columns(topic="string", payload="string"), {"topic": "a"}, "leave one out"),
        (columns(payload="string", properties="map<string,int>"), {"topic": "a"}, "column 'properties' is"),
        (columns(payload="string"), {"topic": "a", "consumer": "c"}, "unknown option consumer: it is for"),
    ],
)  # fmt: skip
def test_wrong_columns_are_named(node: Running, schema: StructType, given: dict[str, str], why: str) -> None:
    with pytest.raises(InputError, match=why):
        sink(node, schema, **given)


def test_rows_that_are_no_messages_are_refused(node: Running) -> None:
    schema = columns(topic="string", payload="string")
    writer = sink(node, schema)
    with pytest.raises(InputError, match="a row's column 'payload' is null"):
        writer.write(iter([pa.record_batch({"topic": ["a/b"], "payload": pa.array([None], pa.string())})]))
    with pytest.raises(InputError, match="a payload of 1,500,000 bytes on 'a/b'; the node takes 1,048,576"):
        writer.write(iter([pa.record_batch({"topic": ["a/b"], "payload": ["x" * 1_500_000]})]))
    with pytest.raises(StreamRefused, match="topic 'x' does not belong to stream 's'"):
        writer.write(iter([pa.record_batch({"topic": ["x"], "payload": ["1"]})]))
    with pytest.raises(InputError, match="streams only append"):
        Penstock(options(node)).writer(schema, overwrite=True)
    assert SinkOptions.of(options(node)).writer == "spark"
