"""Times as feeds and pages write them, in microseconds."""

from __future__ import annotations

from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Final

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_CHARS: Final = 64


def instant_of(raw: object) -> int | None:
    """Of an ISO 8601 or RFC 822 time; None if it is neither. Without a zone it is taken as UTC."""
    if not isinstance(raw, str) or len(raw) > _CHARS:
        return None
    try:
        when = datetime.fromisoformat(raw.strip())
    except ValueError:
        try:
            when = parsedate_to_datetime(raw)
        except (ValueError, TypeError, IndexError, OverflowError):
            return None
    when = when if when.tzinfo else when.replace(tzinfo=UTC)
    since = when - _EPOCH
    found = (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds
    return found if found > 0 else None
