"""Where attributes are found, and what is said when they are not."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as sf

from penstock.errors import InputError, PolicyError
from penstock.pipeline import effect, pack
from penstock.pipeline.tables.schemas import DIGEST
from penstock.policy.text.forms import parse

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, SparkSession


def stay(frame: DataFrame, levels: str, *, attribute: str = "v", **more: Any) -> list[int]:
    """Times of the events that stay."""
    policy = parse(f"attribute: {attribute}\nlevels: [{levels}]")
    packed = frame.transform(
        pack(policy, key=["queue"], order=["ts"], level=policy.highest, schema=frame.schema, **more)
    )
    return sorted(row["ts"] for row in packed.collect() if row["kind"] == "event")


@pytest.fixture(scope="module")
def nested(spark: SparkSession) -> DataFrame:
    return spark.sql(
        """
        select 'a' as queue, id as ts, named_struct('pulse', cast(id as double)) as vitals,
               map('pulse', id) as readings, array(id, -id) as pair, cast(id as decimal(9, 2)) as price,
               parse_json(concat('{"pulse": ', id, ', "tags": ["x"]}')) as body, id as `heart.rate`,
               map('unit', if(id > 2, 'bpm', 'kg')) as properties, timestamp_micros(id) as at
        from range(6)
        """
    ).cache()


@pytest.mark.parametrize(
    "attribute", ["vitals.pulse", "readings.pulse", "pair.0", "price", "body.pulse", "heart.rate", "$ts"]
)
def test_an_attribute_may_be(nested: DataFrame, attribute: str) -> None:
    assert stay(nested, "drop: {gt: 3}", attribute=attribute) == [0, 1, 2, 3]


def test_properties_and_lists(nested: DataFrame) -> None:
    assert stay(nested, "keep: {eq: bpm}", attribute="$prop.unit") == [3, 4, 5]
    assert stay(nested, "drop: {contain: 4}", attribute="pair") == [0, 1, 2, 3, 5]
    assert stay(nested, "drop: {contain: x}", attribute="body.tags") == []


def test_other_names_may_be_given(nested: DataFrame) -> None:
    assert stay(nested, "drop: {gt: 3}", attribute="v", attributes={"v": "price"}) == [0, 1, 2, 3]
    assert stay(nested, "drop: {gt: 3}", attribute="$ts", attributes={"$ts": "at"}) == [0, 1, 2, 3]


def test_folds_carry_columns_that_cannot_be_sorted(nested: DataFrame) -> None:
    assert stay(nested, "drop: {delta: 2}", attribute="vitals.pulse") == [0, 2, 4]
    assert stay(nested, "drop: {swing: 1}", attribute="vitals.pulse") == [0, 5]


@pytest.mark.parametrize(
    ("attribute", "said"),
    [
        ("pulse", "attribute '\\$payload': there is no column 'payload'; the columns are: queue, ts, vitals"),
        ("vitals.puls", "column 'vitals' has no field 'puls'; it has: pulse"),
        ("vitals", "column 'vitals' is struct<pulse:double>, expected a number"),
        ("at", "column 'at' is timestamp, expected a number"),
        ("price.x", "column 'price' is decimal\\(9,2\\), expected something with 'x' inside"),
        ("$topic", "there is no column 'topic'"),
        ("$size", "there is no column 'payload'"),
    ],
)
def test_a_column_that_does_not_serve_is_named(nested: DataFrame, attribute: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        stay(nested, "drop: {gt: 3}", attribute=attribute)


def test_what_cannot_be_a_queue_is_refused(nested: DataFrame) -> None:
    policy = parse("attribute: price\nlevels: [drop: {random: 0.5}]")
    with pytest.raises(InputError, match="there is no column 'room' to make queues by"):
        pack(policy, key=["room"], order=["ts"], level=1, schema=nested.schema)
    with pytest.raises(InputError, match="there is no column 'seq'"):
        pack(policy, key=["queue"], order=["ts"], level=1, schema=nested.schema)
    renamed = nested.withColumnRenamed("price", "place").schema
    with pytest.raises(InputError, match="column 'place': this name is used by the packed frame"):
        pack(policy, key=["queue"], order=["ts"], level=1, schema=renamed)
    texts = nested.selectExpr("queue", "'x' as ts", "1 as seq")
    with pytest.raises(InputError, match="column 'ts' is string, expected whole microseconds or a timestamp"):
        texts.transform(pack(policy, key=["queue"], order=["ts"], level=1, schema=texts.schema))
    with pytest.raises(PolicyError, match="level 2; the policy has levels 0 … 1"):
        pack(policy, key=["queue"], order=["ts"], level=2, schema=nested.schema)


def test_binary_payloads_are_refused_where_the_policy_demands_them(spark: SparkSession) -> None:
    frame = spark.sql("select 'a' as queue, 1L as ts, cast('x' as binary) as payload")
    policy = parse("attribute: v\npayload: cbor\nlevels: [drop: {gt: 1}]")
    with pytest.raises(PolicyError, match="Spark cannot read cbor payloads"):
        pack(policy, key=["queue"], order=["ts"], level=1, schema=frame.schema)


def test_an_event_without_a_time_is_an_error(spark: SparkSession) -> None:
    frame = spark.sql("select 'a' as queue, cast(null as bigint) as ts, 1 as v")
    with pytest.raises(Exception, match="column 'ts': an event has no time, it is null"):
        stay(frame, "keep: {latest: 1}")


def test_rows_that_the_order_does_not_tell_apart_are_ordered_by_a_hash_of_their_columns(
    spark: SparkSession,
) -> None:
    """By the same one as in a stream, also if a column cannot be compared."""
    rows = [("a", 0, {"n": name}, value) for name, value in [("y", 2.0), ("x", 9.0), ("y", 1.0), ("x", None)]]
    policy = parse("attribute: v\nlevels: [keep: {every: 2}]")
    found = set()
    for turn in range(4):
        frame = spark.createDataFrame(
            rows[turn:] + rows[:turn], "queue string, ts bigint, name map<string, string>, v double"
        )
        made = pack(policy, key="queue", order="ts", level=1, schema=frame.schema)
        packed = frame.transform(made).orderBy("place").collect()
        found.add(tuple((row["name"]["n"], row["v"]) for row in packed if row["kind"] == "event"))
    hashed = frame.selectExpr("name.n", "v", "xxhash64(queue, ts, map_entries(name), v) as tie")
    expected = [(row["n"], row["v"]) for row in hashed.orderBy("tie").collect()]
    assert found == {tuple(expected[1::2])}


def test_key_and_order_are_names_columns_or_lists_of_them(nested: DataFrame) -> None:
    policy = parse("attribute: price\nlevels: [keep: {latest: 1}]")

    def kept(key: Any, order: Any) -> tuple[list[str], list[Any]]:
        made = pack(policy, key=key, order=order, level=1, schema=nested.schema)
        rows = nested.transform(made).where("kind = 'event'").collect()
        return list(rows[0].asDict()), sorted(row["ts"] for row in rows)

    columns, whole = kept("queue", "ts")
    assert (columns[:3], whole) == (["queue", "place", "kind"], [5])
    assert kept(sf.col("queue"), [sf.col("ts"), "price"]) == (columns, whole)
    half = (sf.col("ts") % 2).alias("half")
    own, by_half = kept(["queue", half], -sf.col("ts"))
    assert (own[:4], by_half) == (["queue", "half", "place", "kind"], [4, 5])
    assert "__order0" not in own
    with pytest.raises(InputError, match="there is no column 'queu' to make queues by"):
        kept("queu", "ts")
    with pytest.raises(InputError, match="column 'price' of the key: there is one of this name"):
        kept(sf.upper("queue").alias("price"), "ts")
    with pytest.raises(PolicyError, match="queues are ordered ascending"):
        kept("queue", sf.col("ts").desc())
    with pytest.raises(PolicyError, match="a queue needs columns that name it"):
        kept([], "ts")


def test_an_empty_frame_and_a_single_event(spark: SparkSession) -> None:
    one = spark.createDataFrame([("a", 0, 1.0)], "queue string, ts bigint, v double")
    for levels in (
        "drop: {delta: 1}",
        "drop: {swing: 1}",
        "drop: uniq",
        "keep: {latest: 1}",
        "drop: {gt: 3}",
    ):
        assert stay(one, levels) == [0]
        assert stay(one.where("ts > 0"), levels) == []


LEVELS = "attribute: v\ndigest: [count, mean]\nlevels: [drop: {gt: 3}, keep: {latest: 1}]"


def test_levels_are_a_column_of_whole_numbers(nested: DataFrame) -> None:
    policy = parse(LEVELS.replace("attribute: v", "attribute: price"))
    with pytest.raises(InputError, match="there is no column 'lvl' of levels; the columns are: queue, ts"):
        pack(policy, key=["queue"], order=["ts"], level="lvl", schema=nested.schema)
    with pytest.raises(InputError, match="column 'queue' is string, expected whole numbers: levels"):
        pack(policy, key=["queue"], order=["ts"], level="queue", schema=nested.schema)
    with pytest.raises(InputError, match="column 'properties' is map<string,string>, which cannot name a qu"):
        pack(policy, key=["properties"], order=["ts"], level=1, schema=nested.schema)


@pytest.mark.parametrize("transform", [pack, effect])
def test_a_queue_with_two_levels_is_named(spark: SparkSession, transform: Callable[..., Any]) -> None:
    rows = [("a", 0, 1.0, 1), ("a", 1, 9.0, 1), ("b", 0, 1.0, 1), ("b", 1, 9.0, 2)]
    frame = spark.createDataFrame(rows, "queue string, ts bigint, v double, lvl int")
    made = transform(parse(LEVELS), key="queue", order="ts", level="lvl", schema=frame.schema)
    assert frame.where("queue = 'a'").transform(made).collect()
    said = """column 'lvl': the rows of queue {"queue":"b"} have the levels 1 and 2; a queue has one"""
    with pytest.raises(Exception, match=re.escape(said)):
        frame.transform(made).collect()


@pytest.mark.parametrize("damage", ["count = 0", "from_us = 9", "causes = null", "count = null"])
def test_a_damaged_digest_is_named_with_its_queue(spark: SparkSession, damage: str) -> None:
    field, _, value = damage.partition(" = ")
    sound = {"count": "1L", "from_us": "1L", "causes": "array()", field: value}
    values = f"{sound['count']}, {sound['from_us']}, 2L, 0L, 0L, {sound['causes']}, array()"
    digest = f"cast(struct({values}) as {DIGEST.simpleString()})"
    frame = spark.sql(f"select 'a' as queue, 1L as ts, 1.0 as v, {digest} as digest")
    with pytest.raises(Exception, match=re.escape("""'digest': a damaged digest in queue {"queue":"a"}""")):
        stay(frame, "keep: {latest: 1}")


def test_columns_of_kept_events_come_out_as_they_went_in(spark: SparkSession) -> None:
    frame = spark.sql(
        """
        select 'a' as queue, id as ts, cast('-0.0' as double) as v, cast('NaN' as float) as f,
               named_struct('x', cast('-0.0' as double), 'y', named_struct('z', 'deep')) as s,
               cast(null as struct<x: double>) as nothing, named_struct('x', cast(null as double)) as hollow,
               array(cast('-0.0' as double)) as reals, array('b', 'a') as texts,
               map('b', 1, 'a', 2) as properties, parse_json('{"k": [1, 2.5]}') as body,
               cast(1.50 as decimal(9, 2)) as price, date'2026-01-02' as day, cast('x' as binary) as bytes
        from range(3)
        """
    )
    policy = parse("attribute: $ts\nlevels: [drop: {gt: 0}]")
    made = pack(policy, key=["queue"], order=["ts"], level=1, schema=frame.schema)
    packed = frame.transform(made).orderBy("place").collect()
    kept, digest = packed
    before = frame.where("ts = 0").collect()[0]
    assert str([kept[name] for name in frame.columns]) == str([before[name] for name in frame.columns])
    assert [digest[name] for name in frame.columns if name != "queue"] == [None] * (len(frame.columns) - 1)
    assert digest["digest"]["count"] == 2
