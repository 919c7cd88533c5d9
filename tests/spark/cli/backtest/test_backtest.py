"""`penstock backtest` and `penstock advise`; `tests/spark/cluster` runs both by a Spark of their own."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from tests.kit.command import VITALS, answer, answer_here, here

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A ward of four patients in envelopes, as JSON lines."""
    dice = Random(5)
    pulse = [70.0] * 4
    lines = []
    for place in range(1_600):
        bed = place % 4
        pulse[bed] += dice.gauss(0, 3) - (pulse[bed] - 70) / 20
        lines.append(
            {
                "topic": f"ward/{bed}",
                "ts": place * 250_000,
                "seq": place // 4,
                "payload": {"pulse": round(pulse[bed])},
            }
        )
    path = tmp_path_factory.mktemp("recorded") / "ward.jsonl"
    path.write_bytes(b"\n".join(map(msgspec.json.encode, lines)) + b"\n")
    return path


@pytest.mark.usefixtures("opened")
@pytest.mark.parametrize(("engine", "run"), [("local", answer), ("spark", answer_here)])
def test_backtest(recorded: Path, tmp_path: Path, engine: str, run: Callable[..., dict[str, Any]]) -> None:
    found = run(
        "backtest", "--events", str(recorded), "--policy", VITALS, "--capacity", "30", "--drain", "0.5/s",
        "--key", "topic", "--out", str(tmp_path), "--engine", engine, "--matters", "> 80", "--window", "20s",
    )  # fmt: skip
    low, high = found["stream"].pop("normal")["pulse"]
    assert low < 70 < high
    assert found["stream"] == {"events": 1_600, "queues": 4, "span_s": 399.75}
    assert list(found["candidates"]) == ["vitals", "drop-newest", "drop-oldest"]
    for account in found["candidates"].values():
        assert account["accepted"] == 1_600 == account["delivered"] + account["digested"]
        assert account["conserved"] is True
        assert 0.2 < account["loss"] < 0.9
        assert account["latency_s"]["mean"] <= account["latency_s"]["p99"] <= account["latency_s"]["max"]
        assert account["errors"]["pulse"]["live"]["rmse"] > 0
        assert account["errors"]["pulse"]["live"]["sources"]["max"] > 0
        assert account["age_s"]["p50"] <= account["age_s"]["p99"]
        assert account["matters"]["pulse > 80"]["kept"] <= account["matters"]["pulse > 80"]["events"] > 0
        assert 0 < account["extremes"]["pulse"]["share"] <= 1
    vitals = found["candidates"]["vitals"]
    assert vitals["packs"] == sum(vitals["levels"].values()) > 0
    assert {one["filter"] for one in vitals["filters"]} >= {"delta"}
    page = (tmp_path / "backtest.html").read_text()
    assert found["report"] == str(tmp_path / "backtest.html")
    assert page.count("data:image/png;base64,") == 2
    assert "accepted 1,600 = delivered" in page


@pytest.mark.usefixtures("opened")
def test_advise_and_what_it_writes(recorded: Path, tmp_path: Path) -> None:
    policy = tmp_path / "policy.yaml"
    printed = here(
        "advise", "--events", str(recorded), "--attribute", "pulse", "--budget", "0.4", "--key", "topic",
        "--capacity", "50", "--out", str(policy), "--matters", "> 78",
    ).stdout  # fmt: skip
    assert "the budget of 40.0 % is met from level" in printed
    assert "advised: accepted" in printed
    assert "the policy keeps" in " ".join(printed.split())
    assert "matters: {gt: 78}" in policy.read_text()
    assert {"live", "later"} <= {*printed.split()}  # errors as seen live, and by who looks back
    here("policy", "check", "--strict", str(policy))


@pytest.mark.usefixtures("opened")
def test_advice_that_gains_nothing_exits_1(recorded: Path) -> None:
    found = answer_here(
        "advise", "--events", str(recorded), "--attribute", "pulse", "--budget", "0.4", "--key", "topic",
        "--capacity", "50", "--drain", "1000/s", ok=1,
    )  # fmt: skip
    assert found["verdict"]["good"] is False
    assert found["verdict"]["unbeaten"] == ["drop-newest", "drop-oldest"]
    assert "needs no policy" in found["verdict"]["sentence"]
    assert set(found["tried"]["levels only"]) == {"kept", "half_s", "age_s", "loss"}


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    path = tmp_path / "broken.parquet"
    path.write_bytes(b"PAR1 but not really PAR1")
    found = answer_here(
        "backtest", "--events", str(path), "--policy", VITALS, "--capacity", "30", "--drain", "1/s", ok=3
    )
    assert str(path) in found["error"]["message"]
