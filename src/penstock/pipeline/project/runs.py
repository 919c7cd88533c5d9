"""The book of a pipeline's runs: files and rows read, rows written, and how far behind the tables are.

Which files were read is taken from Spark's checkpoints, and which files a table consists of from the log
beside it; so the figures are the same for every engine, and nothing is read again to count it.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote, urlparse

import msgspec
from pyarrow import ArrowException, orc, parquet

from penstock.model.recording import TakenMark, mark_name
from penstock.pipeline.project.catalogue import RECORDED, TABLES
from penstock.pipeline.project.settings import PLAIN_FILES

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from penstock.pipeline.project.settings import Project

RUNS: Final = "runs.jsonl"
KEPT: Final = 1_000
"""Runs that are remembered."""


class TableRun(msgspec.Struct, frozen=True, kw_only=True):
    """The work of a run on one table."""

    files_read: int | None = None
    """Files of recorders that were read; None: the table does not read such files."""
    rows_read: int | None = None
    rows_written: int = 0


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """One run of a pipeline."""

    started_us: int
    ended_us: int
    engine: str
    error: str = ""
    """Why the run ended early; empty: it did not."""
    tables: dict[str, TableRun] = {}
    control: dict[str, int] = {}
    """Control tables of which a new version was written, and its number."""


class Backlog(msgspec.Struct, frozen=True, kw_only=True):
    """Recorded files that a bronze table has not read yet."""

    files: int
    bytes: int
    oldest_s: float
    """Age of the oldest of them; 0: there is none."""


def checkpoint_root(project: Project) -> Path:
    """Folder of all checkpoints."""
    return project.folder / "storage" / "_checkpoints"


def files_read(project: Project, table: str) -> set[str]:
    """Files of recorders that are in a table, from its committed triggers."""
    found: set[str] = set()
    for place in checkpoint_root(project).glob(f"*/*/{table}/{table}/*"):
        commits = [int(one.name) for one in (place / "commits").glob("[0-9]*") if one.name.isdigit()]
        last = max(commits, default=-1)
        for source in (place / "sources").glob("[0-9]*"):
            found.update(_path(row["path"]) for row in _log(source) if row.get("batchId", 0) <= last)
    return found


def table_files(project: Project, table: str) -> set[str]:
    """Files that a table consists of; with a format that has a log, also those it had once."""
    folder = project.folder / "tables" / table
    log = folder / "_spark_metadata"
    if log.is_dir():
        return {_path(row["path"]) for row in _log(log) if row.get("action", "add") == "add"}
    every = (path for kind in PLAIN_FILES for path in folder.rglob(f"*.{kind}"))
    return {str(path) for path in every if not path.name.startswith((".", "_"))}


def _log(folder: Path) -> Iterable[dict[str, Any]]:
    """Rows of a log of Spark: a file for each trigger, and at times one with all rows before it."""
    if not folder.is_dir():
        return
    for path in folder.iterdir():
        if path.name.startswith("."):
            continue
        with suppress(OSError):
            for line in path.read_bytes().splitlines()[1:]:  # the first line is the log's version
                yield msgspec.json.decode(line)


def _path(uri: str) -> str:
    return unquote(urlparse(uri).path) if uri.startswith("file:") else uri


def rows_in(files: Iterable[str]) -> int:
    """Rows of Parquet and ORC files, by their footers; files that cannot be read have none."""
    total = 0
    for path in files:
        with suppress(OSError, ArrowException):
            of = orc.ORCFile(path).nrows if path.endswith(".orc") else parquet.read_metadata(path).num_rows
            total += of
    return total


class Accounting:
    """Compares the tables before and after a run."""

    def __init__(self, project: Project) -> None:
        self._project = project
        self._started_us = time.time_ns() // 1_000
        self._read = {kind: files_read(project, kind) for kind in RECORDED}
        self._there = {name: table_files(project, name) for name in TABLES}

    def run(self, *, engine: str, error: str = "", control: dict[str, int] | None = None) -> Run:
        """The figures that have grown since the beginning."""
        tables = {}
        for name in TABLES:
            read = None if name not in RECORDED else files_read(self._project, name) - self._read[name]
            written = rows_in(table_files(self._project, name) - self._there[name])
            tables[name] = TableRun(
                files_read=None if read is None else len(read),
                rows_read=None if read is None else rows_in(read),
                rows_written=written,
            )
        return Run(
            started_us=self._started_us,
            ended_us=time.time_ns() // 1_000,
            engine=engine,
            error=error,
            tables=tables,
            control=control or {},
        )


def remember(project: Project, run: Run) -> None:
    """Add a run to the project's log; the oldest are forgotten."""
    path = project.folder / RUNS
    lines = path.read_bytes().splitlines() if path.exists() else []
    lines = [*lines[-(KEPT - 1) :], msgspec.json.encode(run)]
    made = path.with_suffix(".new")
    made.write_bytes(b"\n".join(lines) + b"\n")
    made.replace(path)


def last_runs(project: Project, count: int = 1) -> list[Run]:
    """The last runs, the newest last; lines that are damaged are left out."""
    path = project.folder / RUNS
    found = []
    for line in path.read_bytes().splitlines() if path.exists() else []:
        with suppress(msgspec.DecodeError):
            found.append(msgspec.json.decode(line, type=Run))
    return found[-count:]


# -- recorders -----------------------------------------------------------------------------------------------


def backlog(project: Project, kind: str) -> Backlog:
    """Complete files of recorders that a bronze table has not read yet."""
    read = files_read(project, kind)
    waiting = [path for path in _complete(project, kind) if str(path) not in read]
    stats = [path.stat() for path in waiting]
    oldest = min((one.st_mtime for one in stats), default=None)
    return Backlog(
        files=len(waiting),
        bytes=sum(one.st_size for one in stats),
        oldest_s=0.0 if oldest is None else max(0.0, time.time() - oldest),
    )


def bytes_to_read(project: Project) -> int:
    """Bytes that a run reads about: of files that wait, and of the tables that views are made from."""
    there = 0
    for path in (path for name in TABLES for path in table_files(project, name)):
        with suppress(OSError):
            there += os.stat(path).st_size  # noqa: PTH116  # a text from a log, not a Path
    return there + sum(backlog(project, kind).bytes for kind in RECORDED)


def _complete(project: Project, kind: str) -> list[Path]:
    return [path for folder in project.sources(kind) for path in sorted(folder.glob("*.parquet"))]


def mark_taken(project: Project) -> None:
    """Tell each recorder up to which of its files every table has them, so that it may delete them."""
    tried = files_read(project, "quarantine")
    packed = files_read(project, "packed")
    for kind in RECORDED:
        read = files_read(project, kind) & tried
        if kind == "events":
            read &= packed
        for folder in project.sources(kind):
            if not folder.is_dir():
                continue
            through = ""
            for path in sorted(folder.glob("*.parquet")):
                if str(path) not in read:
                    break
                through = path.name
            mark = TakenMark(pipeline=str(project.folder), through=through, at_us=time.time_ns() // 1_000)
            made = folder / f".new-{project.identifier}"
            with suppress(OSError):  # a folder that others own: their recorder then keeps what it wants
                made.write_bytes(msgspec.json.encode(mark))
                made.replace(folder / mark_name(project.identifier))
