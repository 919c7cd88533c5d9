"""examples/locator: its programs as modules, the project beside it, and what its node records."""

from __future__ import annotations

import importlib.util
import json
import sys
from shutil import copyfile
from typing import TYPE_CHECKING, Any

from penstock.model.event import Event
from penstock.pipeline.project.create import create
from penstock.pipeline.project.settings import open_project
from tests.kit.paths import EXAMPLES

if TYPE_CHECKING:
    from pathlib import Path

    from penstock.pipeline.project.settings import Project

FOLDER = EXAMPLES / "locator"
ADVISED = "advised-locator"
"""The policy that its pipeline advises."""


def _program(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(name, FOLDER / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    found = importlib.util.module_from_spec(spec)
    sys.modules[name] = found  # a dataclass looks for its module
    spec.loader.exec_module(found)
    return found


LINES = _program("syslog_lines")


def pipeline(data: Path) -> Project:
    """The project beside a node's recordings, as the README has it."""
    found = create(data / "pipeline", data=[data / "node"])
    copyfile(FOLDER / "settings.yml", found.folder / "settings.yml")
    return open_project(found.folder)


def syslog_events(count: int) -> list[object]:
    """What the node records of a campus that sends a line each millisecond."""
    campus = _program("campus").Campus(1)
    found: list[object] = []
    while len(found) < count:
        for message in campus.visit():
            try:
                event = LINES.event_of(campus.line(*message))
            except LINES.Refused:
                continue
            number = len(found)
            ts_us = 1_700_000_000_000_000 + 1_000 * number
            payload = json.dumps(event).encode()
            found.append(Event("campus/syslog", payload, ts_us=ts_us, seq=number, sender="gateway"))
    return found[:count]
