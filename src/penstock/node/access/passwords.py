"""Makes and checks argon2 hashes of passwords, in a few threads beside the event loop.

A check takes 0.2 s of processor time and 64 MB on purpose. A user name that does not exist is checked as long
as a wrong password, so that nobody can find out names by the time. A right password is remembered by a keyed
hash that never leaves the process, so that ten thousand devices can reconnect at once.
"""

from __future__ import annotations

import asyncio
import hmac
import secrets
from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor
from enum import Enum, auto
from hashlib import blake2b
from typing import TYPE_CHECKING, Final

from penstock import limits
from penstock.mqtt.fields import TEXT_BYTES

if TYPE_CHECKING:
    from collections.abc import Mapping


class Verdict(Enum):
    """Result of checking a password."""

    RIGHT = auto()
    WRONG = auto()
    BUSY = auto()
    """Not checked: too many passwords wait to be checked."""


SHORT: Final = 8
"""Characters below which a password deserves a warning (NIST SP 800-63B, section 5.1.1)."""


def problem_with_password(password: str) -> str:
    """Return why nobody can have a password; empty if one can."""
    if not password:
        return "the password is empty"
    if len(password.encode(errors="surrogateescape")) > TEXT_BYTES:
        return f"the password is longer than {TEXT_BYTES} bytes, which MQTT cannot carry"
    return ""


def weakness_of(password: str) -> str:
    """Return what should be better about a password; empty if nothing."""
    return f"the password has fewer than {SHORT} characters" if len(password) < SHORT else ""


def hashed(password: str) -> str:
    """Return the argon2id hash of a password, with argon2-cffi's default costs (RFC 9106, low memory)."""
    import argon2  # noqa: PLC0415  # a node without users needs none

    return argon2.PasswordHasher().hash(password)


def _fits(hash_: str, password: bytes) -> bool:
    import argon2  # noqa: PLC0415

    try:
        return argon2.PasswordHasher().verify(hash_, password)
    except (argon2.exceptions.VerificationError, argon2.exceptions.InvalidHashError):
        return False


def _costs_the_same(like: str, password: bytes) -> bool:
    """Take as long as a check against `like`, and return False."""
    import argon2  # noqa: PLC0415

    costs = argon2.extract_parameters(like)
    hasher = argon2.PasswordHasher(
        time_cost=costs.time_cost,
        memory_cost=costs.memory_cost,
        parallelism=costs.parallelism,
        hash_len=costs.hash_len,
        salt_len=costs.salt_len,
        type=costs.type,
    )
    hasher.hash(password)
    return False


class Passwords:
    """Checks passwords against the hashes of the users."""

    def __init__(self, users: Mapping[str, str]) -> None:
        self._waiting = 0
        self._threads: ThreadPoolExecutor | None = None
        self.replace(users)

    def replace(self, users: Mapping[str, str]) -> None:
        """Take over other users, and forget remembered passwords."""
        self._users = dict(users)
        self._secret = secrets.token_bytes(32)
        self._right: OrderedDict[str, bytes] = OrderedDict()

    def __bool__(self) -> bool:
        return bool(self._users)

    async def check(self, name: str, password: bytes) -> Verdict:
        """Check the password of a user."""
        # A right password is remembered as a keyed hash: argon2 takes 0.2 s at each connect otherwise.
        proof = blake2b(password, key=self._secret).digest()
        known = self._right.get(name)
        if known is not None and hmac.compare_digest(known, proof):
            return Verdict.RIGHT
        if self._waiting >= limits.GATE_WAITING:
            return Verdict.BUSY
        if not await self._fits(name, password):
            return Verdict.WRONG
        self._right[name] = proof
        if len(self._right) > limits.GATE_REMEMBERED:
            self._right.popitem(last=False)
        return Verdict.RIGHT

    async def _fits(self, name: str, password: bytes) -> bool:
        if self._threads is None:
            self._threads = ThreadPoolExecutor(limits.GATE_THREADS, thread_name_prefix="passwords")
        known = name in self._users
        hash_ = self._users[name] if known else next(iter(self._users.values()))
        # An unknown name takes as long as a wrong password: the time must not reveal which names exist.
        check = _fits if known else _costs_the_same
        self._waiting += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, check, hash_, password)
        finally:
            self._waiting -= 1

    def close(self) -> None:
        """Start no more checks, and cancel those that wait."""
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)
            self._threads = None
