"""Texts that XML can carry."""

from __future__ import annotations

import re
from typing import Final

_FORBIDDEN: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""What no XML 1.0 document may hold, not even escaped (section 2.2)."""


def clean(text: str) -> str:
    """A text with a mark in the place of each character that XML has no way to write."""
    return _FORBIDDEN.sub("\ufffd", text)
