"""The status of a pipeline, without Spark: what waits, what the last run did, what is not as expected."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

import msgspec
from pyarrow import ArrowException, orc, parquet

from penstock.pipeline.project.catalogue import CONTROL, RECORDED, TABLES
from penstock.pipeline.project.runs import backlog, last_runs, rows_in, table_files
from penstock.pipeline.project.settings import PLAIN_FILES
from penstock.pipeline.tables.control_tables import newest_version

if TYPE_CHECKING:
    from penstock.pipeline.project.settings import Project

_TROUBLE: Final = ("broken", "quarantined")


def status_of(project: Project) -> dict[str, Any]:
    """The state of a project, as `penstock pipeline status --json` prints it."""
    runs = last_runs(project)
    last = runs[-1] if runs else None
    plain = project.settings.format in PLAIN_FILES
    tables = {}
    for name in TABLES:
        done = None if last is None else last.tables.get(name)
        files = table_files(project, name)
        tables[name] = {
            "layer": TABLES[name].layer,
            "rows": rows_in(files) if plain else None,  # else the files have rows of former versions, too
            "rows_read": None if done is None else done.rows_read,
            "rows_written": None if done is None else done.rows_written,
            "waiting": msgspec.to_builtins(backlog(project, name)) if name in RECORDED else None,
        }
    health = _health(project) if plain else []
    return {
        "folder": str(project.folder),
        "last_run": None if last is None else msgspec.to_builtins(last),
        "tables": tables,
        "broken": [row for row in health if row["measure"] in _TROUBLE],
        "health": health,
        "control": _control(project),
    }


def _health(project: Project) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for path in sorted(table_files(project, "health")):
        try:
            with open(path, "rb") as file:  # noqa: PTH123  # a text from a log, not a Path
                read = orc.ORCFile if path.endswith(".orc") else parquet.ParquetFile
                found += read(file).read().to_pylist()
        except (OSError, ArrowException):  # a run is replacing the table at this moment
            return []
    return sorted(found, key=lambda row: (row["measure"], row["name"] or ""))


def _control(project: Project) -> dict[str, Any]:
    found = {}
    for name in CONTROL:
        version = newest_version(project.control / name)
        if version is not None:
            found[name] = {
                "version": version.version,
                "rows": version.rows,
                "made_us": version.made_us,
                "age_us": max(0, time.time_ns() // 1_000 - version.made_us),
                "note": version.note,
                "folder": str(project.control / name),
            }
    return found
