"""Limits of access control: passwords and access lists, against clients that guess."""

from __future__ import annotations

from typing import Final

GATE_THREADS: Final = 2
"""Passwords checked at the same time: each takes 64 MB and 0.2 s of processor time."""

GATE_WAITING: Final = 200
"""Passwords waiting to be checked: two cores check ten a second, and clients give up after some 20 s."""

GATE_REMEMBERED: Final = 10_000
"""Users whose right password is remembered by its keyed hash, of 64 bytes."""

GATE_FAILURES: Final = 10
"""Wrong passwords an address may give in GATE_FAILURES_S: a person's typing errors, not a search."""

GATE_FAILURES_S: Final = 60
"""Window of GATE_FAILURES, in seconds."""

GATE_ADDRESSES: Final = 65_536
"""Addresses whose rate is remembered: some 10 MB."""

ARGON2_KIB: Final = 1 << 20
"""Memory of one password check that a hash may ask for, in KiB: 1 GiB; argon2's default is 64 MiB."""

ARGON2_ROUNDS: Final = 64
"""Rounds of one password check that a hash may ask for; argon2's default is 3."""

ACL_CLIENTS: Final = 10_000
"""Clients whose access rules are cached; then the cache is emptied."""

ACL_DECISIONS: Final = 1_000
"""Decisions cached for one client; then the cache is emptied."""
