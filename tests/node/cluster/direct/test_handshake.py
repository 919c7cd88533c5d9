"""Only a node that knows the ticket and the password connects, and only as itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.cluster.view import Sighting
from penstock.errors import ClusterError
from penstock.node.cluster.direct.handshake import MAGIC, Acceptor, Connector, Hello, key_of, ticket_for

if TYPE_CHECKING:
    from collections.abc import Callable

N1, N2, N3 = (Sighting("ward", f"n{number}", number) for number in (1, 2, 3))
SECRET, PASSWORD = b"s" * 32, "hush"
HERE, THERE = b"a" * 16, b"c" * 16


def key_for(seen: Sighting) -> bytes | None:
    return None if seen == N3 else key_of(ticket_for(SECRET, seen), PASSWORD)


def ends(key: bytes, *, as_: Sighting = N2) -> tuple[Acceptor, Connector]:
    return Acceptor(N1, key_for, nonce=HERE), Connector(as_, N1, key, nonce=THERE)


def known(seen: Sighting) -> bytes:
    return key_of(ticket_for(SECRET, seen), PASSWORD)


def test_a_node_with_its_ticket_is_let_in_and_knows_whom_it_has_reached() -> None:
    acceptor, connector = ends(known(N2))
    seen, welcome = acceptor.admit(connector.hello(acceptor.challenge()))
    assert seen == N2
    connector.check(welcome)


@pytest.mark.parametrize(
    ("key", "as_"),
    [
        (key_of(ticket_for(b"x" * 32, N2), PASSWORD), N2),
        (key_of(ticket_for(SECRET, N2), "other"), N2),
        (key_of(ticket_for(SECRET, N2), ""), N2),
        (known(N2), N2._replace(incarnation=7)),
        (known(N2), N2._replace(name="n4")),
    ],
    ids=["ticket", "password", "no password", "incarnation", "name"],
)
def test_who_does_not_know_ticket_and_password_of_its_name_is_refused(key: bytes, as_: Sighting) -> None:
    acceptor, connector = ends(key, as_=as_)
    with pytest.raises(ClusterError, match="its ticket or password is wrong"):
        acceptor.admit(connector.hello(acceptor.challenge()))


def test_a_node_that_is_not_in_view_is_refused() -> None:
    acceptor, connector = ends(known(N3), as_=N3)
    with pytest.raises(ClusterError, match="n3, which is not in view"):
        acceptor.admit(connector.hello(acceptor.challenge()))


def test_an_answer_to_another_challenge_is_refused() -> None:
    acceptor, connector = ends(known(N2))
    heard = connector.hello(acceptor.challenge())
    with pytest.raises(ClusterError, match="wrong"):
        Acceptor(N1, key_for, nonce=b"b" * 16).admit(heard)


def test_an_acceptor_without_the_ticket_is_noticed() -> None:
    acceptor, connector = ends(known(N2))
    proof = msgspec.msgpack.decode(connector.hello(acceptor.challenge()), type=Hello).proof
    for welcome in (b"", b"\0" * 32, proof):
        with pytest.raises(ClusterError, match="another node answers there"):
            connector.check(welcome)


@given(st.binary(max_size=200))
def test_garbage_is_refused(junk: bytes) -> None:
    acceptor, connector = ends(known(N2))
    steps: list[Callable[[bytes], object]] = [acceptor.admit, connector.hello, connector.check]
    for step in steps:
        with pytest.raises(ClusterError):
            step(junk)


def test_a_hello_of_another_protocol_is_refused() -> None:
    acceptor, _ = ends(known(N2))
    for hello in (("other", b"", b"", "n2", 2), (MAGIC, THERE, b"", "n" * 65, 2), (MAGIC, b"", b"", "n2", 2)):
        with pytest.raises(ClusterError, match="does not speak as a node does"):
            acceptor.admit(msgspec.msgpack.encode(hello))
