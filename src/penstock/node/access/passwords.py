"""Passwords: argon2 hashes made and checked, off the event loop and a few at a time.

A check takes 0.2 s of processor time and 64 MB on purpose. So a name that does not exist costs the same as
a wrong password, and a password found right is remembered, by a keyed hash that never leaves the process:
ten thousand devices that come back at once are let in at once.
"""

from __future__ import annotations

import asyncio
import hmac
import secrets
from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor
from enum import Enum, auto
from hashlib import blake2b
from typing import TYPE_CHECKING

import argon2

from penstock import limits

if TYPE_CHECKING:
    from collections.abc import Mapping


class Verdict(Enum):
    """Of one check."""

    RIGHT = auto()
    WRONG = auto()
    BUSY = auto()
    """Too many wait already."""


def hashed(password: str) -> str:
    """The argon2id hash of a password, with argon2-cffi's default costs (RFC 9106, low memory)."""
    return argon2.PasswordHasher().hash(password)


def _fits(hash_: str, password: bytes) -> bool:
    try:
        return argon2.PasswordHasher().verify(hash_, password)
    except (argon2.exceptions.VerificationError, argon2.exceptions.InvalidHashError):
        return False


def _costs_the_same(like: str, password: bytes) -> bool:
    """Take as long as a check against that hash would, and find the password wrong."""
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
    """The users' hashes, ready to be checked against."""

    def __init__(self, users: Mapping[str, str]) -> None:
        self._waiting = 0
        self._threads: ThreadPoolExecutor | None = None
        self.replace(users)

    def replace(self, users: Mapping[str, str]) -> None:
        """Other users from now on; what was remembered is forgotten."""
        self._users = dict(users)
        self._secret = secrets.token_bytes(32)
        self._right: OrderedDict[str, bytes] = OrderedDict()

    def __bool__(self) -> bool:
        return bool(self._users)

    async def check(self, name: str, password: bytes) -> Verdict:
        """Whether this is the password of that user."""
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
        check = _fits if known else _costs_the_same
        self._waiting += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, check, hash_, password)
        finally:
            self._waiting -= 1

    def close(self) -> None:
        """Start no more checks; those that wait are given up."""
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)
            self._threads = None
