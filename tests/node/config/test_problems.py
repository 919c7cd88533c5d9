"""Checks of single settings that commands use, too."""

from __future__ import annotations

from penstock.node.access.passwords import hashed
from penstock.node.config.problems import problem_with_hash


def test_hashes_are_told_from_other_texts() -> None:
    assert problem_with_hash(hashed("x")) == ""
    assert problem_with_hash("x") == "is not an argon2 hash"
    assert problem_with_hash("$argon2id$v=19$m=65536,t=99,p=4$AAAA$AAAA").startswith(
        "costs 65536 KiB and 99 rounds"
    )
