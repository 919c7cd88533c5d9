"""The gate: addresses, users, the access list."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock import limits
from penstock.mqtt.codes import Reason
from penstock.mqtt.topics import matches
from penstock.node.access.acl import Acl, _glob, _pattern
from penstock.node.access.gate import Admitted, Gate, NotAdmitted
from penstock.node.access.passwords import Passwords, Verdict
from penstock.node.config.schema import Bounds, Config, Listener, Rule, User
from tests.kit.passwords import cheap


class Clock:
    """Seconds that pass when told."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


ANN = User("ann", cheap("right"))


def admit(gate: Gate, **given: Any) -> Admitted | NotAdmitted:
    asked: dict[str, Any] = {
        "client_id": "c",
        "user": None,
        "password": None,
        "address": "127.0.0.1",
        "listener": Listener(),
        "certificate": None,
    }
    return asyncio.run(gate.admit(**(asked | given)))


# -- users ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rule", "address", "comes_in"),
    [
        ("loopback", "127.0.0.1", True),
        ("loopback", "::1", True),
        ("loopback", "::ffff:127.0.0.1", True),
        ("loopback", "192.0.2.1", False),
        ("always", "192.0.2.1", True),
        ("never", "127.0.0.1", False),
    ],
)
def test_clients_without_a_name(rule: Any, address: str, comes_in: bool) -> None:
    found = admit(Gate(Config(anonymous=rule)), address=address)
    if comes_in:
        assert found == Admitted("")
    else:
        assert isinstance(found, NotAdmitted)
        assert found.reason == Reason.NOT_AUTHORIZED


def test_a_name_nobody_asks_for_is_anonymous() -> None:
    assert admit(Gate(Config()), user="ann", password=b"x") == Admitted("")
    assert isinstance(admit(Gate(Config()), user="ann", password=b"x", address="192.0.2.1"), NotAdmitted)


@pytest.mark.parametrize(
    ("user", "password", "comes_in"),
    [
        ("ann", b"right", True),
        ("ann", b"wrong", False),
        ("ann", b"", False),
        ("ann", None, False),
        ("bob", b"right", False),
        ("ann", b"\xff\x00", False),
    ],
)
def test_users_need_their_password(user: str, password: bytes | None, comes_in: bool) -> None:
    gate = Gate(Config(users=(ANN,)))
    for _ in range(2):  # a remembered password is no other
        found = admit(gate, user=user, password=password)
        if comes_in:
            assert found == Admitted("ann")
        else:
            assert isinstance(found, NotAdmitted)
            assert found.reason == Reason.BAD_USER_NAME_OR_PASSWORD


def test_a_right_password_is_remembered_and_a_wrong_one_still_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    gate = Gate(Config(users=(ANN,)))
    assert admit(gate, user="ann", password=b"right") == Admitted("ann")
    monkeypatch.setattr("penstock.node.access.passwords._fits", lambda *_: pytest.fail("checked again"))
    assert admit(gate, user="ann", password=b"right") == Admitted("ann")
    monkeypatch.undo()
    assert isinstance(admit(gate, user="ann", password=b"wrong"), NotAdmitted)


def test_other_users_after_a_reload() -> None:
    gate = Gate(Config(users=(ANN,)))
    assert admit(gate, user="ann", password=b"right") == Admitted("ann")
    gate.reconfigure(Config(users=(User("ann", cheap("other")),)))
    assert isinstance(admit(gate, user="ann", password=b"right"), NotAdmitted)
    assert admit(gate, user="ann", password=b"other") == Admitted("ann")


def test_a_name_that_does_not_exist_costs_a_check_too(monkeypatch: pytest.MonkeyPatch) -> None:
    checked: list[bytes] = []

    def costs(_: str, password: bytes) -> bool:
        checked.append(password)
        return False

    monkeypatch.setattr("penstock.node.access.passwords._costs_the_same", costs)
    assert isinstance(admit(Gate(Config(users=(ANN,))), user="bob", password=b"x"), NotAdmitted)
    assert checked == [b"x"]


def test_wrong_passwords_of_one_address_are_soon_not_checked_any_more() -> None:
    clock = Clock()
    gate = Gate(Config(users=(ANN,)), clock_s=clock)
    for _ in range(limits.GATE_FAILURES):
        found = admit(gate, user="ann", password=b"wrong", address="192.0.2.1")
        assert isinstance(found, NotAdmitted)
        assert found.reason == Reason.BAD_USER_NAME_OR_PASSWORD
    for password in (b"wrong", b"right"):
        found = admit(gate, user="ann", password=password, address="192.0.2.1")
        assert isinstance(found, NotAdmitted)
        assert found.reason == Reason.CONNECTION_RATE_EXCEEDED
    assert admit(gate, user="ann", password=b"right", address="192.0.2.2") == Admitted("ann")
    clock.now_s += limits.GATE_FAILURES_S / limits.GATE_FAILURES
    assert admit(gate, user="ann", password=b"right", address="192.0.2.1") == Admitted("ann")


def test_so_many_passwords_wait_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "GATE_WAITING", 3)

    async def rush() -> list[Verdict]:
        passwords = Passwords({"ann": ANN.password})
        return await asyncio.gather(*(passwords.check("ann", b"wrong") for _ in range(5)))

    assert sorted(verdict.name for verdict in asyncio.run(rush())) == ["BUSY"] * 2 + ["WRONG"] * 3


def test_the_name_in_a_certificate_is_the_user() -> None:
    shown = {"subject": ((("organizationName", "x"),), (("commonName", "ann"),))}
    gate = Gate(Config(anonymous="never", users=(ANN,)))
    assert admit(gate, certificate=shown) == Admitted("ann")
    assert isinstance(admit(gate, certificate={"subject": ()}), NotAdmitted)
    assert isinstance(admit(gate, certificate=shown, user="ann", password=b"wrong"), NotAdmitted)


# -- addresses -----------------------------------------------------------------------------------------------


def test_connections_are_bounded_by_address_and_altogether() -> None:
    gate = Gate(Config(bounds=Bounds(connections=3, connections_per_address=2)))
    assert [gate.admit_address("192.0.2.1") for _ in range(3)] == [True, True, False]
    assert gate.admit_address("192.0.2.2")
    assert not gate.admit_address("192.0.2.3")
    gate.released("192.0.2.1")
    assert gate.admit_address("192.0.2.3")
    gate.reconfigure(Config(bounds=Bounds(connections=4)))
    assert [gate.admit_address("192.0.2.4") for _ in range(2)] == [True, False]


def test_an_ipv6_network_is_one_address() -> None:
    gate = Gate(Config(bounds=Bounds(connections_per_address=1)))
    assert gate.admit_address("2001:db8::1")
    assert not gate.admit_address("2001:db8::2:3")
    assert gate.admit_address("2001:db8:0:1::1")


def test_new_connections_of_an_address_have_a_rate() -> None:
    clock = Clock()
    gate = Gate(Config(bounds=Bounds(connects_per_s=2)), clock_s=clock)
    assert [gate.admit_address("192.0.2.1") for _ in range(3)] == [True, True, False]
    clock.now_s += 0.5
    assert [gate.admit_address("192.0.2.1") for _ in range(2)] == [True, False]


# -- the access list -----------------------------------------------------------------------------------------


def test_without_rules_everything_is_allowed() -> None:
    gate = Gate(Config())
    assert gate.open
    assert gate.may_publish("", "c", "a")
    assert gate.may_subscribe("", "c", "#")


def test_the_first_rule_that_fits_decides_and_none_refuses() -> None:
    acl = Acl([Rule(allow=False, topic="a/secret"), Rule(topic="a/+")])
    assert acl.may_publish("", "c", "a/b")
    assert not acl.may_publish("", "c", "a/secret")
    assert not acl.may_publish("", "c", "b")


def test_rules_are_about_users_clients_and_actions() -> None:
    acl = Acl(
        [
            Rule(user="ann", topic="ann/#"),
            Rule(user="anonymous", topic="open/#", action="subscribe"),
            Rule(client="sensor-*", topic="sensors/%c", action="publish"),
        ]
    )
    assert acl.may_publish("ann", "c", "ann/x")
    assert not acl.may_publish("", "c", "ann/x")
    assert acl.may_subscribe("", "c", "open/#")
    assert not acl.may_publish("", "c", "open/x")
    assert not acl.may_subscribe("ann", "c", "open/#")
    assert acl.may_publish("", "sensor-1", "sensors/sensor-1")
    assert not acl.may_publish("", "sensor-1", "sensors/sensor-2")
    assert not acl.may_publish("", "phone", "sensors/phone")


@pytest.mark.parametrize("client", ["+", "#", "a/b", "%u", "*"])
def test_a_name_that_looks_like_a_wildcard_is_none(client: str) -> None:
    acl = Acl([Rule(topic="of/%c/#"), Rule(topic="own/%u/#")])
    assert not acl.may_publish("ann", client, "of/somebody/x")
    assert not acl.may_subscribe("ann", client, "of/+/x")
    assert not acl.may_subscribe("ann", client, "of/#")
    assert acl.may_publish("ann", client, "own/ann/x")


def test_topics_of_nobody_are_not_everybodys() -> None:
    assert not Acl([Rule(topic="own/%u/#")]).may_publish("", "c", "own//x")


@pytest.mark.parametrize(
    ("rules", "filter_", "may"),
    [
        ([Rule(topic="a/#")], "a/+/b", True),
        ([Rule(topic="a/#")], "a", True),
        ([Rule(topic="a/+")], "a/#", False),
        ([Rule(topic="a/b")], "a/+", False),
        ([Rule(topic="a/b"), Rule(topic="a/c")], "#", False),
        ([Rule(topic="#")], "$SYS/#", False),
        ([Rule(topic="$SYS/#")], "$SYS/broker/+", True),
        ([Rule(topic="a/#")], "$share/g/a/b", True),
        ([Rule(topic="a/#")], "$share/g/b", False),
        ([Rule(topic="a/#")], "$digest/a/b", True),
        ([Rule(topic="a/#")], "$digest/b", False),
        ([Rule(topic="$digest/#")], "$digest/b", True),
        ([Rule(topic="$digest/#")], "b", False),
        ([Rule(topic="$digest/#", allow=False), Rule(topic="a/#")], "$digest/a/b", False),
        ([Rule(topic="$digest/#", allow=False), Rule(topic="a/#")], "a/b", True),
        ([Rule(topic="a/secret", allow=False), Rule()], "$digest/a/#", False),
        ([Rule(topic="a/secret", allow=False), Rule()], "$share/g/$digest/#", False),
        ([Rule(allow=False, topic="a/secret/#"), Rule(topic="#")], "#", False),
        ([Rule(allow=False, topic="a/secret/#"), Rule(topic="#")], "a/+/x", False),
        ([Rule(allow=False, topic="a/secret/#"), Rule(topic="#")], "a/public/#", True),
        ([Rule(allow=False, topic="$SYS/#"), Rule(topic="#")], "#", True),
    ],
)
def test_a_subscription_is_for_all_its_topics(rules: list[Rule], filter_: str, may: bool) -> None:
    acl = Acl(rules)
    assert [acl.may_subscribe("", "c", filter_) for _ in range(2)] == [may, may]


_LEVELS = st.sampled_from(["a", "b", "$c"])
_FILTERS = st.tuples(st.lists(st.one_of(_LEVELS, st.just("+")), min_size=1, max_size=3), st.booleans()).map(
    lambda made: "/".join([*made[0], *(["#"] if made[1] else [])])
)
_TOPICS = st.lists(_LEVELS, min_size=1, max_size=4).map("/".join)


@given(_FILTERS, _FILTERS, st.lists(_TOPICS, min_size=1, max_size=20))
def test_covering_and_overlapping_agree_with_matching(one: str, other: str, topics: list[str]) -> None:
    first, second = _pattern(one, {}), _pattern(other, {})
    for topic in topics:
        assert first.covers(_pattern(topic, {})) == matches(one, topic)
        if first.covers(second) and matches(other, topic):
            assert matches(one, topic)
        if matches(one, topic) and matches(other, topic):
            assert first.overlaps(second)
            assert second.overlaps(first)


@given(_FILTERS)
def test_a_filter_covers_itself(filter_: str) -> None:
    assert _pattern(filter_, {}).covers(_pattern(filter_, {}))


@given(st.text("ab*?", max_size=8), st.text("ab", max_size=8))
def test_patterns_of_client_ids(pattern: str, client_id: str) -> None:
    def fits(signs: str, letters: str) -> bool:
        if not signs:
            return not letters
        if signs[0] == "*":
            return any(fits(signs[1:], letters[cut:]) for cut in range(len(letters) + 1))
        return bool(letters) and signs[0] in ("?", letters[0]) and fits(signs[1:], letters[1:])

    assert bool(_glob(pattern).fullmatch(client_id)) == fits(pattern, client_id)


def test_many_stars_take_no_longer() -> None:
    assert not _glob("a*" * 50 + "b").fullmatch("a" * 60_000)


def test_decisions_are_remembered_within_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "ACL_DECISIONS", 3)
    monkeypatch.setattr(limits, "ACL_CLIENTS", 3)
    acl = Acl([Rule(topic="a/+")])
    for number in range(10):
        assert acl.may_publish("", f"c{number}", "a/x")
        assert len(acl._views) <= 3
        assert acl.may_publish("", "c", f"a/{number}")
        assert len(acl._view("", "c")._publishing) <= 3
