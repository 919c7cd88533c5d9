"""The dashboard in a real browser, of a real node, with real clients: one reads, one does not."""

from __future__ import annotations

import json
import re
import threading
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import msgspec
import paho.mqtt.client as paho
import pytest
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from playwright.sync_api import expect

from penstock.cli.api import api_address
from penstock.cli.top import _first
from penstock_lab.rigs.browser import take_picture
from tests.e2e.chromium import chromium
from tests.kit.dashboard_node import Node

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.e2e

SCRIPT = "<img src=x onerror=\"document.title='broken in'\">"
"""A client id that would like to be markup."""
TOKEN = "correct-horse-battery-staple"  # noqa: S105
POLICY = "name: few\nlevels:\n  - keep: {latest: 7}\n"


class Sensors:
    """Twenty topics, a thousand messages a second in all, until closed."""

    def __init__(self, port: int) -> None:
        self._client = connected(port, "sensors")
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        number = 0
        while not self._stop.wait(0.02):
            for _ in range(20):
                number += 1
                payload = json.dumps({"pulse": 40 + number * 7 % 90, "note": "x" * 300})
                self._client.publish(f"ward/{number % 20}/pulse", payload)

    def close(self) -> None:
        self._stop.set()
        self._thread.join()
        close(self._client)


def connected(port: int, client_id: str, *, on_its_own: bool = True) -> paho.Client:
    """A client whose loop runs in a thread, or is run by its owner."""
    client = paho.Client(CallbackAPIVersion.VERSION2, client_id, protocol=paho.MQTTv5)
    client.connect("127.0.0.1", port, keepalive=600)
    if on_its_own:
        client.loop_start()
    wait(client.is_connected, lambda: time.sleep(0.02) if on_its_own else client.loop(0.05))
    return client


def stalled(port: int, client_id: str, filter_: str, *, policy: str = "") -> paho.Client:
    """A client that subscribes and then reads no more: nobody runs its loop."""
    client = connected(port, client_id, on_its_own=False)
    subscribed: list[bool] = []
    client.on_subscribe = lambda *_: subscribed.append(True)
    properties = Properties(PacketTypes.SUBSCRIBE)  # type: ignore[no-untyped-call]
    if policy:
        properties.UserProperty = [("policy", policy)]
    client.subscribe(filter_, properties=properties)
    wait(lambda: bool(subscribed), lambda: client.loop(0.05))
    return client


def wait(done: Callable[[], bool], meanwhile: Callable[[], object]) -> None:
    deadline_s = time.monotonic() + 120
    while not done():
        assert time.monotonic() < deadline_s, "it did not happen within two minutes"
        meanwhile()


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    """A node with sensors, a reader, a phone that stalls with a policy and one that stalls without."""
    with ExitStack() as stack:
        running = Node(tmp_path_factory.mktemp("node"))
        stack.callback(running.close)
        reader = connected(running.mqtt_port, "wall display")
        stack.callback(close, reader)
        reader.subscribe("ward/#")
        for client_id, filter_, policy in (("phone", "ward/#", "vitals"), (SCRIPT, "ward/3/#", "")):
            stack.callback(close, stalled(running.mqtt_port, client_id, filter_, policy=policy))
        stack.callback(Sensors(running.mqtt_port).close)
        yield running


def close(client: paho.Client) -> None:
    """Go, whether anybody still runs its loop or not."""
    socket = client.socket()
    client.disconnect()
    client.loop_stop()
    if socket is not None:
        socket.close()


@pytest.fixture
def page(looking: Browser, node: Node) -> Iterator[Page]:
    """The dashboard, in which nothing may go wrong unseen."""
    yield from opened(looking, node)


@pytest.fixture
def clients(page: Page) -> Page:
    """Its page of clients."""
    return at(page, "clients")


def at(page: Page, name: str) -> Page:
    """Another page of the dashboard."""
    page.evaluate(f"location.hash = '#/{name}'")
    expect(page.locator(f"#page-{name}")).to_be_visible()
    return page


def opened(looking: Browser, node: Node, **context: Any) -> Iterator[Page]:
    wrong: list[str] = []
    with looking.new_context(viewport={"width": 1440, "height": 1000}, **context) as seen:
        seen.set_default_timeout(120_000)
        page = seen.new_page()
        page.on(
            "console", lambda said: wrong.append(said.text) if said.type in ("error", "warning") else None
        )
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("request", lambda asked: None if asked.url.startswith(node.url) else wrong.append(asked.url))
        page.goto(node.url)
        yield page
    assert wrong == []


def row_of(page: Page, client_id: str) -> Any:
    return page.locator("#client-rows > tr:not(.details)").filter(has_text=client_id)


def test_a_slow_client_is_seen_with_its_queue_level_and_drops(page: Page) -> None:
    expect(page.locator("#live")).to_have_text("live", timeout=120_000)
    expect(page.locator("#slow-list").get_by_text("phone", exact=True)).to_be_visible(timeout=120_000)
    at(page, "clients")
    row = row_of(page, "phone")
    expect(row.locator(".state")).to_have_text("behind", timeout=120_000)
    expect(row.locator(".level")).to_have_text(re.compile("[123]"), timeout=120_000)
    expect(row.locator(".chip").first).to_contain_text(re.compile(r"\d"), timeout=120_000)
    expect(row_of(page, "wall display").locator(".state")).to_have_text("attached")


def test_every_event_is_accounted_for_while_events_flow(page: Page) -> None:
    expect(page.locator("#account")).to_have_attribute("data-balanced", "yes")
    expect(page.locator("#account-verdict")).to_have_text("✓ every event accounted for")
    before = page.locator("#account-accepted").inner_text()
    expect(page.locator("#account-accepted")).not_to_have_text(before)
    terms = [
        int(page.locator(f"#account-{name}").inner_text().replace(",", ""))
        for name in ("accepted", "delivered", "digested", "counted", "queued", "abandoned")
    ]
    assert terms[0] > 0
    shown = page.evaluate(
        "['accepted', 'delivered', 'digested', 'counted', 'queued', 'abandoned']"
        ".map((name) => Number(document.getElementById(`account-${name}`).textContent.replaceAll(',', '')))"
    )
    assert shown[0] == sum(shown[1:])


def test_an_account_that_does_not_add_up_is_loud(page: Page) -> None:
    """The node's accounts always add up and its disk is not full, so the answer is altered on its way."""

    def alter(route: Any) -> None:
        answer = json.loads(take_first(page))
        answer["overview"]["account"]["accepted"] += 3
        answer["overview"]["balanced"] = False
        answer["overview"]["faults"] = ["disk full", "<b>nothing</b> is recorded"]
        route.fulfill(body=f"data: {json.dumps(answer)}\n\n", content_type="text/event-stream")

    expect(page.locator("#live")).to_have_text("live", timeout=120_000)
    expect(page.locator("#faults")).to_be_hidden()
    page.route("**/api/v1/live", alter)
    page.reload()
    expect(page.locator("#faults")).to_have_text(re.compile("disk full\\s<b>nothing</b> is recorded"))
    expect(page.locator("#account")).to_have_attribute("data-balanced", "no")
    expect(page.locator("#account-verdict")).to_have_text("✗ 3 events missing")
    expect(page.locator("#account-sign")).to_have_text("≠")


def take_first(page: Page) -> str:
    """A snapshot, by hand."""
    return msgspec.json.encode(_first(api_address(page.url, ""))).decode()


def test_a_client_id_that_is_markup_stays_text(clients: Page) -> None:
    page = clients
    row = row_of(page, SCRIPT)
    expect(row.locator(".who button")).to_have_text(SCRIPT)
    row.locator(".who button").click()
    expect(page.locator("tr.details")).to_contain_text("ward/3/#")
    page.locator("#search").fill("onerror")
    expect(page.locator("#clients-count")).to_have_text("1 client")
    page.get_by_role("button", name="Policy").click()
    expect(page.locator("#page-policies")).to_be_visible()
    expect(page.locator("#target option:checked")).to_have_text(f"{SCRIPT} · ward/3/#")
    expect(page.locator("main img, main script")).to_have_count(0)
    assert page.title() == "Policies · Penstock"


def test_the_timeline_follows_the_chosen_subscription(page: Page) -> None:
    page.locator("#slow-list button").filter(has_text="vitals").click()
    expect(page.locator("#charts figure")).to_have_count(4)
    depth = page.locator("#charts figure").first
    expect(depth.locator("path.line")).to_have_attribute("d", re.compile(r"L.*L"), timeout=120_000)
    before = depth.locator("path.line").get_attribute("d")
    assert before is not None
    expect(depth.locator("path.line")).not_to_have_attribute("d", before)
    page.locator("#charts").focus()
    page.keyboard.press("Home")
    expect(depth.locator("line.cursor")).to_have_count(1)
    page.keyboard.press("Escape")
    expect(depth.locator("line.cursor")).to_have_count(0)


def test_a_policy_is_checked_tried_and_applied(page: Page) -> None:
    at(page, "policies")
    page.locator("#target").select_option(label="phone · ward/#", timeout=120_000)
    text = page.locator("#policy-text")
    text.fill("levels:\n  - keep: {latets: 7}\n")
    check = page.locator("#policy-check")
    expect(check).to_contain_text("did you mean 'latest'?")
    expect(page.locator("#apply")).to_be_disabled()
    expect(page.locator("#try")).to_be_disabled()
    text.fill(POLICY)
    expect(check).to_contain_text("understood")
    expect(check).to_contain_text("newest 7 of the queue")
    page.locator("#try-filter").fill("ward/#")
    page.locator("#try-seconds").fill("1")
    page.locator("#try").click()
    expect(page.locator("#policy-said")).to_contain_text("No subscriber's queue was changed", timeout=120_000)
    expect(page.locator("#tried-levels tbody tr").first).to_contain_text("7")
    expect(page.locator("#tried-filters")).to_contain_text("1.1 latest")
    page.locator("#apply").click()
    expect(page.locator("#confirm")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.locator("#policy-said")).not_to_contain_text("now has")
    page.locator("#apply").click()
    page.locator("#confirm-yes").click()
    expect(page.locator("#policy-said")).to_have_text("phone · ward/# now has the policy few.")
    at(page, "clients")
    expect(row_of(page, "phone").locator(".chip").filter(has_text="1.1 latest")).to_be_visible(
        timeout=120_000
    )
    at(page, "overview")
    expect(page.locator("#account")).to_have_attribute("data-balanced", "yes", timeout=120_000)
    at(page, "policies")
    page.locator("#registered").select_option("vitals")
    expect(text).to_have_value(re.compile("delta"))
    expect(page.locator("#apply")).to_be_enabled()
    page.locator("#apply").click()
    page.locator("#confirm-yes").click()
    expect(page.locator("#policy-said")).to_contain_text("now has the policy")


def test_it_can_be_used_without_a_mouse(clients: Page) -> None:
    page = clients
    expect(row_of(page, "phone")).to_be_visible(timeout=120_000)
    row_of(page, "phone").locator(".who button").focus()
    page.keyboard.press("Enter")
    expect(page.locator("tr.details")).to_be_visible()
    page.wait_for_timeout(1_500)  # the focus survives a live update
    assert page.evaluate("document.activeElement.textContent") == "phone"
    page.keyboard.press("Enter")
    expect(page.locator("tr.details")).to_have_count(0)


def test_it_fits_a_phone(looking: Browser, node: Node) -> None:
    for page in opened(looking, node, color_scheme="dark"):
        page.set_viewport_size({"width": 360, "height": 740})
        at(page, "clients")
        expect(row_of(page, "phone")).to_be_visible(timeout=120_000)
        row_of(page, "phone").locator(".who button").click()
        assert page.evaluate("document.documentElement.scrollWidth") <= 360


def test_colours_are_kept(page: Page) -> None:
    page.locator("#theme").click()
    page.locator("#theme").click()
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    page.reload()
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")


def test_a_client_is_disconnected_and_a_lost_node_is_waited_for(looking: Browser, tmp_path: Path) -> None:
    node = Node(tmp_path)
    stuck = stalled(node.mqtt_port, "stuck", "ward/#")
    with looking.new_context() as seen:
        page = seen.new_page()
        page.goto(f"{node.url}#/clients")
        row_of(page, "stuck").locator(".who button").click(timeout=120_000)
        page.get_by_role("button", name="Disconnect").click()
        page.locator("#confirm-yes").click()
        expect(row_of(page, "stuck")).to_have_count(0, timeout=120_000)
        at(page, "overview")
        expect(page.locator("#account-verdict")).to_contain_text("✓", timeout=120_000)
        node.close()
        expect(page.locator("#live")).to_have_text("node is down", timeout=120_000)
        expect(page.locator("#down")).to_contain_text("What you see below was so at")
        expect(page.locator("#account-verdict")).to_have_text("? not known: the node is down")
        expect(page.locator("#account")).to_have_attribute("data-balanced", "unknown")
        again = Node(tmp_path, http_port=node.http_port)
        expect(page.locator("#live")).to_have_text("live", timeout=120_000)
        expect(page.locator("#down")).to_be_hidden()
        expect(page.locator("#account-verdict")).to_contain_text("✓", timeout=120_000)
        again.close()
    close(stuck)


def test_a_token_is_asked_for_once_and_forgotten_with_the_tab(looking: Browser, tmp_path: Path) -> None:
    node = Node(tmp_path, token=TOKEN)
    with looking.new_context() as seen:
        page = seen.new_page()
        page.goto(node.url)
        expect(page.locator("#ask-token")).to_be_visible(timeout=120_000)
        expect(page.locator("#token-wrong")).to_be_hidden()
        page.locator("#token").fill("wrong")
        page.keyboard.press("Enter")
        expect(page.locator("#token-wrong")).to_be_visible(timeout=120_000)
        expect(page.locator("#token-wrong")).to_contain_text("was not the token")
        page.locator("#token").fill(TOKEN)
        page.keyboard.press("Enter")
        expect(page.locator("#live")).to_have_text("live", timeout=120_000)
        at(page, "policies")
        expect(page.locator("#registered option")).to_have_count(2, timeout=120_000)
        page.reload()
        expect(page.locator("#live")).to_have_text("live", timeout=120_000)
        other = seen.new_page()
        other.goto(node.url)
        expect(other.locator("#ask-token")).to_be_visible(timeout=120_000)
    node.close()


def test_a_picture_of_it_is_saved(node: Node, tmp_path: Path) -> None:
    chromium()
    found = take_picture(node.url, tmp_path / "pictures" / "dashboard.png")
    assert found.path is not None, found.reason
    assert found.path.read_bytes().startswith(b"\x89PNG")


def test_without_a_browser_there_is_a_reason(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    found = take_picture("http://127.0.0.1:1/", tmp_path / "dashboard.png")
    assert found.path is None
    assert "no browser" in found.reason
