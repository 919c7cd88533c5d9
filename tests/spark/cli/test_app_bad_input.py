"""Bad input to the Spark commands: one sentence that names the column, the file or the row, and exit code 3.

The command line is real; the session is the tests' own: one for each case would take minutes.
"""

from __future__ import annotations

import json
import shutil
import sys
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.cli.app import main
from tests.kit.command import VITALS

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


ROWS: list[dict[str, Any]] = [
    {"patient": "ab"[place % 2], "ts": place * 1_000_000, "seq": place, "pulse": 60.0 + place * 7 % 40}
    for place in range(60)
]
BROKEN_DIGEST = {"count": -1, "from_us": 5}


def lines(path: Path, rows: list[Any]) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows))


def parquet(path: Path, rows: list[dict[str, Any]]) -> None:
    path.parent.mkdir(exist_ok=True)
    pq.write_table(pa.Table.from_pylist(rows), path)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Streams, each wrong in its own way: for batches by name, for `shed` a folder each."""
    top = tmp_path_factory.mktemp("bad")
    parquet(top / "good.parquet", ROWS)
    whole = (top / "good.parquet").read_bytes()
    (top / "broken.parquet").write_bytes(whole[:700])
    (top / "empty.jsonl").write_text("")
    (top / "ragged.csv").write_text("patient,ts,pulse\na,1,2\nb,2\n")
    lines(top / "bad.jsonl", [*ROWS[:5], "{not json", *ROWS[5:]])
    lines(top / "untimed.jsonl", [{name: row[name] for name in ("patient", "pulse")} for row in ROWS])
    lines(top / "half.jsonl", [*ROWS, {**ROWS[0], "ts": None}])
    lines(top / "nested.jsonl", [{**row, "pulse": {"x": 1}} for row in ROWS])
    written = [f"{row['patient']},{row['ts']},{row['pulse']}\n" for row in ROWS]
    (top / "typo.csv").write_text("".join(["patient,ts,pulse\n", *written, "b,61000000,hihg\n"]))
    lines(top / "gaps.jsonl", [{**row, "pulse": None if row["seq"] % 2 else 3.0} for row in ROWS])
    lines(top / "words.jsonl", [{**row, "pulse": "high"} for row in ROWS])
    lines(top / "digests.jsonl", [{**row, "digest": BROKEN_DIGEST} for row in ROWS])
    parquet(top / "mixed.parquet" / "a.parquet", ROWS)
    parquet(top / "mixed.parquet" / "b.parquet", [{**row, "pulse": "high"} for row in ROWS])
    (top / "empty").mkdir()
    damaged = bytearray(whole)
    damaged[60:400] = b"\x00\xff" * 170
    (top / "damaged").mkdir()
    (top / "damaged" / "one.parquet").write_bytes(damaged)
    parquet(top / "good" / "one.parquet", ROWS)
    parquet(top / "bytes" / "one.parquet", [{**row, "digest": b"nonsense"} for row in ROWS])
    lines(top / "bad" / "one.json", [*ROWS, "{not json"])
    lines(top / "half" / "one.json", [*ROWS, {**ROWS[0], "ts": None}])
    lines(top / "digests" / "one.json", [*ROWS, {**ROWS[0], "digest": BROKEN_DIGEST}])
    (top / "file").write_text("")
    channels: list[Any] = [{"url": f"https://h{number}.org/", "subscribers": 3} for number in range(3)]
    lines(top / "channels.jsonl", [*channels, "{not json"])
    lines(top / "numbers.jsonl", [{"url": 5, "subscribers": 3}])
    return top


@pytest.fixture
def refused(
    opened: None,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Callable[..., str]:
    """Runs a command; its complaint."""

    def run(*arguments: str) -> str:
        monkeypatch.setattr(sys, "argv", ["penstock", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        said = capsys.readouterr()
        assert ended.value.code == 3, said.err
        assert "Traceback" not in said.err
        assert said.err.count("error:") == 1
        return " ".join(said.err.split())

    return run


RECORDED = [
    ("missing.jsonl", "missing.jsonl: there is no such file or folder"),
    ("broken.parquet", "broken.parquet: cannot be read: it is damaged, or of another format"),
    ("empty.jsonl", "empty.jsonl: there is no event in it"),
    ("empty", "empty: there is no parquet data in it"),
    (
        "ragged.csv",
        "ragged.csv: cannot be read: ",
    ),
    ("bad.jsonl", "bad.jsonl: a line is not a JSON object: '{not json'"),
    ("untimed.jsonl", "untimed.jsonl: there is no column 'ts' for the time of an event"),
    ("half.jsonl", "half.jsonl: an event without a time: column 'ts' of Row(patient='a'"),
    ("nested.jsonl", "attribute 'pulse': column 'pulse' is struct<x:bigint>"),
    ("digests.jsonl", "column 'digest': a stream with digests in it is packed already"),
    ("mixed.parquet", "b.parquet: cannot be read: Data type mismatches when reading Parquet column [pulse]"),
]


@pytest.mark.parametrize(("name", "said"), RECORDED)
def test_backtest(name: str, said: str, folder: Path, refused: Callable[..., str]) -> None:
    assert said in refused(
        "backtest", "--engine", "spark", "--events", str(folder / name), "--policy", VITALS,
        "--capacity", "10", "--drain", "0.1/s", "--key", "patient", "--out", str(folder / "report"),
    )  # fmt: skip


@pytest.mark.parametrize(("name", "said"), RECORDED)
def test_advise(name: str, said: str, folder: Path, refused: Callable[..., str]) -> None:
    assert said in refused(
        "advise",
        "--events",
        str(folder / name),
        "--attribute",
        "pulse",
        "--budget",
        "0.3",
        "--key",
        "patient",
    )


@pytest.mark.parametrize(
    ("name", "more", "said"),
    [
        ("words.jsonl", (), "attribute 'pulse': in none of 60 events is it a number, which the filter"),
        ("typo.csv", (), "needs; 60 of the values are numbers written as texts, but not 'hihg'"),
        ("good.parquet", ("--key", "ward"), "there is no column 'ward' to make queues by"),
        ("good.parquet", ("--column", "pulse=hr"), "attribute 'pulse': there is no column 'hr'"),
        ("good.parquet", ("--seq", "patient"), "attribute '$seq': column 'patient' is string"),
        ("good.parquet", ("--ts", "pulse"), "column 'pulse' is double, expected whole microseconds"),
        ("good.parquet", ("--out", "{}/file"), "file: cannot be written: File exists"),
    ],
)
def test_backtest_of_wrong_columns(
    name: str, more: tuple[str, ...], said: str, folder: Path, refused: Callable[..., str]
) -> None:
    assert said in refused(
        "backtest", "--engine", "spark", "--events", str(folder / name), "--policy", VITALS,
        "--capacity", "10", "--drain", "1/s", "--out", str(folder / "report"),
        *(part.format(folder) for part in more),
    )  # fmt: skip


def test_a_policy_that_cannot_be_written_is_said_before_it_is_made(
    folder: Path, refused: Callable[..., str]
) -> None:
    said = refused(
        "advise",
        "--events",
        "nowhere",
        "--attribute",
        "pulse",
        "--budget",
        "0.3",
        "--out",
        str(folder / "good"),
    )
    assert "good: cannot be written: it is a folder" in said


@pytest.mark.parametrize(
    ("name", "more", "said"),
    [
        ("missing", (), "missing: there is no such file or folder"),
        ("empty", (), "empty: there is no parquet data in it"),
        ("damaged", (), "one.parquet: cannot be read: "),
        ("bytes", (), "column 'digest' is binary, expected digests"),
        ("bad", ("--format", "json"), "one.json: a line is not a JSON object: {not json"),
        ("half", ("--format", "json"), "one.json: an event without a time: column 'ts' is null"),
        ("digests", ("--format", "json"), "column 'digest' where patient = 'a': a damaged digest: it needs"),
        ("good", ("--key", "ward"), "there is no column 'ward' to make queues by"),
        ("good", ("--ts", "when"), "there is no column 'when' for the time of an event"),
        ("good", ("--out", "{}/file"), "file: is a file; a folder is needed"),
        ("mixed.parquet", (), "b.parquet: cannot be read: Data type mismatches"),
    ],
)
def test_shed(
    name: str,
    more: tuple[str, ...],
    said: str,
    folder: Path,
    tmp_path: Path,
    refused: Callable[..., str],
) -> None:
    found = refused(
        "shed", "--in", str(folder / name), "--out", str(tmp_path / "out"), "--policy", VITALS,
        "--capacity", "5", "--key", "patient", *(part.format(folder) for part in more),
    )  # fmt: skip
    assert said in found
    assert "Query [" not in found


@pytest.mark.usefixtures("opened")
def test_shed_by_another_key_than_the_checkpoint(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refused: Callable[..., str]
) -> None:
    (tmp_path / "in").mkdir()
    shutil.copy(folder / "good" / "one.parquet", tmp_path / "in")
    command = ["shed", "--in", str(tmp_path / "in"), "--out", str(tmp_path / "out"), "--policy", VITALS]
    command += ["--capacity", "5"]
    monkeypatch.setattr(sys, "argv", ["penstock", *command, "--key", "patient"])
    with pytest.raises(SystemExit, match="0"):
        main()
    shutil.copy(folder / "good" / "one.parquet", tmp_path / "in" / "two.parquet")
    said = "_checkpoint: this checkpoint is of queues by other columns than seq; name another one"
    assert said in refused(*command, "--key", "seq")


def test_generate(folder: Path, refused: Callable[..., str]) -> None:
    said = refused("generate", "vitals", "--events", "5", "--out", str(folder / "file" / "x.parquet"))
    assert "x.parquet: cannot be written: Not a directory" in said
    assert "holds 'one.parquet'" in refused(
        "generate", "vitals", "--events", "5", "--out", str(folder / "good")
    )


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("channels.jsonl", "channels.jsonl: a line is not a JSON object: '{not json'"),
        ("numbers.jsonl", "numbers.jsonl: the column 'url' holds bigint, not texts"),
        ("broken.parquet", "broken.parquet: cannot be read"),
        ("good.parquet", "good.parquet: there is no column 'url'"),
    ],
)
def test_allocate(name: str, said: str, folder: Path, refused: Callable[..., str]) -> None:
    assert said in refused("allocate", "--channels", str(folder / name), "--engine", "spark")


@pytest.mark.usefixtures("opened")
def test_a_budget_that_is_missed_is_one_answer_and_a_complaint(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ("advise", "--events", str(folder / "gaps.jsonl"), "--attribute", "pulse", "--budget", "0.3")
    monkeypatch.setattr(sys, "argv", ["penstock", *command, "--capacity", "20", "--json"])
    with pytest.raises(SystemExit) as ended:
        main()
    said = capsys.readouterr()
    assert ended.value.code == 1, said.err
    assert json.loads(said.out)["met"] is False
    assert "no level keeps 30.0 % or less of what was held out" in said.err


@pytest.mark.usefixtures("opened")
def test_numbers_that_a_typo_made_texts_are_doubted(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ("advise", "--events", str(folder / "typo.csv"), "--attribute", "pulse", "--budget", "0.6")
    monkeypatch.setattr(sys, "argv", ["penstock", *command, "--capacity", "20", "--json"])
    with pytest.raises(SystemExit):
        main()
    (doubt,) = json.loads(capsys.readouterr().out)["doubts"]
    assert doubt.startswith("attribute 'pulse' is read as text: 42 of the values are numbers")
