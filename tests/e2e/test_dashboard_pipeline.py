"""Control tables on the dashboard of a real node, in a real browser: one that is refused, and a rollback."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from penstock.pipeline.tables.control_tables import roll_back
from penstock_lab.rigs.local_node import local_node
from tests.kit.dashboard_scene import LATEST, publish_policies

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.sync_api import Browser

pytestmark = pytest.mark.e2e


def test_a_refused_table_and_a_rollback_are_shown_with_the_reason(looking: Browser, tmp_path: Path) -> None:
    table = tmp_path / "policies"
    publish_policies(table, ("<b>one</b>", "*", LATEST.format("one", 5)))
    publish_policies(table, ("broken", "*", "levels: 7"))
    with local_node({"policy_table": str(table)}) as node:
        page = looking.new_page()
        page.goto(f"{node.http}#/cluster")
        expect(page.locator("#cluster-none")).to_be_visible()
        expect(page.locator("#cluster-account")).to_be_hidden()
        expect(page.locator("#link-cluster")).to_be_hidden()
        page.locator("#link-pipeline a").click()
        cells = page.locator("#table-rows td")
        expect(cells.nth(1)).to_have_text("refused, none in use")
        expect(page.locator("#table-changes .notice")).to_contain_text("The newest version was refused: ")
        expect(page.locator("#tables-count")).to_have_text("1 table, 1 with a newer version that was refused")
        roll_back(table, to=1)
        expect(cells.nth(1)).to_have_text("in use")
        expect(cells.nth(2)).to_have_text("3")
        changes = page.locator("#table-changes")
        expect(changes).to_contain_text("rolled back from version 2 to version 1")
        expect(changes.locator(".notice")).to_be_hidden()
        expect(changes.locator("ins")).to_contain_text("<b>one</b> * ward/#")
        page.close()
