"""Hashes of passwords that cost little, for tests."""

from __future__ import annotations


def cheap(password: str) -> str:
    """A hash that takes no time."""
    import argon2  # noqa: PLC0415

    return argon2.PasswordHasher(time_cost=1, memory_cost=8, parallelism=1).hash(password)
