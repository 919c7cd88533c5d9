"""The handshake of a direct connection: each end proves to the other that it knows the ticket.

    acceptor  ──  magic, nonce                       ──►  connector
              ◄──  magic, nonce, proof, who connects  ──
              ──  proof                              ──►

The acceptor has sent the ticket to the other node through Zenoh, which lets nobody in without the password or
a certificate; so a direct connection needs no rules of its own. Without TLS a ticket can be read on the way:
the password of the cluster, which is never sent, is part of the key. Proofs are HMAC-SHA-256 over both nonces
and both nodes; the two ends prove different things, so that neither can send a proof back to its maker.
"""

from __future__ import annotations

import hmac
from typing import TYPE_CHECKING, Annotated, Final

import msgspec

from penstock import limits
from penstock.core.cluster.view import Sighting
from penstock.errors import ClusterError

if TYPE_CHECKING:
    from collections.abc import Callable

MAGIC: Final = b"penstock direct 1"
NONCE_BYTES: Final = 16
PROOF_BYTES: Final = 32

Name = Annotated[str, msgspec.Meta(min_length=1, max_length=limits.CLUSTER_NAME_CHARACTERS)]


class Hello(msgspec.Struct, frozen=True, gc=False, array_like=True, forbid_unknown_fields=True):
    """The answer of the end that connects."""

    magic: bytes
    nonce: Annotated[bytes, msgspec.Meta(min_length=NONCE_BYTES, max_length=NONCE_BYTES)]
    proof: bytes
    name: Name
    incarnation: int


_hello: msgspec.msgpack.Decoder[Hello] = msgspec.msgpack.Decoder(Hello)


def ticket_for(secret: bytes, to: Sighting) -> bytes:
    """The ticket with which one other node connects: it is of no use to a third one."""
    return hmac.digest(secret, _named(to), "sha256")


def key_of(ticket: bytes, password: str) -> bytes:
    """The key of all proofs with a ticket."""
    return hmac.digest(password.encode() or b"no password", ticket, "sha256")


def read_hello(frame: bytes) -> Hello:
    """Read the answer of the end that connects; ClusterError if it is none."""
    try:
        hello = _hello.decode(frame)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        hello = None
    if hello is None or hello.magic != MAGIC:
        raise ClusterError("it does not speak as a node does")
    return hello


class Acceptor:
    """The end that was connected to."""

    def __init__(self, own: Sighting, key_for: Callable[[Sighting], bytes | None], *, nonce: bytes) -> None:
        """`key_for` finds the key of another node; None: that node is not in view."""
        self._own = own
        self._key_for = key_for
        self._nonce = nonce

    def challenge(self) -> bytes:
        """The first frame."""
        return MAGIC + self._nonce

    def admit(self, frame: bytes) -> tuple[Sighting, bytes]:
        """The node that has answered the challenge, and the frame that welcomes it.

        ClusterError if it is nobody that may connect.
        """
        hello, own = read_hello(frame), self._own
        seen = Sighting(own.cluster, hello.name, hello.incarnation, own.version)
        key = self._key_for(seen)
        if key is None:
            raise ClusterError(f"it says that it is node {hello.name}, which is not in view")
        facts = _facts(own, seen, self._nonce, hello.nonce)
        if not hmac.compare_digest(_proof(key, b"connects", facts), hello.proof):
            raise ClusterError(f"it says that it is node {hello.name}, and its ticket or password is wrong")
        return seen, _proof(key, b"accepts", facts)


class Connector:
    """The end that connects."""

    def __init__(self, own: Sighting, to: Sighting, key: bytes, *, nonce: bytes) -> None:
        self._own = own
        self._to = to
        self._key = key
        self._nonce = nonce
        self._facts = b""

    def hello(self, frame: bytes) -> bytes:
        """The answer to a challenge; ClusterError if it is none."""
        if len(frame) != len(MAGIC) + NONCE_BYTES or not frame.startswith(MAGIC):
            raise ClusterError("what answers is no node")
        self._facts = _facts(self._to, self._own, frame[len(MAGIC) :], self._nonce)
        proof = _proof(self._key, b"connects", self._facts)
        own = self._own
        return msgspec.msgpack.encode(Hello(MAGIC, self._nonce, proof, own.name, own.incarnation))

    def check(self, frame: bytes) -> None:
        """Check the proof of the other end; ClusterError if it is wrong."""
        if not hmac.compare_digest(_proof(self._key, b"accepts", self._facts), frame):
            raise ClusterError("another node answers there, or its password differs")


def _named(seen: Sighting) -> bytes:
    return msgspec.msgpack.encode((seen.cluster, seen.name, seen.incarnation))


def _facts(accepts: Sighting, connects: Sighting, *nonces: bytes) -> bytes:
    return msgspec.msgpack.encode((_named(accepts), _named(connects), nonces))


def _proof(key: bytes, what: bytes, facts: bytes) -> bytes:
    return hmac.digest(key, what + b"\0" + facts, "sha256")
