"""The live part of the tour: a node, two phones on slow links, a recording."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, cast

import pyarrow.parquet as pq
import pytest
from tests.kit.progress import silent

from penstock_lab.experiments import phones

pytestmark = pytest.mark.e2e


def test_every_reading_is_accounted_for_and_recorded(tmp_path: Path) -> None:
    command = ["reproduce", "phones", "--quick", "--json", "--out", str(tmp_path)]
    done = subprocess.run(
        [sys.executable, "-m", "penstock", *command], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.stdout, done.stderr
    rows = {row["what"]: row for row in json.loads(done.stdout)["rows"]}
    assert rows["accepted = delivered + digested + queued"]["ok"], rows
    told = rows["readings the phone got or was told about"]
    assert told["ok"], rows
    published = int(told["ours"].split(" of ")[1].replace(",", ""))
    files = list((tmp_path / "recorded-phones").glob("*.parquet"))
    assert sum(pq.read_metadata(path).num_rows for path in files) == published


ALARMS, DELAY, AGE, TOLD, ACCOUNT = range(5)


def evening(status: dict[str, Any] | None = None, **phone: Any) -> Any:
    """A run as if played: 100 readings, 10 of them alarms, on both phones; half of them in digests."""
    run = phones._Evening(cast("Any", None), 1, 10, Path(), silent)
    run.published, run.alarms = 100, 10
    for one in run.phones:
        one.readings, one.digested, one.alarms = 50, 50, 9
        one.delays_s, one.ages_s = [0.1], [1.0]
    run.phones[0].alarms = 10
    run.status = {"account": account(delivered=100)} if status is None else status
    for name, value in phone.items():
        setattr(run.phones[0], name, value)
    return run


def account(*, delivered: int) -> dict[str, int]:
    return {"accepted": 200, "delivered": delivered, "digested": 100, "queued": 0}


@pytest.mark.parametrize(
    ("broken", "rows"),
    [
        ({}, []),
        ({"alarms": 9}, [ALARMS]),
        ({"delays_s": [0.6]}, [DELAY]),
        ({"delays_s": []}, [DELAY]),
        ({"ages_s": [2.1]}, [AGE]),
        ({"ages_s": []}, [AGE]),
        ({"digested": 49}, [TOLD]),
        ({"status": {}}, [ACCOUNT]),
        ({"status": {"account": account(delivered=99)}}, [ACCOUNT]),
    ],
)
def test_each_row_fails_where_its_promise_is_broken(broken: dict[str, Any], rows: list[int]) -> None:
    found = phones._outcome(evening(**broken), 1, quick=True).rows
    assert [number for number, row in enumerate(found) if not row.ok] == rows
