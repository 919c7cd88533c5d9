"""Writes a new pipeline project; its files are the user's from then on."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from penstock.errors import InputError
from penstock.pipeline.project.database import catalog_of
from penstock.pipeline.project.plain import DEFINITIONS
from penstock.pipeline.project.settings import (
    SETTINGS,
    SPECIFICATION,
    PipelineSettings,
    Project,
    open_project,
)
from penstock.policy.text.forms import parse

if TYPE_CHECKING:
    from collections.abc import Sequence

_SPECIFICATION: Final = """\
# The project for Spark: definitions, and where checkpoints are.
name: penstock
storage: {storage}
catalog: spark_catalog
database: default
libraries:
  - glob:
      include: {definitions}/**
"""

_SETTINGS: Final = """\
# Data folders of the nodes whose recordings are read, relative to this folder.
data: {data}
# Columns of events that name a queue, and the events of one that a run takes before they are packed. Advice
# is for queues of this size: as `queues.events` of the nodes.
key: {key}
capacity: 1000
# Flows, effects of filters and advice are made from the last days' events.
days: 7
# Format of the tables: parquet, orc, or one that your Spark has a library for, as delta or iceberg.
format: parquet
# How polls are shared out, as in the section `channels` of a node.
allocation:
  scheme: lite
  interval_s: 1800
# Classes of receivers whose policies are advised, tried in shadow and then installed, for example:
# advise:
#   - name: dashboards
#     client: dash-*
#     filter: ward/#
#     attributes: [pulse]
#     matters: ["pulse > 120"]
#     budget: 0.3
advise: []
"""

_POLICY: Final = """\
# The policy that packs the recorded events: the last values of each topic.
name: conflate
levels:
  - keep: {latest_by: {by: $topic, n: 3}}
  - keep: {latest_by: $topic}
"""


def create(
    folder: Path, *, data: Sequence[Path], key: Sequence[str] = ("topic",), policy: Path | None = None
) -> Project:
    """Write a project to a folder that is empty or not there yet."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError("is there already; a project needs a folder of its own", path=folder)
    text = _POLICY if policy is None else policy.read_text(encoding="utf-8")
    parse(text, source=str(policy or "policy.yaml"))  # a wrong policy is refused before anything is written
    try:
        for name in (DEFINITIONS, "conf", "tables", "storage", "control"):
            (folder / name).mkdir(parents=True)
        place = folder.resolve()
        given = [os.path.relpath(one.resolve(), place) for one in data]
        (folder / SETTINGS).write_text(_SETTINGS.format(data=_listed(given), key=_listed(key)))
        (folder / "policy.yaml").write_text(text)
        storage = (place / "storage").as_uri()
        (folder / SPECIFICATION).write_text(
            _SPECIFICATION.format(storage=storage, definitions=DEFINITIONS), encoding="utf-8"
        )
        shutil.copyfile(Path(__file__).with_name("definitions.py"), folder / DEFINITIONS / "tables.py")
        project = Project(place, PipelineSettings(data=tuple(given), key=tuple(key)))
        lines = [f"{name} {value}" for name, value in {**catalog_of(project), **_QUIET}.items()]
        (folder / "conf" / "spark-defaults.conf").write_text("\n".join(lines) + "\n")
    except OSError as error:
        raise InputError(f"cannot be written: {error.strerror}", path=error.filename or folder) from None
    return open_project(folder)


_QUIET: Final = {
    "spark.ui.enabled": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": str(4 * (os.cpu_count() or 1)),
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.log.level": "ERROR",
}
"""Settings for one machine, as the other commands have them."""


def _listed(names: Sequence[str]) -> str:
    """A list of texts in YAML, on one line: JSON is such a list."""
    return msgspec.json.encode(list(names)).decode()
