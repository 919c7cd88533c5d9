"""`penstock filters`: lists the filters and digesters of the policy language, from the code itself."""

from __future__ import annotations

from typing import Annotated, Any, Final

import typer

from penstock.cli.output import JsonFlag, print_json, print_text
from penstock.cli.terminal import print_table
from penstock.policy import digesters, filters, params, paths


def show(
    as_json: JsonFlag = False,
    markdown: Annotated[
        bool, typer.Option("--markdown", help="Print Markdown, as in the documentation.")
    ] = False,
) -> None:
    """List every filter and digester.

    With what each does, and with its parameters.
    """
    if as_json:
        print_json({"filters": _filters(), "digesters": _digesters(), "pseudo_attributes": paths.PSEUDO})
    elif markdown:
        print_text(as_markdown())
    else:
        rows = [(one["name"], one["verb"], one["matches"], _listed(one["parameters"])) for one in _filters()]
        print_table("Filters", ("name", "usual verb", "matches events with", "parameters"), rows)
        print_table("Digesters", ("name", "says"), [(one["name"], one["says"]) for one in _digesters()])
        print_table("Pseudo-attributes", ("name", "is"), list(paths.PSEUDO.items()))


def _filters() -> list[dict[str, Any]]:
    return [
        {
            "name": node.name,
            "verb": node.verb.value,
            "matches": node.doc,
            "needs": node.shape.value,
            "reads_attribute": node.reads,
            "in_paper": node.in_paper,
            "parameters": [_parameter(found) for found in params.params_of(node)],
        }
        for node in filters.CATALOGUE.values()
    ]


def _parameter(found: params.Param) -> dict[str, Any]:
    return {
        "name": found.name,
        "kind": found.kind.name,
        "required": found.required,
        "default": found.default,
        "aliases": list(found.aliases),
        "doc": found.doc,
    }


def _digesters() -> list[dict[str, Any]]:
    return [
        {"name": one.name, "says": one.doc, "numbers_only": one.numeric, "in_paper": one.in_paper}
        for one in digesters.CATALOGUE.values()
    ]


def _listed(parameters: list[dict[str, Any]]) -> str:
    return "; ".join(
        f"{one['name']} ({one['kind']}{'' if one['required'] else f', default {_default(one)}'})"
        for one in parameters
    )


def _default(parameter: dict[str, Any]) -> str:
    return "none" if parameter["default"] is None else str(parameter["default"])


_INTRODUCTION: Final = (
    "A filter *matches* some events of a queue; the verb says whether those are dropped or kept. "
    "*Needs*: the event alone, the whole queue, or what was kept before."
)


def as_markdown() -> str:
    """Return the reference page of filters and digesters as Markdown."""
    lines = ["# Filters and digesters", "", "Made by `penstock filters --markdown`; do not edit.", ""]
    lines += ["## Filters", "", _INTRODUCTION, ""]
    lines += [
        "| filter | usual verb | matches | needs | origin |",
        "|---|---|---|---|---|",
    ]
    for one in _filters():
        origin = "paper" if one["in_paper"] else "Penstock"
        matches = one["matches"].replace("|", "\\|")
        lines.append(f"| `{one['name']}` | {one['verb']} | {matches} | {one['needs']} | {origin} |")
    lines += [
        "",
        "## Parameters",
        "",
        "The first parameter is what the short form gives: `drop: {delta: 5}`.",
        "",
    ]
    lines += ["| filter | parameter | kind | default | meaning |", "|---|---|---|---|---|"]
    for one in _filters():
        for parameter in one["parameters"]:
            default = "required" if parameter["required"] else _default(parameter)
            also = f" (also `{'`, `'.join(parameter['aliases'])}`)" if parameter["aliases"] else ""
            cells = (
                f"`{one['name']}`",
                f"`{parameter['name']}`{also}",
                parameter["kind"],
                default,
                parameter["doc"],
            )
            lines.append(f"| {' | '.join(cells)} |")
    lines += ["", "## Digesters", "", "| digester | says | reads | origin |", "|---|---|---|---|"]
    for digester in _digesters():
        reads = "numbers" if digester["numbers_only"] else "any value"
        origin = "paper" if digester["in_paper"] else "Penstock"
        lines.append(f"| `{digester['name']}` | {digester['says']} | {reads} | {origin} |")
    lines += ["", "## Pseudo-attributes", "", "| name | is |", "|---|---|"]
    lines += [f"| `{name}` | {doc} |" for name, doc in paths.PSEUDO.items()]
    return "\n".join(lines) + "\n"
