"""`penstock allocate` as a user runs it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from pyarrow import parquet

from penstock.node.store.control_table import load
from tests.kit.command import answer, answer_here, here, penstock

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.e2e


@pytest.fixture
def channels(tmp_path: Path) -> str:
    path = tmp_path / "channels.parquet"
    table = {
        "url": [f"https://{'big' if row < 30 else f'h{row}'}.org/{row}" for row in range(40)],
        "subscribers": list(range(1, 41)),
        "cost": [1_000.0 + row for row in range(40)],
        "update_interval_us": [(row + 1) * 600_000_000 for row in range(40)],
    }
    parquet.write_table(pa.table(table), path)
    return str(path)


def test_a_table_is_written_that_a_node_loads(channels: str, tmp_path: Path) -> None:
    folder = tmp_path / "allocation"
    for version in (1, 2):
        found = answer_here("allocate", "--channels", channels, "--host-limit", "90", "--out", str(folder))
        assert found["out"] == {"folder": str(folder), "version": version}
    assert (found["scheme"], found["channels"], found["unit"], found["met"]) == ("lite", 40, "polls", True)
    assert found["load"] <= found["budget"] == 820
    assert found["hosts_limited"] == 1
    assert found["interval_s"]["least"] >= 60
    loaded = load(folder, "allocation", {"url": "string", "interval_us": "int64"})
    assert loaded is not None
    assert loaded.version.version == 2
    rows = loaded.table.to_pydict()
    assert len(rows["url"]) == 40
    big = sum(
        1_800e6 / interval
        for url, interval in zip(rows["url"], rows["interval_us"], strict=True)
        if "big" in url
    )
    assert big == pytest.approx(90, rel=1e-5)


def test_a_target_is_reached_with_the_least_load(channels: str) -> None:
    found = answer("allocate", "--channels", channels, "--target", "5min")
    assert (found["scheme"], found["target_s"]) == ("fast", 300)
    assert found["mean_delay_s"] == pytest.approx(300, rel=1e-6)


def test_people_get_a_table(channels: str) -> None:
    done = penstock(
        "allocate", "--channels", channels, "--load", "cost", "--scheme", "fair", "--budget", "9000"
    )
    for said in ("40 channels", "9,000 cost per 30 min", "mean delay per delivered update", "yes"):
        assert said in done.stdout


def test_what_cannot_be_kept_is_the_answer_no(channels: str) -> None:
    found = answer_here("allocate", "--channels", channels, "--budget", "0.01", ok=1)
    assert found["met"] is False
    assert "raise --max or --budget" in found["missed"]
    done = here("allocate", "--channels", channels, "--host-limit", "big.org=0.1", ok=1)
    assert "1 hosts are beyond their limit even with the longest interval, 'big.org'" in done.stderr
    done = here("allocate", "--channels", channels, "--target", "1s", ok=1)
    assert "cannot be reached, 30 s is the least" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        ((), 2, "give --channels, or --polls and --subscriptions"),
        (("--channels", "x.csv", "--polls", "p"), 2, "give --channels, or --polls"),
        (("--polls", "p"), 2, "--polls and --subscriptions go together"),
        (("--channels", "x.csv", "--scheme", "fari"), 2, "did you mean 'fair'?"),
        (("--channels", "x.csv", "--tau", "soon"), 2, "--tau soon: this is no duration"),
        (("--channels", "x.csv", "--host-limit", "a=b"), 2, "--host-limit a=b: write 60"),
        (("--channels", "x.csv", "--engine", "numpy", "--master", "local[1]"), 2, "go with --engine spark"),
        (("--channels", "none.csv"), 3, "none.csv: there is no such file"),
    ],
)
def test_a_wrong_command_line_is_said_at_once(arguments: tuple[str, ...], code: int, said: str) -> None:
    done = here("allocate", *arguments, ok=code)
    assert said in " ".join(done.stderr.split())
