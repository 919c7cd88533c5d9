"""The tables of figures: each line leads to a number, and no name is given twice."""

from __future__ import annotations

from collections import Counter

import pytest

from penstock.node.observe.figures import Table, numbers, topics, value_at
from penstock.node.observe.tables import TABLES
from tests.kit.paths import ROOT
from tests.kit.status import whole_node

NODE = whole_node()


def parts(table: Table) -> list[object]:
    """The sources of a table's figures."""
    return list(table.shown(NODE)) if table.row_labels else [value_at(table.part, NODE)]


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.part or "node")
def test_every_line_leads_to_a_number(table: Table) -> None:
    rows = parts(table)
    assert rows
    for figure in table.figures:
        found = [number for row in rows for _, number in numbers(figure, row)]
        assert found, figure
        assert all(isinstance(number, (int, float)) for number in found), figure
        assert figure.metric or figure.topic, figure


def test_no_topic_is_given_twice() -> None:
    found = Counter(topic for table in TABLES for topic, _ in topics(table, NODE))
    assert [topic for topic, times in found.items() if times > 1] == []


def test_figures_of_one_metric_have_one_kind_and_one_label_and_the_first_says_what_it_is() -> None:
    seen: dict[str, tuple[str, str]] = {}
    for table in TABLES:
        for figure in table.figures:
            if not figure.metric:
                continue
            name = table.metrics + figure.metric
            assert name in seen or figure.about, name
            assert seen.setdefault(name, (figure.kind, figure.label)) == (figure.kind, figure.label)
            assert figure.label or name not in list(seen)[:-1], name


GUIDES = "".join(path.read_text() for path in sorted((ROOT / "docs/guides").glob("*.md")))


def test_the_guides_name_every_metric() -> None:
    names = {table.metrics + figure.metric for table in TABLES for figure in table.figures if figure.metric}
    assert sorted(name for name in names if not is_named(name)) == []


def is_named(name: str) -> bool:
    """Whether a metric is named in full, or by its end after another one: `penstock_a_b`, `…_c`."""
    ends = [name[place:] for place, sign in enumerate(name) if sign == "_"]
    return any(text in GUIDES for text in (f"`penstock_{name}", *(f"`…{end}" for end in ends)))
