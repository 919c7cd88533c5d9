"""examples/locator: syslog in, locations out, every line accounted for; a policy that a pipeline advises."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from hypothesis import given
from hypothesis import strategies as hs

from penstock.pipeline.tables.control_tables import write_version
from tests.kit.locator import ADVISED, FOLDER, LINES, pipeline

if TYPE_CHECKING:
    from pathlib import Path


STATION = "02:00:00:00:00:2a"


@pytest.mark.parametrize(
    "line",
    [
        f"<134>1 2025-01-06T10:00:00.1Z AP-b01-2 wifi 412 assoc - station {STATION} Associated ip=10.1.0.7",
        f'<134>1 - AP-b01-2 wifi - - [a@1 b="c"][d@1] station {STATION} Associated ip=10.1.0.7\n',
        f"<134>Jan  6 10:00:00 AP-b01-2 wifi[412]: station {STATION} Associated ip=10.1.0.7",
        f"\ufeff<134>Jan 16 10:00:00 AP-b01-2 wifi: station {STATION} Associated ip=10.1.0.7\r\n",
    ],
)
def test_both_forms_of_syslog_mean_the_same(line: str) -> None:
    assert LINES.event_of(line.encode()) == {
        "ap": "AP-b01-2",
        "host": STATION,
        "message_type": "Info",
        "action": "Associated",
        "ip": "10.1.0.7",
    }


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"", "not syslog"),
        (b"<134>", "not syslog"),
        (b"station 02:00:00:00:00:2a Associated", "not syslog"),
        (b"\xff\xfe", "not UTF-8"),
        (b"<134>1 " + b"x" * 3_000, "too long"),
        (f"<999>Jan  6 10:00:00 AP-1 wifi: station {STATION} Associated".encode(), "unknown priority"),
        (f"<135>Jan  6 10:00:00 AP-1 wifi: station {STATION} Associated".encode(), "unknown priority"),
        (b"<134>Jan  6 10:00:00 AP-1 wifi: link up", "unknown message"),
        (b"<134>1 - AP-1 wifi - - -", "unknown message"),
    ],
)
def test_other_lines_are_refused_with_a_reason(line: bytes, reason: str) -> None:
    with pytest.raises(LINES.Refused) as refused:
        LINES.event_of(line)
    assert refused.value.reason == reason


@given(hs.one_of(hs.binary(max_size=300), hs.text(max_size=200).map(lambda text: f"<134>1 {text}".encode())))
def test_no_datagram_does_anything_else(line: bytes) -> None:
    try:
        found = LINES.event_of(line)
    except LINES.Refused:
        return
    assert found.keys() == {"ap", "host", "message_type", "action", "ip"}


def run(*arguments: str) -> Any:
    command = [sys.executable, str(FOLDER / "run.py"), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)


@pytest.mark.e2e
@pytest.mark.slow
def test_the_locator_runs_and_ends_by_itself_and_every_line_is_accounted_for() -> None:
    # Access points that answer slowly hold the locator up, however slowly a busy machine sends.
    found = run("--lines", "2000", "--slow", "0.05")
    gateway, locator = found["gateway"], found["locator"]
    assert found["policy"] == "locator"
    assert 2_000 <= found["sent"] < 2_010
    # Datagrams that a stalled machine loses are lost, as those of real access points.
    assert 0 < gateway["received"] <= found["sent"]
    assert gateway["received"] == gateway["published"] + gateway["overrun"] + sum(gateway["refused"].values())
    assert set(gateway["refused"]) <= {"not syslog", "not UTF-8", "too long"}
    assert locator["events"] + locator["digested"] == gateway["published"]
    assert 0 < locator["located"] <= locator["events"]
    assert 0 < found["map"] <= locator["located"]
    if gateway["published"] > 1_800:  # more than the 1,024 in flight and the 100 of the queue
        assert locator["digests"]
        assert sum(gateway["refused"].values())


# -- a policy that a pipeline advises: the commands of the README --------------------------------------------


@pytest.mark.e2e
@pytest.mark.slow
def test_the_node_gives_the_locator_the_policy_of_a_pipeline_and_records_for_it(tmp_path: Path) -> None:
    project = pipeline(tmp_path)
    (own,) = project.settings.advise
    assert (own.name, project.settings.capacity) == (ADVISED, 100)
    row = {
        "name": own.name,
        "client": own.client,
        "filter": own.filter,
        "policy": "levels: [keep: {latest: 9}]",
    }
    write_version(pa.Table.from_pylist([row]), project.control / "policies", name="policies")
    found = run("--lines", "300", "--data", str(tmp_path), "--advised")
    assert found["policy"] == ADVISED
    assert found["locator"]["events"] + found["locator"]["digested"] == found["gateway"]["published"]
    (folder,) = project.sources("events")
    recorded = ds.dataset(folder, format="parquet").to_table(filter=ds.field("topic") == own.filter)
    assert len(recorded) == found["gateway"]["published"]
