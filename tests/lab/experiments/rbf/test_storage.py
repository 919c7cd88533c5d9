"""The storage argument: rows hold at small numbers, and fail where a filter is broken on purpose."""

from __future__ import annotations

import pytest

from penstock.core.slots.filter import RefreshingFilter
from penstock.core.slots.reservation import Reservations
from penstock_lab.experiments.rbf import storage
from penstock_lab.experiments.rbf.storage import Argument, argument, entry_bytes, measure

pytestmark = pytest.mark.slow

SMALL = (2_000, 20_000)


def made() -> Argument:
    return argument([measure(flows, seed=5) for flows in SMALL], seed=5)


def failing(claims: Argument) -> list[str]:
    return [row.what for row in claims.claims() if row.ok is not True]


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storage, "STRANGERS", 50_000)
    monkeypatch.setattr(storage, "CONTROLLED", 150)
    monkeypatch.setattr(storage, "ENTRIES", 200)


def test_a_filter_is_smaller_than_the_table_and_as_wrong_as_the_formula_says() -> None:
    claims = made()
    assert failing(claims) == []
    assert all("fails if" in row.note for row in claims.claims())
    assert len(claims.table().rows) == len(SMALL)


def test_a_filter_that_never_refreshes_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RefreshingFilter, "_wipe", lambda *_: None)
    missed = failing(made())
    assert [what for what in missed if what.startswith("… and wrong answers")] != []
    assert [what for what in missed if "by the filters alone" in what] != []


def test_a_control_that_reserves_nothing_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Reservations, "reserve", lambda *_: False)
    assert [what for what in failing(made()) if "by the filters alone" in what] != []


def test_a_filter_as_large_as_the_table_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storage, "BITS_PER_PAIR", 256)
    assert [what for what in failing(made()) if what.startswith("storage: memory")] != []


def test_an_entry_takes_kilobytes() -> None:
    assert 500 < entry_bytes() < 10_000
