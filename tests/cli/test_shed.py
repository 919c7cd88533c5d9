"""`penstock shed` before Spark starts: what is wrong with a command line; the guide runs the rest."""

from __future__ import annotations

import pytest

from tests.kit.command import VITALS, here

pytestmark = pytest.mark.e2e

GOOD = ("shed", "--in", "in", "--out", "out", "--policy", VITALS, "--key", "patient", "--capacity", "20")


@pytest.mark.parametrize(
    ("more", "code", "said"),
    [
        (("--every", "soon"), 2, "--every soon: this is no duration; write 500ms, 10s, 2m or 1h"),
        (("--once", "--every", "10s"), 2, "--once ends, --every does not"),
        (("--capacity", "2"), 2, "--capacity"),
        (("--backlog", "drop"), 2, "--backlog"),
        (("--drain", "fast"), 3, "a drain is written like 100/s, 30/min, 6250B/s or 50kbit/s, found 'fast'"),
        (("--drain", "1/s", "--backlog", "shed"), 2, "--drain holds rows by its pace, --backlog shed by age"),
        (("--drain", "1/s", "--hold", "0s"), 2, "--hold 0s holds nothing, and a drain holds"),
        (("--behind", "-1s"), 2, "--behind -1s: this is no duration"),
        (("--policy", "nowhere.yaml"), 3, "nowhere.yaml: cannot be read"),
    ],
)
def test_a_wrong_command_line_is_said_so(more: tuple[str, ...], code: int, said: str) -> None:
    assert said in here(*GOOD, *more, ok=code).stderr
