"""The trace: its digest follows every fact, and only values with stable bytes are facts."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from penstock.errors import SimulationError
from penstock_lab.sim.link import Delivered, Duplicated
from penstock_lab.sim.world import Trace


@dataclass(frozen=True, slots=True)
class Packed:
    at_us: int
    level: int
    ratio: float


def digest(*facts: object) -> str:
    trace = Trace()
    for fact in facts:
        trace.record(fact)
    return trace.fingerprint()


def test_equal_facts_give_equal_digests() -> None:
    assert digest(Packed(1, 2, 0.5), ("x", None, b"y")) == digest(Packed(1, 2, 0.5), ("x", None, b"y"))


@pytest.mark.parametrize(
    "other",
    [
        (),
        (("a", 1),),
        (("a", 1), ("b", 3)),
        (("b", 2), ("a", 1)),
        (("a", 1, "b", 2),),
        ((("a", 1), ("b", 2)),),
        (("a", 1), ("b", 2), ("c", 3)),
    ],
)
def test_other_facts_or_another_order_give_another_digest(other: tuple[object, ...]) -> None:
    assert digest(("a", 1), ("b", 2)) != digest(*other)


def test_facts_of_two_kinds_with_equal_fields_differ() -> None:
    assert digest(Delivered(1, "a", 0)) != digest(Duplicated(1, "a", 0))


def test_the_digest_is_the_same_in_every_process_and_release() -> None:
    # A change of this value makes every stored fingerprint worthless: do it knowingly.
    assert digest(Packed(1, 2, 0.5)) == "0f05264902b368276992a44e18db100f"


@pytest.mark.parametrize("fact", [object(), (1, object()), (1 << 70,)])
def test_what_has_no_stable_bytes_is_refused(fact: object) -> None:
    trace = Trace()
    with pytest.raises(SimulationError, match="cannot be a fact"):
        trace.record(fact)
    assert len(trace) == 0


def test_a_trace_may_keep_the_digest_only() -> None:
    kept, light = Trace(), Trace(keep=False)
    for trace in (kept, light):
        trace.record(("a", 1))
    assert kept.facts == [("a", 1)]
    assert light.facts == []
    assert len(light) == 1
    assert kept.fingerprint() == light.fingerprint()
