"""Fuzzing: the node stands the first exchanges of each target; the judge sees every kind of fault."""

from __future__ import annotations

import asyncio
import json
from functools import partial
from typing import TYPE_CHECKING

import pytest
from tests.kit.effort import LONG
from tests.kit.faulty_server import faulty_server
from typer.testing import CliRunner

from penstock.cli.app import app
from penstock_lab.experiments.fuzz import bystander, run
from penstock_lab.experiments.fuzz.exchange import Exchange, Piece
from penstock_lab.experiments.fuzz.subject import Subject, node
from penstock_lab.experiments.fuzz.targets.catalogue import NAMES, exchange_of

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.e2e

EXCHANGES = None if LONG else 1000
"""Each target plays the same exchanges on every machine: what a node answers in five seconds.
`make test-long` and `penstock sim fuzz` go on for a time."""
SECONDS = 60 if LONG else 240
"""A machine that is slower than that plays fewer; it has failed nothing."""


@pytest.mark.parametrize("target", NAMES)
def test_the_node_stands_it(target: str) -> None:
    found = run.fuzz(target, seed=1, seconds=SECONDS, most=EXCHANGES, subjects=node)
    assert found.problem == ""
    assert found.exchanges > 50
    assert len(found.round_trips_s) > 10
    assert found.before is not None
    assert found.after is not None


@pytest.mark.parametrize(
    ("fault", "problems"),
    [
        ("crash", ("the process has ended",)),
        ("traceback", ("ValueError: a fault that was asked for",)),
        ("lose", ("should have come, not",)),
        # Whether memory is given back between two checks decides which of the two is seen first.
        ("memory", ("MB were before", "the process has grown to")),
        ("files", ("files are open at the end",)),
        ("stall", ("within 1 s",)),
    ],
)
def test_the_judge_sees_a_fault(
    fault: str, problems: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    if fault == "stall":  # with any other, a busy machine could be late first
        monkeypatch.setattr(bystander, "SERVED_S", 1.0)
    monkeypatch.setattr(run, "SETTLE_S", 0.5)
    monkeypatch.setattr(run, "SEARCH_S", 2.0)
    found = run.fuzz("mqtt", seed=1, seconds=SECONDS, most=400, subjects=partial(faulty_server, fault))
    assert not found.ok
    assert any(problem in found.problem for problem in problems), found.problem


def test_a_server_without_fault_passes() -> None:
    found = run.fuzz("mqtt", seed=1, seconds=SECONDS, most=100, subjects=partial(faulty_server, "none"))
    assert found.problem == ""
    assert found.exchanges > 30


def test_the_exchange_behind_a_failure_is_found_and_shortened(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stands for a node that fails at one packet: the log of the subject gets a traceback when it is sent."""
    bad = b"\xf0\x00"
    played: list[Exchange] = []

    async def play(exchange: Exchange, _: object) -> str:
        played.append(exchange)
        await asyncio.sleep(0)
        return "this one" if any(piece.data == bad for piece in exchange.pieces) else ""

    def made(_: str, __: int, number: int) -> Exchange:
        pieces = (Piece(b"a"), Piece(bad if number == 40 else b"b"), Piece(b"c"))
        return Exchange(number, "mqtt", pieces, "close")

    monkeypatch.setattr(run, "play", play)
    monkeypatch.setattr(run, "exchange_of", made)
    found = run.fuzz("mqtt", seed=5, seconds=30, subjects=partial(faulty_server, "none"))
    assert (found.problem, found.alone) == ("this one", True)
    assert found.suspects == [Exchange(40, "mqtt", (Piece(bad),), "close")]


def test_a_failure_leaves_a_file_that_can_be_replayed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock_lab.cli.sim.node", partial(faulty_server, "crash"))
    monkeypatch.setattr(run, "SEARCH_S", 10.0)
    left = tmp_path / "left.json"
    asked = ["sim", "fuzz", "mqtt", "--minutes", "1", "--seed", "3", "--out", str(left), "--json"]
    done = CliRunner().invoke(app, asked)
    assert done.exit_code == 1, done.output
    told = json.loads(done.stdout)
    assert told["failure"]["problem"].startswith("the process has ended")
    assert told["failure"]["file"] == str(left)
    again = CliRunner().invoke(app, ["sim", "fuzz", "mqtt", "--replay", str(left), "--json"])
    assert again.exit_code == 1, again.output
    assert json.loads(again.stdout)["exchanges"] == len(json.loads(left.read_text())["exchanges"])
    other = CliRunner().invoke(app, ["sim", "fuzz", "http", "--replay", str(left)])
    assert other.exit_code == 2
    assert "the file is one of target 'mqtt'" in other.output


def test_the_log_is_read_from_where_it_was(tmp_path: Path) -> None:
    log = tmp_path / "log"
    first = "2026-01-31T12:00:00.123Z warning: protocol error: x\n"
    log.write_text(
        f"{first}2026-01-31T12:00:00.124Z error: so\nTraceback (most recent call last):\n  it is\nE: f\n"
    )
    subject = Subject(1, {}, log)
    assert subject.complaint().splitlines()[0].endswith("error: so")
    assert subject.complaint().splitlines()[-1] == "E: f"
    assert subject.complaint(subject.log_bytes()) == ""


def test_the_same_seed_sends_the_same_bytes() -> None:
    for target in NAMES:
        assert exchange_of(target, 4, 17) == exchange_of(target, 4, 17)
        assert exchange_of(target, 4, 17) != exchange_of(target, 5, 17)
