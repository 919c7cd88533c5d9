"""Prints the page of a pipeline's tables, from `penstock.pipeline.project.catalogue`.

python tools/tables_page.py > docs/reference/tables.md
"""

from __future__ import annotations

from penstock.pipeline.project.catalogue import CONTROL, TABLES

_HEAD = """\
# Tables of a pipeline

Every table that `penstock pipeline run` keeps up to date, with its columns. This page is made from the
schemas by `tools/tables_page.py`. [The guide](../guides/pipeline.md) says how the tables come about. Times
are whole microseconds since 1970, in UTC. A column without a unit is a name, a count or a share.
"""
_LAYERS = {
    "bronze": "What nodes recorded, each row once, and what could not be read.",
    "silver": "What follows from it.",
    "gold": "What people and nodes use. Control tables get a version each time their rows change.",
}


def page() -> str:
    """The whole page."""
    parts = [_HEAD]
    for layer, about in _LAYERS.items():
        parts.append(f"## {layer.capitalize()}\n\n{about}\n")
        for table in (one for one in TABLES.values() if one.layer == layer):
            control = f" Control table `control/{table.name}`." if table.name in CONTROL else ""
            rows = [
                f"| `{one.name}` | {_kind(one.kind.simpleString())} | {one.unit} | {one.about} |"
                for one in table.columns
            ]
            head = "| column | type | unit | meaning |\n|---|---|---|---|"
            parts.append(f"### `{table.name}`\n\n{table.about}{control}\n\n{head}\n" + "\n".join(rows) + "\n")
    return "\n".join(parts)


def _kind(text: str) -> str:
    """A Spark type; a digest is described elsewhere, and would fill the page."""
    return "[digest](digest-format.md)" if text.startswith("struct<count:") else f"`{text}`"


if __name__ == "__main__":
    print(page(), end="")
