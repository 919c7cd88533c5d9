"""When nobody answers, the reason is here: channels are not blamed for a network that is down."""

from __future__ import annotations

from typing import Final

DOMAINS: Final = 10
"""That give no answer, one after the other: so many sites are not down at once."""
DOMAINS_LEAST: Final = 2
"""Of one domain alone nobody can tell."""


class Outage:
    """Watches whether anybody answers at all."""

    __slots__ = ("_silent",)

    def __init__(self) -> None:
        self._silent: dict[str, None] = {}
        """Domains that gave no answer since one did."""

    def note(self, domain: str, *, answered: bool, domains: int) -> bool:
        """A fetch is over, of so many domains that are polled; whether nobody answers at present."""
        if answered:
            self._silent.clear()
        elif len(self._silent) < DOMAINS:
            self._silent[domain] = None
        return len(self._silent) >= max(DOMAINS_LEAST, min(DOMAINS, domains))
