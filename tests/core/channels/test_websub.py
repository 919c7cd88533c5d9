"""WebSub without I/O: what one end writes the other end reads; discovery, signatures and leases."""

from __future__ import annotations

import hmac

import pytest
from hypothesis import given
from hypothesis import strategies as st
from yarl import URL

from penstock.core.channels.websub import (
    MAX_LEASE_S,
    RETRY_S,
    SECRET_BYTES,
    HubFieldError,
    HubLease,
    HubLink,
    HubRequest,
    HubSubscription,
    Verification,
    discover_hub,
    link_header,
    restored_subscription,
    sign,
    signature_matches,
)
from penstock.model.instant import SECOND_US

PAGE = "http://page.example/"
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
LEASES = st.none() | st.integers(1, 10**9)

requests = st.builds(
    HubRequest,
    mode=st.sampled_from(["subscribe", "unsubscribe"]),
    callback=TEXTS,
    topic=TEXTS,
    lease_s=LEASES,
    secret=TEXTS,
)


@given(requests)
def test_a_hub_reads_what_a_subscriber_asks(asked: HubRequest) -> None:
    assert HubRequest.from_form(URL(f"http://x/?{asked.to_form().decode()}", encoded=True).query) == asked


@given(
    st.builds(
        Verification,
        mode=st.sampled_from(["subscribe", "unsubscribe", "denied"]),
        topic=TEXTS,
        challenge=TEXTS,
        lease_s=LEASES,
        reason=TEXTS,
    )
)
def test_a_subscriber_reads_what_a_hub_verifies(said: Verification) -> None:
    assert Verification.from_query(said.to_query()) == said


@given(asked=requests, most_s=st.integers(60, MAX_LEASE_S), now_us=st.integers(0, 2**50), body=st.binary())
def test_a_subscriber_and_a_hub_joined_agree(
    asked: HubRequest, most_s: int, now_us: int, body: bytes
) -> None:
    """Discovery, request, verification and push, each through the bytes that would travel."""
    link = discover_hub(url=PAGE, link=link_header(f"{PAGE}hub", f"{PAGE}feed"))
    assert link == HubLink(f"{PAGE}hub", f"{PAGE}feed")
    there = HubRequest.from_form(URL(f"http://x/?{asked.to_form().decode()}", encoded=True).query)
    lease_s = there.granted_s(most_s)
    assert 60 <= lease_s <= most_s
    said = Verification.from_query(
        Verification("subscribe", link.topic, "challenge", lease_s=lease_s).to_query()
    )
    here = HubSubscription(link)
    assert not here.active(now_us)
    here.verified(said.lease_s or 0, now_us)
    assert here.active(now_us)
    assert here.until_us == now_us + lease_s * SECOND_US, "both ends count the same lease"
    assert here.active(here.until_us - 1)
    assert not here.active(here.until_us)
    assert signature_matches(body, sign(body, there.secret), asked.secret)
    assert not signature_matches(body + b"x", sign(body, there.secret), asked.secret)
    kept = here.lease("https://node.example")
    again = restored_subscription(link, kept, base="https://node.example", now_us=now_us)
    assert (again.state, again.until_us, again.due_us) == ("active", here.until_us, here.due_us)


@pytest.mark.parametrize(
    ("form", "field"),
    [
        ({}, "hub.mode"),
        ({"hub.mode": "publish"}, "hub.mode"),
        ({"hub.mode": "subscribe", "hub.secret": "s" * SECRET_BYTES}, "hub.secret"),
        ({"hub.mode": "subscribe", "hub.lease_seconds": "0"}, "hub.lease_seconds"),
        ({"hub.mode": "subscribe", "hub.lease_seconds": "-5"}, "hub.lease_seconds"),
        ({"hub.mode": "subscribe", "hub.lease_seconds": "9" * 16}, "hub.lease_seconds"),
    ],
)
def test_a_wrong_field_is_named(form: dict[str, str], field: str) -> None:
    with pytest.raises(HubFieldError) as found:
        HubRequest.from_form(form)
    assert found.value.field == field


@given(st.integers(0, 40))
def test_pauses_after_failures_double_up_to_a_bound(failures: int) -> None:
    standing = HubSubscription(HubLink(f"{PAGE}hub", PAGE), failures=failures)
    standing.refused("failed", "no answer", 0)
    least_s, most_s = RETRY_S
    assert standing.due_us == min(least_s * 2**failures, most_s) * SECOND_US
    assert standing.failures == failures + 1


def test_a_denied_subscription_has_no_lease() -> None:
    standing = HubSubscription(HubLink(f"{PAGE}hub", PAGE))
    standing.verified(3_600, 0)
    standing.refused("denied", "no\nmore", 0)
    assert not standing.active(0)
    assert standing.reason == "no\\nmore"


def test_a_stored_lease_for_another_callback_or_from_a_wrong_clock_is_not_used() -> None:
    hub = HubLink(f"{PAGE}hub", PAGE)
    far_us = (MAX_LEASE_S + 1) * SECOND_US
    for lease in (HubLease("https://old", 10, 10), HubLease("https://new", far_us, 0)):
        assert restored_subscription(hub, lease, base="https://new", now_us=0) == HubSubscription(hub)


@pytest.mark.parametrize(
    ("link", "hub", "self_url", "found"),
    [
        ("", "", "", None),
        ('<https://h.example/>; rel="hub"', "", "", HubLink("https://h.example/", PAGE)),
        ("</hub>; rel=hub, </self?a=1>; rel=self", "", "", HubLink(PAGE + "hub", PAGE + "self?a=1")),
        (
            '<https://h.example/>; title="a, b; rel=x"; rel="self hub"',
            "",
            "",
            HubLink("https://h.example/", "https://h.example/"),
        ),
        (
            "",
            "https://h.example/",
            "http://page.example/feed",
            HubLink("https://h.example/", "http://page.example/feed"),
        ),
        ('<https://l.example/>; rel="hub"', "https://h.example/", "", HubLink("https://l.example/", PAGE)),
        ('<ftp://h.example/>; rel="hub"', "", "", None),
        ("<" * 10_000, "", "", None),
        ('<http://[>; rel="hub"', "", "", None),
    ],
)
def test_discovery(link: str, hub: str, self_url: str, found: HubLink | None) -> None:
    assert discover_hub(url=PAGE, link=link, hub=hub, self_url=self_url) == found


def test_signatures_of_every_method() -> None:
    for method in ("sha1", "sha256", "sha384", "sha512"):
        assert signature_matches(b"body", f"{method}={hmac.digest(b'key', b'body', method).hex()}", "key")
        assert not signature_matches(
            b"other", f"{method}={hmac.digest(b'key', b'body', method).hex()}", "key"
        )
    assert not signature_matches(b"body", "", "key")
    assert not signature_matches(b"body", "sha256=é", "key")
