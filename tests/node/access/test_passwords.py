"""Hashes of passwords: their costs, and that they fit. Checks beside the event loop are in test_gate."""

from __future__ import annotations

import argon2

from penstock.node.access.passwords import hashed


def test_a_hash_has_the_costs_of_rfc_9106_and_fits_its_password_only() -> None:
    made = hashed("correct horse")
    costs = argon2.extract_parameters(made)
    assert (costs.time_cost, costs.memory_cost, costs.parallelism) == (3, 65_536, 4)
    assert argon2.PasswordHasher().verify(made, "correct horse")
    assert hashed("correct horse") != made, "each has a salt of its own"
