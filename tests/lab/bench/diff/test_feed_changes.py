"""Feeds: exactly what changed is told, whatever else is written anew."""

from __future__ import annotations

import pytest

from penstock.core.channels.difference import Rules, read
from penstock_lab.bench.diff.feed_changes import DIALECTS, URL, Writing, a_feed, measured

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("dialect", DIALECTS)
def test_every_dialect_has_all_items_with_their_texts(dialect: str) -> None:
    items = a_feed(3)
    body = DIALECTS[dialect](items, Writing()).encode()
    found = read(body, content_type="application/xml", url=URL, rules=Rules()).items
    assert [item.title.rpartition(": ")[2] for item in found] == [item.title for item in items]
    for item, read_item in zip(items, found, strict=True):
        assert all(text in "\n".join(read_item.lines) for text in item.paragraphs)


def test_changes_are_told_exactly_and_nothing_else_is() -> None:
    cases, false, inexact = measured(1)
    assert (cases["noise"], cases["edits"]) == (80, 70)
    assert false.total() <= 0.01 * cases["noise"], false
    assert inexact.total() <= 0.01 * cases["edits"], inexact
