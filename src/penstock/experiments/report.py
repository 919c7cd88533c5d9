"""Puts the result of an experiment into an HTML page."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from penstock.cli.html_page import Page
    from penstock.experiments.outcome import Outcome

_MARKS: Final = {True: '<span class="yes">yes</span>', False: '<span class="no">no</span>', None: "–"}


def add_result(page: Page, outcome: Outcome) -> None:
    """Add the claims, tables and plots of an experiment to a page."""
    page.text(f"{outcome.setting}; seed {outcome.seed}.")
    rows = [
        [
            escape(row.what),
            escape(row.paper),
            escape(row.ours),
            _MARKS[row.ok],
            f'<span class="note">{escape(row.note)}</span>',
        ]
        for row in outcome.rows
    ]
    page.raw_table(["what", escape(outcome.rival), "ours", "holds", "note"], rows)
    for table in outcome.tables:
        page.heading(table.title)
        page.table(table.header, table.rows)
    for plot in outcome.plots:
        page.picture(plot)
