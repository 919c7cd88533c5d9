"""Figure 8 holds, run after run."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from tests.kit.progress import silent

from penstock.cli.html_page import Page
from penstock.core.queues import PackingQueue, Predictive, QueueOptions
from penstock.policy.text.python_form import drop, policy
from penstock_lab.experiments.pack import fig8
from penstock_lab.experiments.pack.queue_figures import QueueContestant
from penstock_lab.experiments.result import Claim, ExperimentResult, add_result

if TYPE_CHECKING:
    from pathlib import Path


pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def figure8(tmp_path_factory: pytest.TempPathFactory) -> ExperimentResult:
    out = tmp_path_factory.mktemp("fig8")
    return fig8.reproduce(seed=11, quick=True, out=out, progress=silent)


def test_every_row_holds_with_a_seed_the_numbers_were_not_chosen_for(figure8: ExperimentResult) -> None:
    assert [row.what for row in figure8.rows if row.ok is False] == []


def packing(*shares: float) -> QueueContestant:
    """A packing queue with other lots than the paper's."""
    mine = policy(*(drop.random(share) for share in shares))
    return QueueContestant("pack", "PACK", lambda: PackingQueue(mine, QueueOptions(capacity_events=100)))


@pytest.mark.parametrize(
    ("shares", "ok"), [((0.1, 0.25, 0.5), True), ((0.1, 0.32, 0.5), False), ((0.01, 0.25, 0.5), False)]
)
def test_level_2_is_judged_by_the_packs_of_the_run(shares: tuple[float, ...], ok: bool) -> None:
    found = fig8.measure(packing(*shares), seed=3, seconds=200)
    assert fig8.level_two(found).ok is ok, fig8.level_two(found).ours


def test_a_run_without_a_pack_at_level_2_does_not_hold() -> None:
    found = fig8.measure(packing(0.6), seed=3, seconds=60, seeds=1)
    assert found.packs > 0
    assert fig8.level_two(found).ok is False


def test_a_queue_that_does_not_pack_is_seen() -> None:
    tail = next(each for each in fig8.CONTESTANTS if each.name == "drop-tail")
    found = fig8.measure(tail, seed=3, seconds=100, seeds=1)
    failed = [row.what for row in fig8.rows({"drop-tail": found, "pack": found}) if row.ok is False]
    assert failed == [
        "PACK has a lower mean latency",
        "PACK has a lower p99 latency",
        "PACK loses in bursts, between them nothing",
    ]
    assert fig8.accounted({"pack": replace(found, conserved=False)}).ok is False


@pytest.mark.parametrize(("level", "ok"), [(2, True), (3, False)])
def test_a_controller_that_asks_for_one_level_is_seen(
    monkeypatch: pytest.MonkeyPatch, level: int, ok: bool
) -> None:
    monkeypatch.setattr(Predictive, "choose", lambda _controller, _request: level)
    pack = next(each for each in fig8.CONTESTANTS if each.name == "pack")
    found = fig8.measure(pack, seed=3, seconds=100, seeds=1)
    assert found.packs > 0
    most, *_ = fig8._levels_over(dict.fromkeys(fig8.PACKING, found), quick=True)
    assert most.ok is ok, most.ours


def test_the_picture_is_there(figure8: ExperimentResult) -> None:
    (plot,) = figure8.plots
    assert plot.read_bytes().startswith(b"\x89PNG")


def test_the_run_says_that_it_was_shortened(figure8: ExperimentResult) -> None:
    assert "--quick" in figure8.setting


def test_the_same_seed_gives_the_same_figures(figure8: ExperimentResult) -> None:
    again = fig8.reproduce(seed=11, quick=True, out=None, progress=silent)
    assert again.tables == figure8.tables


def test_the_report_is_one_file(figure8: ExperimentResult, tmp_path: Path) -> None:
    page = Page("a <b> & c")
    add_result(page, figure8)
    text = page.write(tmp_path / "deep" / "report.html").read_text()
    assert "a &lt;b&gt; &amp; c" in text
    assert "data:image/png;base64," in text
    assert 'src="http' not in text


def test_an_outcome_is_ok_unless_a_row_failed() -> None:
    def outcome(ok: bool | None) -> ExperimentResult:
        row = Claim("w", "p", "o", ok, note="fails if asked to")
        return ExperimentResult("e", "t", "s", (row,), (), (), 1)

    assert outcome(True).ok
    assert outcome(None).ok
    assert not outcome(False).ok
