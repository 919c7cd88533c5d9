"""Admission that binds: rows hold, and fail where admission is broken on purpose."""

from __future__ import annotations

import pytest

from penstock.core.slots.lanes import Lanes
from penstock.core.slots.links import Ledger, Link
from penstock_lab.experiments.ces.admission import (
    FLOWS,
    LOAD,
    Admission,
    admission,
    admission_rows,
    never_refusing,
)
from penstock_lab.experiments.ces.overload import POLICY
from penstock_lab.sim.constant_rate import ConstantRateSetting

pytestmark = pytest.mark.slow

WARM_UP_US = 3_000_000
SETTING = ConstantRateSetting(seconds=6, load=LOAD, flows=FLOWS)


def found(setting: ConstantRateSetting = SETTING) -> Admission:
    return admission(setting, POLICY, warm_up_us=WARM_UP_US, seed=4, seeds=1)


@pytest.fixture(scope="module")
def never() -> Admission:
    return found(never_refusing(SETTING))


def test_some_are_admitted_and_keep_what_they_have_alone(never: Admission) -> None:
    rows = admission_rows(found(), never)
    assert [row.what for row in rows if row.ok is not True] == []
    assert all(row.note for row in rows)


def test_an_admission_that_never_refuses_is_noticed(
    never: Admission, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Ledger, "has_room", lambda *_: True)
    monkeypatch.setattr(Link, "most_load", property(lambda _: 1e9))
    binds, jitter, loss, _, changed = admission_rows(found(), never)
    assert (binds.ok, loss.ok, changed.ok) == (False, False, False)
    assert jitter.ours != ""


def test_a_lane_that_is_not_served_first_is_noticed(
    never: Admission, monkeypatch: pytest.MonkeyPatch
) -> None:
    head = Lanes.head
    monkeypatch.setattr(
        Lanes, "head", lambda self, *, others_wait: None if others_wait else head(self, others_wait=False)
    )
    _, jitter, loss, *_ = admission_rows(found(), never)
    assert jitter.ok is False
    assert loss.ok is False
