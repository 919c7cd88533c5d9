"""Reading what servers write: dates, numbers of seconds, lists of directives."""

from __future__ import annotations

import re
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import Final

from penstock.model.instant import SECOND_US, Instant

_SECONDS: Final = re.compile(r"[0-9]{1,15}")
_DIRECTIVE: Final = re.compile(r'([A-Za-z-]+)(?:\s*=\s*(?:"([^"]*)"|([^\s,]*)))?')


def seconds(text: str) -> int | None:
    """A whole number of seconds; None if it is none."""
    found = _SECONDS.fullmatch(text.strip())
    return int(found[0]) if found else None


def date_us(text: str) -> Instant | None:
    """A date of any of the three forms that HTTP allows (RFC 9110, 5.6.7); None if it is none."""
    try:
        at = parsedate_to_datetime(text)
        return int((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()) * SECOND_US
    except (ValueError, TypeError, OverflowError, IndexError):
        return None


def directives(text: str) -> dict[str, str]:
    """Cache-Control, by name in lower case; of one that is repeated the first counts."""
    found: dict[str, str] = {}
    for match in _DIRECTIVE.finditer(text):
        found.setdefault(match[1].lower(), match[2] or match[3] or "")
    return found
