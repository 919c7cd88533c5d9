"""The browser that looks at dashboards in tests."""

from __future__ import annotations

import pytest

from penstock_lab.rigs.browser import browser

ARGUMENTS = ("--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-dev-shm-usage")


def chromium() -> str:
    """Its program; the test is skipped where there is none."""
    program = browser()
    if program is None:
        pytest.skip("no Chromium on this machine")
    return program
