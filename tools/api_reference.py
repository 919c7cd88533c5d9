"""Writes pages of the reference from docstrings: public names, and the parts of the pipeline.

    python3 tools/api_reference.py > docs/reference/api.md
    python3 tools/api_reference.py pipeline > docs/reference/pipeline-api.md

A test compares the pages with what this program prints.
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
from importlib import import_module
from textwrap import dedent, indent
from typing import Any, Final

import penstock
import penstock.pipeline

HEAD: Final = """\
# Public names

`from penstock import …` gives these names; each is imported on first use. More names are one folder deep:
`penstock.policy` (`policy`, `drop`, `keep` and `when` build a policy, `to_yaml` and others write it),
`penstock.model`, `penstock.client`, `penstock.core.queues`, `penstock.pipeline`, `penstock.node`.

This page is written by `tools/api_reference.py` from the docstrings.
"""

GROUPS: Final = {
    "Client": ("Client", "Subscription", "Published", "ReceivedEvent", "ReceivedDigest"),
    "Reliable streams": ("StreamReader", "StreamWriter", "StreamMessage"),
    "Policies": ("parse", "explain", "lint", "Policy"),
    "Events and digests": ("Event", "Digest"),
    "Spark": ("pack", "pack_stream", "effect"),
    "Errors": (
        "PenstockError",
        "PolicyError",
        "InputError",
        "ClientError",
        "Unreachable",
        "PublishRefused",
        "SubscribeRefused",
        "ConnectionLost",
        "BufferFull",
    ),
}
"""Every public name under the heading of its section."""


PIPELINE_HEAD: Final = """\
# The pipeline in Python

Names for programs and notebooks, and for the file of definitions of a [pipeline](../guides/pipeline.md).
The module of each is named below it; those of `penstock.pipeline` itself are imported from there. A
transform is for `frame.transform(…)` and asks neither frame nor session for anything
([transforms](../guides/spark.md)). The columns of every table are on [a page of their own](tables.md).

This page is written by `tools/api_reference.py` from the docstrings.
"""

PIPELINE: Final = {
    "Sessions": {"session": ("open_session", "few_parts")},
    "Policies on frames": {
        "compile.transforms": ("pack", "effect"),
        "stream.pack_stream": ("pack_stream", "stands_for", "held"),
        "compile.digest_rows": (
            "with_digests",
            "with_wire",
            "digest_of_row",
            "row_of_digest",
            "items_of_rows",
        ),
    },
    "Reading and writing": {
        "tables.recorded": ("read",),
        "tables.folders": ("folder_stream", "write_folder"),
        "tables.control_tables": ("publish", "newest_version", "roll_back"),
        "connector.control_sink": ("register_control",),
    },
    "Jobs": {
        "jobs.backtest.replay": ("backtest", "backtested"),
        "jobs.advise.profile": ("AdviceRequest",),
        "jobs.advise.advice": ("advise", "Advice"),
        "tables.channels": ("channel_factors", "by_domain"),
        "jobs.allocation": ("AllocationTerms", "allocation", "allocated", "Allocated"),
        "jobs.flows": ("flows", "reservations", "history_filter"),
    },
    "Definitions of tables": {
        "project.expectations": ("expect", "checked", "dropped"),
        "project.bronze": ("recorded", "arrivals", "quarantine"),
        "project.silver": (
            "packed",
            "digests",
            "channel_factors",
            "flows",
            "filter_effect",
            "recent",
            "once",
        ),
        "project.gold": ("allocation", "reservations", "report", "health", "receivers"),
    },
    "Projects and runs": {
        "project.create": ("create",),
        "project.settings": (
            "open_project",
            "PipelineSettings",
            "AllocationSettings",
            "AdviceSettings",
        ),
        "project.run": ("run_once",),
        "project.runs": ("Run", "TableRun", "last_runs", "Backlog", "backlog"),
        "project.status": ("status_of",),
    },
}
"""Parts of the pipeline under the heading of their section, by module."""

INTERNAL: Final = {
    *(("Client", name) for name in ("relieved", "taken")),
    *(("Subscription", name) for name in ("behind", "behind_still", "end", "matches", "put")),
    *(("Event", name) for name in ("root", "cells", "other", "beside")),
}
"""Attributes that other parts of the package use, not programs."""

WIDTH: Final = 100


def page() -> str:
    """Return the whole page."""
    parts = [HEAD]
    for heading, names in GROUPS.items():
        parts.append(f"## {heading}\n")
        parts += [_section(name, getattr(penstock, name)) for name in names]
    return "\n".join(parts).rstrip() + "\n"


def pipeline_page() -> str:
    """Return the page of the pipeline."""
    parts = [PIPELINE_HEAD]
    for heading, modules in PIPELINE.items():
        parts.append(f"## {heading}\n")
        for module, names in modules.items():
            place = f"penstock.pipeline.{module}"
            own = import_module(place)
            for name in names:
                shown = "penstock.pipeline" if name in penstock.pipeline.__all__ else place
                shown = place if module.startswith("project") else shown
                parts.append(_section(name, getattr(own, name), place=shown))
    return "\n".join(parts).rstrip() + "\n"


def _section(name: str, found: Any, *, place: str = "") -> str:
    parts = [f"### `{name}`\n", *([f"In `{place}`.\n"] if place else [])]
    if not inspect.isclass(found):
        return "\n".join([*parts, _signature(name, found), _text(found)])
    if issubclass(found, Exception):
        return "\n".join([*parts, _text(found)])
    making = found.__dict__.get("__init__")
    fields = _fields(found)
    if making is not None and making.__doc__ and not fields:
        parts += [_signature(name, making, before="class "), _text(found), _text(making)]
    else:
        parts += [_text(found), *fields]
    for member, value in vars(found).items():
        if (name, member) in INTERNAL or member.startswith("_"):
            continue
        if inspect.isfunction(value) or isinstance(value, property):
            parts.append(_member(member, value))
    return "\n".join(parts)


def _member(name: str, found: Any) -> str:
    if isinstance(found, property):
        return f"`{name}`\n: {indent(_text(found), '  ').strip()}\n"
    return f"{_signature(name, found)}\n{_text(found)}"


def _shown(default: Any, found: Any) -> str:
    """A default value; a schema by its name in the function's module, and a function as dots."""
    if type(default).__name__ == "StructType":
        return next(name for name, value in vars(import_module(found.__module__)).items() if value is default)
    return "..." if inspect.isfunction(default) else repr(default)


def _signature(name: str, found: Any, *, before: str = "def ") -> str:
    """Return the call of a function, one argument in a line where it would be too long."""
    told = inspect.signature(found)
    arguments: list[str] = []
    for each in told.parameters.values():
        if each.kind is each.KEYWORD_ONLY and "*" not in arguments:
            arguments.append("*")
        if each.name != "self":
            default = "" if each.default is each.empty else f" = {_shown(each.default, found)}"
            arguments.append(f"{each.name}: {each.annotation}{default}")
    before = "async def " if inspect.iscoroutinefunction(found) else before
    result = "" if before == "class " else f" -> {told.return_annotation}"
    text = f"{before}{name}({', '.join(arguments)}){result}"
    if len(text) > WIDTH:
        lines = "".join(f"    {each},\n" for each in arguments)
        text = f"{before}{name}(\n{lines}){result}"
    return f"```python\n{text}\n```\n"


def _text(found: Any) -> str:
    said = inspect.getdoc(found)
    if not said:
        raise SystemExit(f"{found!r} has no docstring")
    return f"{_examples(said)}\n"


def _examples(said: str) -> str:
    """Turn indented blocks, the examples of a docstring, into code blocks."""
    blocks = re.split(r"\n\n((?:    .*(?:\n|$)|\n(?=    ))+)", said)
    return "\n\n".join(
        f"```python\n{dedent(block).strip()}\n```" if number % 2 else block.strip()
        for number, block in enumerate(blocks)
        if block.strip()
    )


def _fields(found: type) -> list[str]:
    """Return the fields of a value class with the text below each."""
    (body,) = (
        node for node in ast.parse(dedent(inspect.getsource(found))).body if isinstance(node, ast.ClassDef)
    )
    lines = []
    for node, after in zip(body.body, [*body.body[1:], None], strict=True):
        if not isinstance(node, ast.AnnAssign) or not isinstance(node.target, ast.Name):
            continue
        if (found.__name__, node.target.id) in INTERNAL:
            continue
        said = ""
        if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
            said = f": {' '.join(str(after.value.value).split())}"
        lines.append(f"* `{node.target.id}`{said}")
    return [*lines, ""] if lines else []


if __name__ == "__main__":
    sys.stdout.write(pipeline_page() if sys.argv[1:] == ["pipeline"] else page())
