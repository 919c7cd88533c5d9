"""The commands as a user runs them: real processes, standard streams, exit codes."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

import jsonschema
import pytest

from penstock.cli.app import _hint
from penstock.errors import ConnectRefused, PenstockError, PublishRefused, SubscribeRefused, Unreachable
from penstock.policy.filters import CATALOGUE
from tests.kit.command import EXAMPLES, VITALS, answer, answer_here, here, penstock

if TYPE_CHECKING:
    from pathlib import Path

READINGS = [70, 72, 71, 80, 120, 40, 41, 99, 98, 130]

pytestmark = pytest.mark.e2e


@pytest.fixture
def events(tmp_path: Path) -> str:
    path = tmp_path / "events.jsonl"
    path.write_text("".join(f'{{"pulse": {value}}}\n' for value in READINGS))
    return str(path)


def test_try_keeps_and_digests_in_queue_order(events: str) -> None:
    found = answer_here("policy", "try", VITALS, "--events", events, "--level", "2")
    shape = [item.get("event") or item["digest"]["count"] for item in found["items"]]
    assert shape == [4, {"pulse": 120}, {"pulse": 40}, 3, {"pulse": 130}]
    assert found["items"][0]["digest"]["attributes"]["pulse"]["mean"] == 73.25
    assert found["items"][0]["digest"]["attributes"]["pulse"]["max"] == 80
    assert (found["kept"], found["digested"]) == (3, 7)
    assert [(one["level"], one["filter"], one["seen"], one["dropped"]) for one in found["filters"]] == [
        (1, "delta", 10, 4),
        (2, "within", 6, 3),
    ]


def test_try_at_level_0_changes_nothing(events: str) -> None:
    found = answer_here("policy", "try", VITALS, "--events", events, "--level", "0")
    assert [item["event"]["pulse"] for item in found["items"]] == READINGS
    assert found["filters"] == []


def test_try_shows_the_worst_case_as_one_digest(events: str) -> None:
    (item,) = answer_here("policy", "try", VITALS, "--events", events, "--worst-case")["items"]
    assert item["digest"]["count"] == len(READINGS)
    assert item["digest"]["causes"][0]["filter"] == "worst-case"


def test_try_reads_envelopes_from_standard_input() -> None:
    lines = """
        {"topic": "a", "ts": 1000000, "payload": {"v": 1}, "properties": {"unit": "bpm"}}
        {"topic": "b", "ts": "1970-01-01T00:00:02Z", "payload": {"v": 2}}
        {"topic": "a", "ts": 3000000, "payload": "{\\"v\\": 3}"}
    """
    policy = EXAMPLES / "conflate.yaml"
    found = answer("policy", "try", str(policy), "--events", "-", "--level", "2", stdin=lines)
    assert [item["event"]["topic"] for item in found["items"] if "event" in item] == ["b", "a"]
    assert found["items"][0]["digest"]["from_us"] == 1_000_000


TIMED = """
attribute: v
fresh: 500ms
urgent: {gt: 100}
levels: [{drop: {within: [0, 50]}}, {keep: {latest: 2}}]
"""


@pytest.fixture
def timed(tmp_path: Path) -> list[str]:
    """A policy with a time and urgent events, and twelve readings in little more than a second."""
    policy, events = tmp_path / "timed.yaml", tmp_path / "timed.jsonl"
    policy.write_text(TIMED)
    lines = (
        f'{{"topic": "t", "ts": {n * 100_000}, "payload": {{"v": {n * 37 % 130}}}}}' for n in range(1, 13)
    )
    events.write_text("\n".join(lines))
    return [str(policy), "--events", str(events)]


def test_try_with_a_drain_keeps_the_time(timed: list[str]) -> None:
    found = answer_here("policy", "try", *timed, "--drain", "3/s")
    assert found["kept"] + found["digested"] == 12
    assert {pack["in_time"] for pack in found["packs"]} == {True}
    waits = {item["event"]["payload"]["v"]: item["waited_us"] for item in found["items"] if "event" in item}
    assert all(waits[value] < 500_000 for value in (111, 129, 110)), "urgent events go ahead"
    slow = answer_here("policy", "try", *timed, "--drain", "3/s", "--capacity", "4")
    assert {pack["in_time"] for pack in slow["packs"]} == {True, False}
    shown = here("policy", "try", *timed, "--drain", "3/s").stdout
    assert "because an event would wait too long" in shown
    assert "= 12 events" in shown


def test_try_without_a_drain_says_that_the_time_has_no_effect(timed: list[str]) -> None:
    done = here("policy", "try", *timed, "--level", "2")
    assert "fresh: 500 ms has no effect: all events are packed at once; give a --drain" in done.stderr
    assert "kept 5 + digested 7 = 12 events" in done.stdout
    first = answer_here("policy", "try", *timed, "--level", "2")["items"][:3]
    assert [item["event"]["payload"]["v"] for item in first] == [111, 129, 110]
    assert answer_here("policy", "try", *timed, "--worst-case")["kept"] == 3


@pytest.mark.parametrize(
    ("more", "code", "said"),
    [
        (["--drain", "fast"], 3, "a drain is written like 100/s, 30/min, 6250B/s or 50kbit/s, found 'fast'"),
        (["--drain", "0/s"], 3, "drain 0/s: at least one an hour"),
        (["--drain", "1/s", "--level", "1"], 2, "--drain: the queue chooses time and level"),
        (["--drain", "1/s", "--capacity", "2"], 2, "--capacity"),
    ],
)
def test_try_refuses_a_wrong_drain(timed: list[str], more: list[str], code: int, said: str) -> None:
    assert said in here("policy", "try", *timed, *more, ok=code).stderr


def test_try_prints_a_table_and_the_balance(events: str) -> None:
    shown = penstock("policy", "try", VITALS, "--events", events).stdout
    assert "kept 3 + digested 7 = 10 events" in shown


@pytest.mark.parametrize(
    ("lines", "complaint"),
    [
        ('{"pulse": 1}\n{"pulse": \n', ":2: is not JSON"),
        ('{"payload": 1, "ts": "yesterday"}\n', ":1: 'ts' should be microseconds or ISO 8601"),
        ('{"payload": 1, "topic": 5}\n', ":1: 'topic' should be a text"),
        ('{"payload": 1, "properties": [1]}\n', ":1: 'properties' should be"),
        ('{"payload": 1, "seq": 1e400}\n', ":1: "),
    ],
)
def test_a_bad_line_is_named(tmp_path: Path, lines: str, complaint: str) -> None:
    path = tmp_path / "events.jsonl"
    path.write_text(lines)
    done = here("policy", "try", VITALS, "--events", str(path), ok=3)
    assert complaint in done.stderr.replace("\n", " ")
    assert not done.stdout


def test_try_names_a_level_that_is_not_there(events: str) -> None:
    assert "has 3 levels" in here("policy", "try", VITALS, "--events", events, "--level", "9", ok=3).stderr


def test_try_packs_an_empty_stream_to_nothing(tmp_path: Path) -> None:
    path = tmp_path / "empty.jsonl"
    path.write_text("")
    assert answer_here("policy", "try", VITALS, "--events", str(path))["items"] == []


def test_check_accepts_every_example() -> None:
    found = answer("policy", "check", *map(str, sorted(EXAMPLES.iterdir())))
    assert found["ok"]
    assert len(found["policies"]) >= 5


def test_check_names_place_and_near_match(tmp_path: Path) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text("attribute: pulse\nlevels:\n  - drop: {detla: 5}\n")
    done = here("policy", "check", str(path), ok=3)
    assert f"{path}:3:" in done.stderr.replace("\n", "")
    assert "did you mean 'delta'?" in done.stderr.replace("\n", " ")
    (found,) = answer_here("policy", "check", str(path), ok=3)["policies"]
    assert (found["error"]["line"], found["error"]["near"]) == (3, "delta")


def test_check_strict_turns_warnings_into_exit_1(tmp_path: Path) -> None:
    path = tmp_path / "odd.yaml"
    path.write_text("attribute: pulse\nlevels:\n  - keep: {delta: 5}\n")
    assert "warning" in penstock("policy", "check", str(path)).stderr
    penstock("policy", "check", "--strict", str(path), ok=1)


def test_explain_speaks_of_every_level() -> None:
    shown = penstock("policy", "explain", VITALS).stdout
    assert all(f"Level {level}" in shown for level in (1, 2, 3))


@pytest.mark.parametrize("form", ["yaml", "xml", "json"])
@pytest.mark.parametrize("example", sorted(path.name for path in EXAMPLES.iterdir()))
def test_convert_loses_nothing(tmp_path: Path, example: str, form: str) -> None:
    there = tmp_path / f"policy.{form}"
    here("policy", "convert", str(EXAMPLES / example), "--to", form, "--out", str(there))
    straight = here("policy", "convert", str(EXAMPLES / example), "--to", "yaml").stdout
    assert here("policy", "convert", str(there), "--to", "yaml").stdout == straight


def test_the_schema_accepts_a_policy() -> None:
    schema = json.loads(penstock("policy", "schema").stdout)
    policy = json.loads(penstock("policy", "convert", VITALS, "--to", "json").stdout)
    jsonschema.validate(policy, schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"levels": [{"drop": {"detla": 5}}]}, schema)


def test_filters_lists_the_catalogue() -> None:
    assert [one["name"] for one in answer("filters")["filters"]] == list(CATALOGUE)
    assert all(f"`{name}`" in penstock("filters", "--markdown").stdout for name in ("delta", "swing"))


@pytest.mark.parametrize(
    ("arguments", "code", "complaint"),
    [
        (("policy", "check", "no-such-file.yaml"), 3, "no-such-file.yaml: cannot be read: No such file"),
        (("policy", "explain", str(EXAMPLES)), 3, "cannot be read: Is a directory"),
        (("policy", "convert", VITALS, "--to", "toml"), 2, "toml"),
        (("reproduce", "pack-fig88"), 2, "did you mean 'pack-fig8'?"),
        (("reproduce", "pack-fig8", "--minutes", "1"), 2, "has no option --minutes without --live"),
        (("reproduce", "ward", "--live"), 2, "live experiment"),
        (("bench", "speed"), 2, "there is no benchmark 'speed'"),
        (("polciy",), 2, "No such command"),
    ],
)
def test_mistakes_are_one_message(arguments: tuple[str, ...], code: int, complaint: str) -> None:
    done = here(*arguments, ok=code)
    assert complaint in " ".join(done.stderr.replace("│", " ").split())


def test_a_json_error_is_json_too() -> None:
    found = answer("policy", "explain", "-", stdin="levels: 5", ok=3)
    assert found["error"]["path"] == "levels"


def test_a_closed_pipe_is_no_error() -> None:
    for arguments, first in (("filters --markdown", "# Filters and digesters"), ("filters", "Filters")):
        done = shell(f"set -o pipefail; {sys.executable} -m penstock {arguments} | head -n 1")
        assert (done.returncode, done.stdout.strip(), done.stderr) == (0, first, "")


def shell(command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=300, check=False)


def test_closed_streams_and_poor_terminals_are_no_bugs() -> None:
    me = f"{sys.executable} -m penstock"
    assert shell(f"{me} filters >&-").returncode == 0
    closed = shell(f"{me} policy check - <&-")
    assert (closed.returncode, closed.stderr.strip()) == (3, "error: -: standard input is closed")
    assert shell(f"PYTHONIOENCODING=ascii {me} filters").returncode == 0


def test_no_escape_sequence_of_a_stranger_reaches_the_terminal(tmp_path: Path) -> None:
    policy, events = tmp_path / "odd.yaml", tmp_path / "events.jsonl"
    policy.write_text(
        'name: "[/foo]\\e[31m\\u202e"\ndigest: {"\\e[2J": [last]}\nlevels: [{keep: {every: 9}}]\n'
    )
    events.write_text('{"payload": "\\u001b[31mred", "topic": "t"}\n')
    shown = [
        penstock("policy", "check", str(policy)),
        penstock("policy", "explain", str(policy)),
        penstock("policy", "try", str(policy), "--events", str(events)),
        penstock("policy", "try", str(policy), "--events", str(events), "--level", "0"),
        penstock("policy", "check", "\x1b[31m.yaml", ok=3),
        penstock("bench", "\x1b[31m", ok=2),
    ]
    for done in shown:
        assert not {"\x1b", "\u202e"} & set(done.stdout + done.stderr)


def test_a_wrong_command_line_is_json_too() -> None:
    assert "nope" in answer_here("bench", "nope", ok=2)["error"]["message"]


def test_version_and_help() -> None:
    assert penstock("--version").stdout.startswith("penstock 0.")
    assert "--install-completion" in penstock("--help").stdout


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (Unreachable("nas: Connection refused; is the node up?"), "--node"),
        (Unreachable("nas: its certificate is not trusted: self-signed"), "--ca FILE"),
        (ConnectRefused("bad user name or password", reason=0x86), "--user with --password-env"),
        (PublishRefused("'t': not authorized", reason=0x87), "`acl`"),
        (SubscribeRefused("'t': quota exceeded", reason=0x97), ""),
    ],
)
def test_a_refusal_names_the_option_or_setting_that_helps(error: PenstockError, said: str) -> None:
    assert said in _hint(error)
    assert bool(_hint(error)) == bool(said)
