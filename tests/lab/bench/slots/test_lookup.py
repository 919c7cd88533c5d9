"""Rivals of the filters of time slots give the answers they are timed for."""

from __future__ import annotations

from functools import partial
from importlib.util import find_spec

import pytest
from tests.kit.progress import silent

from penstock_lab.bench.result import interleaved_ns
from penstock_lab.bench.slots import lookup, rivals

pytestmark = pytest.mark.skipif(
    find_spec("rbloom") is None or find_spec("pybloom_live") is None, reason="the rivals are not installed"
)


def test_every_rival_finds_what_was_put_in() -> None:
    per_slot = [[1, 2, 3], [2, 3, 4], [5]]
    for rival in rivals.rivals():
        filled = rival.filled(per_slot, 1e-6)
        assert rivals.answers(filled, [1, 2, 5, 99]) == [0b001, 0b011, 0b100, 0]
        assert rival.bytes_of(filled[0]) > 0


def test_a_small_contest_has_every_contestant(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lookup, "QUICK_PER_SLOT", 16)
    monkeypatch.setattr(lookup, "BATCH", 200)
    monkeypatch.setattr(lookup, "SINGLE", 10)
    monkeypatch.setattr(lookup, "STRANGERS", 2_000)
    monkeypatch.setattr(lookup, "find_spec", {"numba": None}.get)  # making machine code takes seconds
    monkeypatch.setattr(lookup, "interleaved_ns", partial(interleaved_ns, per_round_ns=1_000))
    outcome = lookup.measure(quick=True, progress=silent)
    names = " ".join(row.name for row in outcome.rows)
    for name in ("RBF 64 × 1", "RBF 8 × 8", "MMBF", "MHBF", "SBF", "exact table", "pybloom", "sets"):
        assert name in names
    assert [row.name for row in outcome.rows if row.goal] == ["complete answers: RBF 64 × 1 (MSBF)"]
    assert all("rbloom" in row.rival for row in outcome.rows if row.name.startswith("complete answers"))
    assert "numba is not installed" in outcome.note
