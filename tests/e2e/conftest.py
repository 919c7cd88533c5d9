"""Fixtures of tests with real processes: a browser, a Mosquitto broker."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from playwright import async_api, sync_api
from playwright.sync_api import sync_playwright

from tests.e2e.chromium import ARGUMENTS, chromium
from tests.kit.mosquitto import mosquitto

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser


# A machine that is busy with other tests may stall a browser for a minute; the usual limit is five seconds.
for _api in (sync_api, async_api):
    _api.expect.set_options(timeout=120_000)


@pytest.fixture(scope="module")  # not longer: its event loop stands in the way of tests with their own
def looking() -> Iterator[Browser]:
    """A real browser without a window."""
    program = chromium()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=ARGUMENTS)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """The port of a Mosquitto broker of our own."""
    with mosquitto(tmp_path_factory.mktemp("mosquitto")) as number:
        yield number
