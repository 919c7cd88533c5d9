"""Every page of the dashboard, light and dark, wide and narrow: nothing wrong in the console, no sideways
scrolling, readable contrast. With PENSTOCK_SCREENSHOTS=folder (`make screenshots`) the pictures are kept."""

from __future__ import annotations

import os
import re
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest
from playwright.sync_api import expect

from tests.kit.dashboard_scene import TOKEN, scene

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from playwright.sync_api import Browser, Page

    from tests.kit.dashboard_scene import Scene

pytestmark = pytest.mark.e2e

SLOW_MS: Final = 180_000
KEPT: Final = os.environ.get("PENSTOCK_SCREENSHOTS", "")


def overview(page: Page, _: Scene) -> None:
    expect(page.locator("#account-verdict")).to_have_text("✓ every event accounted for", timeout=SLOW_MS)
    expect(page.locator("#account-streams")).to_contain_text("no reader missed anything", timeout=SLOW_MS)
    expect(page.locator("#slow-list li")).to_have_count(1, timeout=SLOW_MS)
    expect(page.locator("#charts path.line").first).to_have_attribute(
        "d", re.compile("L.*L"), timeout=SLOW_MS
    )


def clients(page: Page, _: Scene) -> None:
    page.locator("#client-rows .who button").filter(has_text="phone of ward 3").click(timeout=SLOW_MS)
    expect(page.locator("tr.details")).to_contain_text("vitals", timeout=SLOW_MS)


def topics(page: Page, _: Scene) -> None:
    row = page.locator("#topic-rows tr").filter(has_text="ward").first
    expect(row).to_contain_text("/s", timeout=SLOW_MS)
    expect(page.locator("#topic-rows tr").filter(has_text="door")).to_contain_text("retained")


def messages(page: Page, scene_: Scene) -> None:
    page.goto(f"{scene_.node.url}#/messages?filter=home/%23")
    expect(page.locator("#watch-list li").nth(5)).to_be_visible(timeout=SLOW_MS)
    page.locator("#publish-topic").fill("home/kitchen/light")
    page.locator("#publish-payload").fill('{"on": true}')
    page.locator("#publish-form button").click()
    expect(page.locator("#publish-said")).to_have_text("Published on home/kitchen/light.", timeout=SLOW_MS)
    page.locator("#watch-stop").click()


def policies(page: Page, _: Scene) -> None:
    page.locator("#registered").select_option("vitals", timeout=SLOW_MS)
    page.locator("#try-filter").fill("ward/#")
    page.locator("#find").click()
    expect(page.locator("#attributes")).to_contain_text("pulse", timeout=SLOW_MS)
    page.locator("#try-seconds").fill("1")
    expect(page.locator("#try")).to_be_enabled(timeout=SLOW_MS)
    page.locator("#try").click()
    expect(page.locator("#tried-levels")).to_be_visible(timeout=SLOW_MS)


def streams(page: Page, _: Scene) -> None:
    expect(page.locator("#stream-rows")).to_contain_text("orders", timeout=SLOW_MS)


def cluster(page: Page, _: Scene) -> None:
    expect(page.locator("#cluster-verdict")).to_have_text("✓ every event accounted for", timeout=SLOW_MS)
    expect(page.locator("#cluster-count")).to_have_text("2 of 2 nodes here · cluster ward", timeout=SLOW_MS)
    nodes = page.locator("#cluster-nodes tr")
    expect(nodes.nth(0)).to_contain_text("n1 (this one)hereeast")
    expect(nodes.nth(1)).to_contain_text("west")
    link = page.locator("#cluster-links td")
    expect(link.nth(1)).to_have_text("up · direct")
    expect(link.nth(2)).to_have_text("1 filter")
    expect(link.nth(5)).to_have_text(re.compile("[1-9]"))


def channels(page: Page, _: Scene) -> None:
    expect(page.locator("#channel-rows .tags .chip")).to_have_text(["trains", "daily"], timeout=SLOW_MS)
    page.locator("#channel-rows .who button").click(timeout=SLOW_MS)
    page.get_by_role("button", name="Pick a part …").click(timeout=SLOW_MS)
    page.locator(".page-lines button").filter(has_text="Train 42").click(timeout=SLOW_MS)
    expect(page.locator(".choice").first).to_contain_text("Watch only this")
    expect(page.locator(".history ins").first).to_contain_text("20 minutes late", timeout=SLOW_MS)


def notifications(page: Page, scene_: Scene) -> None:
    expect(page.locator("#told-rows tr")).to_have_count(1, timeout=SLOW_MS)
    expect(page.locator("#ways")).to_contain_text("webhook")
    page.get_by_text("apprise: off").click()
    page.locator("#told-who").fill(f"{scene_.site.url}/hook")
    page.locator("#told-test").click()
    expect(page.locator("#told-said")).to_contain_text("A test was sent to webhook:", timeout=SLOW_MS)


def flows(page: Page, scene_: Scene) -> None:
    """Whether a flow is served depends on the machine's pace, so the states are set on the answer's way."""
    found = scene_.ask("/flows")
    for row, (state, why) in zip(found["flows"], STATES, strict=False):
        row |= {"state": state, "reason": why, "period_us": 50_000, "on_time": 990, "on_time_rate": 0.99}
    found["status"] |= {"served": 2, "silent": 1}
    page.route("**/api/v1/flows?*", lambda route: route.fulfill(json=found))
    silent = page.locator('#flow-rows tr[data-tone="bad"]')
    expect(silent).to_have_count(1, timeout=SLOW_MS)
    expect(silent).to_contain_text("silent")
    expect(page.locator("#flows-count")).to_contain_text("1 silent")


def pipeline(page: Page, _: Scene) -> None:
    cells = page.locator("#table-rows td")
    expect(cells.nth(1)).to_have_text("in use", timeout=SLOW_MS)
    assert cells.all_text_contents()[2:7] == ["2", "2", "1", "0", "1"]
    expect(page.locator("#table-changes")).to_contain_text("policies, version 2 · 2 classes of receivers")
    expect(page.locator("#table-changes ins")).to_contain_text("kiosks kiosk-* ward/#")
    expect(page.locator("#table-changes li")).to_have_count(2)


STATES: Final = (("silent", ""), ("refused", "no capacity"), ("served", ""), ("served", ""))


def access(page: Page, _: Scene) -> None:
    expect(page.locator("#rule-rows tr")).to_have_count(3, timeout=SLOW_MS)
    expect(page.locator("#user-rows")).to_contain_text("ann")
    page.locator("#rule-user").fill("ann")
    page.locator("#rule-action").select_option("subscribe")
    page.locator("#rule-topic").fill("ward/#")
    page.keyboard.press("Enter")
    expect(page.locator("#rules-title")).to_have_text("Rules, not saved yet")
    expect(page.locator("#rule-save")).to_be_disabled()
    page.locator("#rule-try").click()
    expect(page.locator("#rule-differences li")).to_have_text(
        ["ann: subscribe ward/# becomes allowed"], timeout=SLOW_MS
    )
    expect(page.locator("#rule-save")).to_be_enabled()
    page.locator("#may-user").fill("guest")
    page.locator("#may-topic").fill("ward/3/pulse")
    page.locator("#may-form button").click()
    expect(page.locator("#may-said")).to_have_text("✗ Refused. Rule 1 refuses it.", timeout=SLOW_MS)


def api(page: Page, _: Scene) -> None:
    one = page.locator(".request").filter(has_text="/api/v1/status")
    one.locator("summary").click(timeout=SLOW_MS)
    one.get_by_role("button", name="Send").click()
    expect(one.locator(".answer")).to_contain_text('"version"', timeout=SLOW_MS)


PAGES: Final[tuple[Callable[[Page, Scene], None], ...]] = (
    overview, clients, topics, messages, policies, streams, cluster, channels, notifications, flows, pipeline,
    access, api,
)  # fmt: skip

CONTRAST: Final = """
() => {
  const parse = (text) => (text.match(/[\\d.]+/g) ?? []).map(Number);
  const linear = (c) => (c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
  const light = (rgb) => rgb.slice(0, 3)
    .reduce((sum, c, n) => sum + linear(c / 255) * [0.2126, 0.7152, 0.0722][n], 0);
  const behind = (element) => {
    for (let one = element; one; one = one.parentElement) {
      const [r, g, b, a = 1] = parse(getComputedStyle(one).backgroundColor);
      if (a > 0.99) return [r, g, b];
    }
    return [255, 255, 255];
  };
  const wrong = new Set();
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) {
    const element = walk.currentNode.parentElement;
    const text = walk.currentNode.data.trim();
    if (!text || !element.checkVisibility() || element.closest(":disabled, .unseen, .skip")) continue;
    const both = [light(parse(getComputedStyle(element).color)), light(behind(element))];
    const ratio = (Math.max(...both) + 0.05) / (Math.min(...both) + 0.05);
    if (ratio < 4.5) wrong.add(`${element.tagName}.${element.className} ${text}: ${ratio.toFixed(2)}`);
  }
  return [...wrong];
}
"""
"""Texts whose contrast to what is behind them is below 4.5 (WCAG 2.2, level AA)."""

UNNAMED: Final = """
() => [...document.querySelectorAll("input, select, textarea, button, a, summary")]
  .filter((one) => one.checkVisibility())
  .filter((one) => ![one.textContent, one.getAttribute("aria-label"), one.getAttribute("aria-labelledby"),
    ...[...(one.labels ?? [])].map((label) => label.textContent)].some((name) => name?.trim()))
  .map((one) => one.outerHTML.slice(0, 120))
"""
"""Controls without a name for a screen reader."""


@pytest.fixture(scope="module")
def playing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    """One scene for all pages."""
    with scene(tmp_path_factory.mktemp("scene")) as found:
        yield found


LOOKS: Final = [(1360, "light"), (390, "dark"), (1360, "dark"), (390, "light")]
"""Both widths and both colours are in the first two: the others are for those who renew the pictures."""


@pytest.fixture(scope="module", params=LOOKS if KEPT else LOOKS[:2], ids=str)
def seen(
    request: pytest.FixtureRequest, looking: Browser, playing: Scene
) -> Iterator[tuple[Page, list[str]]]:
    """The dashboard in one size and colour, and what went wrong in it."""
    width, colours = request.param
    wrong: list[str] = []
    with looking.new_context(viewport={"width": width, "height": 900}, color_scheme=colours) as context:
        context.set_default_timeout(SLOW_MS)
        context.add_init_script(f"sessionStorage.setItem('token', '{TOKEN}')")
        page = context.new_page()
        page.on(
            "console", lambda said: wrong.append(said.text) if said.type in ("error", "warning") else None
        )
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on(
            "request",
            lambda asked: None if asked.url.startswith(playing.node.url) else wrong.append(asked.url),
        )
        page.goto(playing.node.url)
        expect(page.locator("#live")).to_have_text("live", timeout=SLOW_MS)
        yield page, wrong


@pytest.mark.parametrize("prepare", PAGES, ids=lambda each: each.__name__)
def test_a_page_is_whole(
    prepare: Callable[[Page, Scene], None],
    seen: tuple[Page, list[str]],
    playing: Scene,
    request: pytest.FixtureRequest,
) -> None:
    page, wrong = seen
    size = page.viewport_size
    assert size is not None
    page.goto(f"{playing.node.url}#/{prepare.__name__}")
    expect(page.locator(f"#page-{prepare.__name__}")).to_be_visible(timeout=SLOW_MS)
    prepare(page, playing)
    wide = page.evaluate("document.documentElement.scrollWidth")
    if KEPT:
        width, colours = request.node.callspec.params["seen"]
        keep(page, Path(KEPT) / f"{prepare.__name__}-{width}-{colours}.png")
    assert wide <= size["width"]
    assert page.evaluate(CONTRAST) == []
    assert page.evaluate(UNNAMED) == []
    assert wrong == []


def keep(page: Page, path: Path) -> None:
    """Save a picture with a palette: a third of the size."""
    from PIL import Image  # noqa: PLC0415  # only for those who renew the pictures

    path.parent.mkdir(parents=True, exist_ok=True)
    page.evaluate("scrollTo(0, 0)")
    width, height = page.evaluate("[innerWidth, document.documentElement.scrollHeight]")
    shot = page.screenshot(
        clip={"x": 0, "y": 0, "width": width, "height": min(height, 1_600)}, full_page=True
    )
    Image.open(BytesIO(shot)).convert("RGB").quantize(128).save(path, optimize=True)


def test_every_page_is_in_the_pictures(seen: tuple[Page, list[str]]) -> None:
    page, _ = seen
    links = page.locator("#nav a").evaluate_all("(links) => links.map((one) => one.getAttribute('href'))")
    assert links == [f"#/{prepare.__name__}" for prepare in PAGES]


def test_pages_are_reached_by_menu_and_keyboard(seen: tuple[Page, list[str]], playing: Scene) -> None:
    page, wrong = seen
    page.goto(f"{playing.node.url}#/overview")
    if page.locator("#menu").is_visible():
        expect(page.locator("#nav")).to_be_hidden()
        page.locator("#menu").focus()
        page.keyboard.press("Enter")
        page.keyboard.press("Escape")
        expect(page.locator("#nav")).to_be_hidden()
        page.keyboard.press("Enter")
    page.locator("#link-flows a").focus()
    page.keyboard.press("Enter")
    expect(page.locator("#page-flows h1")).to_be_focused()
    assert page.title() == "Flows · Penstock"
    page.go_back()
    expect(page.locator("#page-overview")).to_be_visible()
    page.goto(f"{playing.node.url}#main")
    expect(page.locator("#page-overview")).to_be_visible()
    assert wrong == []


def test_users_and_rules_are_changed_by_keyboard(seen: tuple[Page, list[str]], playing: Scene) -> None:
    page, wrong = seen
    page.goto(f"{playing.node.url}#/access")
    page.locator("#user-name").fill("bob")
    page.locator("#user-password").fill("short")
    page.keyboard.press("Enter")
    expect(page.locator("#user-said")).to_contain_text("bob may connect. Note: the password has fewer")
    assert page.locator("#user-password").input_value() == ""
    page.get_by_role("button", name="Change the password of bob").press("Enter")
    expect(page.locator("#user-password")).to_be_focused()
    page.keyboard.type("much longer now")
    page.keyboard.press("Enter")
    expect(page.locator("#user-said")).to_have_text("The password of bob is another one now.")
    page.get_by_role("button", name="Remove the user bob").press("Enter")
    page.locator("#confirm-yes").press("Enter")
    expect(page.locator("#user-said")).to_contain_text("bob may not connect any more")
    expect(page.locator("#user-rows")).not_to_contain_text("bob")
    page.locator("#rule-topic").fill("attic/#")
    page.locator("#rule-topic").press("Enter")
    page.get_by_role("button", name="Move rule 4 up").press("Enter")
    page.locator("#rule-try").press("Enter")
    expect(page.locator("#rule-save")).to_be_enabled()
    page.locator("#rule-save").press("Enter")
    expect(page.locator("#rule-said")).to_contain_text("2 rules in force")
    assert [rule["topic"] for rule in playing.ask("/access")["rules"]][2:] == ["attic/#", "home/#"]
    page.get_by_role("button", name="Remove rule 3").press("Enter")
    page.locator("#rule-try").press("Enter")
    expect(page.locator("#rule-save")).to_be_enabled()
    page.locator("#rule-save").press("Enter")
    expect(page.locator("#rule-said")).to_contain_text("1 rule in force")
    assert wrong == []
