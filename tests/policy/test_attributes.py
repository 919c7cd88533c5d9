"""Reading one attribute of an event."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import cbor2
import msgspec
import pytest

from penstock import limits
from penstock.model import Event
from penstock.policy.attributes import descend, read
from penstock.policy.nodes import PayloadFormat
from penstock.policy.paths import parse

ROOT = {
    "vitals": {"pulse": 72, "": "empty", "null": None},
    "a.b": {"c": "dotted"},
    "readings": [{"mv": 1.5}, {"mv": 2.5}, [7, 8]],
    "0": "zero",
    "flag": True,
    "$topic": "inside",
    "tags": ["a", 1, None, {"x": 1}, [1]],
}
EVENT = Event(
    topic="ward/7",
    payload=msgspec.json.encode(ROOT),
    ts_us=123,
    sender="sensor",
    properties=(("unit", "bpm"), ("unit", "other"), ("a.b", "x")),
)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("vitals.pulse", 72),
        ('vitals.""', "empty"),
        ("vitals.null", None),
        ("vitals.gone", None),
        ("vitals", None),  # a map is no value
        ("gone.deeper", None),
        ("vitals.pulse.deeper", None),
        ('"a.b".c', "dotted"),
        ("readings.0.mv", 1.5),
        ("readings.1.mv", 2.5),
        ("readings.2.1", 8),
        ("readings.3.mv", None),
        ("readings.-1.mv", None),
        ("readings.01.mv", 2.5),
        ("readings.١.mv", None),  # a digit in Arabic is no index
        ("readings.9999999999.mv", None),
        ("readings.2", (7, 8)),
        ("0", "zero"),
        ("flag", True),
        ('"$topic"', "inside"),
        ("tags", ("a", 1, None, None, None)),
        ("$topic", "ward/7"),
        ("$ts", 123),
        ("$sender", "sensor"),
        ("$size", len(EVENT.payload) + 6),
        ("$prop.unit", "bpm"),  # the first of that name
        ("$prop.a.b", "x"),
        ("$prop.gone", None),
        ("$value", None),
    ],
)
def test_read(path: str, expected: Any) -> None:
    found = read(EVENT, parse(path), PayloadFormat.AUTO)
    assert found == expected
    assert type(found) is type(expected)


@pytest.mark.parametrize(
    ("root", "expected"),
    [
        (2**63 - 1, 2**63 - 1),
        (-(2**63), -(2**63)),
        (2**63, float(2**63)),
        (10**400, None),
        (float("nan"), None),
        (float("inf"), float("inf")),
        (Decimal("1.5"), (-1, 15)),  # CBOR tags are not obeyed: exponent and mantissa
        (Decimal("sNaN"), None),
        (Decimal("1e400"), (400, 1)),
        (b"bytes", None),
        (frozenset([1]), (1,)),
        ([1] * limits.LIST_VALUES, (1,) * limits.LIST_VALUES),
        ([1] * (limits.LIST_VALUES + 1), None),
        ([float("nan"), 10**400], (None, None)),
    ],
    ids=lambda found: repr(found)[:20],
)
def test_what_a_value_is(root: Any, expected: Any) -> None:
    found = read(
        Event("t", cbor2.dumps(root), 0, content_type="application/cbor"), parse("$value"), PayloadFormat.AUTO
    )
    assert found == expected
    assert type(found) is type(expected)


def test_a_text_has_no_members() -> None:
    assert descend("abc", ("0",)) is None
    assert descend(b"abc", ("0",)) is None
    assert descend({"a": "abc"}, ("a", "0")) is None
