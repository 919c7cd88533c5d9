"""Attributes that are found in payloads are those that policies can read."""

from __future__ import annotations

import pytest

from penstock.model.event import Event
from penstock.node.http.trial import attributes_of
from penstock.policy import paths
from penstock.policy.attributes import read
from penstock.policy.nodes import PayloadFormat


@pytest.mark.parametrize("payload", [b'{"$a": {"x\\"y": [1, 2]}, "b.c": 1}', b"17.5", b"[1, 2]"])
def test_paths_are_those_that_policies_read(payload: bytes) -> None:
    event = Event("t", payload, ts_us=1)
    found = attributes_of([event], 1.0)
    assert found.attributes
    for row in found.attributes:
        assert read(event, paths.parse(row.path), PayloadFormat.AUTO) is not None


def test_payloads_without_attributes_are_counted_and_depth_is_bounded() -> None:
    deep = b'{"a":' * 40 + b"1" + b"}" * 40
    found = attributes_of([Event("t", deep, ts_us=1), Event("t", b"\x00\xff", ts_us=2)], 1.0)
    assert (found.events, found.undecoded, found.attributes) == (2, 2, ())
