"""Whose the names are under which a node keeps something: consumers and writers belong to who made them.

Whoever moves another's consumer lets its messages go, and whoever writes under another's name uses up its
numbers. What nobody in particular made belongs to all who may read, or write into, the stream; so does
everything at a node that has no users any more, where nobody can come as one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.errors import StreamRefused
from penstock.node.streams.checks import has_users

if TYPE_CHECKING:
    from penstock.node.config import Config


def check_owner(config: Config, owner: str, user: str, what: str) -> None:
    """StreamRefused if it belongs to another user; an empty owner is nobody in particular."""
    if owner not in ("", user) and has_users(config):
        as_whom = f"user '{user}'" if user else "somebody without a name"
        raise StreamRefused(
            f"{what} belongs to another user than {as_whom}: use another name for it, or come as its user",
            code="denied",
        )
