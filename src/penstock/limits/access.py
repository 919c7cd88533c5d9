"""Limits of access control: strangers who try passwords and topics."""

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
"""See GATE_FAILURES."""

GATE_ADDRESSES: Final = 65_536
"""Addresses whose rate is known: some 10 MB."""

ARGON2_KIB: Final = 1 << 20
"""Memory of one password check that a hash may ask for, in KiB: 1 GiB; argon2's default is 64 MiB."""

ARGON2_ROUNDS: Final = 64
"""Rounds of one password check that a hash may ask for; argon2's default is 3."""

ACL_CLIENTS: Final = 10_000
"""Clients whose view of the access list is kept; then all are made anew."""

ACL_DECISIONS: Final = 1_000
"""Decisions remembered for one client; then they are made anew."""
