"""What is told, in words for people."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock import limits
from penstock.core.channels.delta import Delta
from penstock.core.channels.difference import text_of
from penstock.core.channels.polling.words import moment
from penstock.model.digest import WORST_CASE, Cause
from penstock.node.telling.xml import clean

if TYPE_CHECKING:
    from penstock.model.digest import Digest

PAUSED: Final = Cause(level=0, position=0, filter="paused")
"""Why changes are in a digest that came while a subscription was held."""

RETURNED: Final = Cause(level=0, position=0, filter="returned")
"""Why changes are in a digest that were sent and came back."""


def title_of(what: Delta | Digest) -> str:
    """One line."""
    if isinstance(what, Delta):
        return clean(" ".join(f"{what.title or what.url} changed".split()))
    return f"{what.count} more {'change' if what.count == 1 else 'changes'}"


def message_of(what: Delta | Digest) -> str:
    """All of it, cut where nobody reads on; every sign is printable."""
    return text_of(what, most=limits.TELL_CHARS) if isinstance(what, Delta) else _sentence(what)


def _sentence(digest: Digest) -> str:
    changes = "1 change" if digest.count == 1 else f"{digest.count:,} changes"
    since, until = moment(digest.from_us), moment(digest.to_us)
    when = f"at {since}" if since == until else f"between {since} and {until}"
    verb = "is" if digest.count == 1 else "are"
    held = dict(digest.causes).get(PAUSED, 0)
    if held == digest.count:
        return f"{changes} {when} came while you had paused, and {verb} not sent one by one."
    if dict(digest.causes).get(RETURNED, 0) == digest.count:
        return f"{changes} {when} could not be delivered when they were sent, and {verb} not sent again."
    why = "because too many waited"
    by = [f"{cause} {count}" for cause, count in digest.causes if cause not in (WORST_CASE, PAUSED, RETURNED)]
    rules = f" (by your policy: {', '.join(by[:5])})" if by else ""
    return f"{changes} {when} {verb} not sent one by one, {why}{rules}."
