"""NACKs that were passed on a moment ago: many ask below, one question goes up."""

from __future__ import annotations

from penstock.core.streams.spans import Span, Spans


class NackHold:
    """Two generations of spans by interest: each is held for one to two times `hold_us`."""

    __slots__ = ("_hold_us", "_newer", "_older", "_turned_us")

    def __init__(self, hold_us: int) -> None:
        self._hold_us = hold_us
        self._newer: dict[str, Spans] = {}
        self._older: dict[str, Spans] = {}
        self._turned_us = 0

    def unasked(self, spans: list[Span], interest: str, *, now_us: int) -> list[Span]:
        """The parts that nobody asked for lately; they count as asked now. Interest "" asks for all."""
        self._turn(now_us)
        for asked in (self._newer, self._older):
            for known in {"": None, interest: None}:
                if known in asked:
                    spans = [part for span in spans for part in asked[known].gaps(*span)]
        if spans:
            mine = self._newer.setdefault(interest, Spans())
            for span in spans:
                mine.add(*span)
        return spans

    def clear(self) -> None:
        """Nothing counts as asked for."""
        self._newer, self._older = {}, {}

    def answered(self, since: int, until: int, interest: str) -> None:
        """A span has come; with interest "" for everybody."""
        for asked in (self._newer, self._older):
            for name in asked if interest == "" else (interest,):
                if name in asked:
                    asked[name].remove(since, until)

    def _turn(self, now_us: int) -> None:
        if now_us - self._turned_us >= 2 * self._hold_us:
            self._newer, self._older = {}, {}
        elif now_us - self._turned_us >= self._hold_us:
            self._newer, self._older = {}, self._newer
        else:
            return
        self._turned_us = now_us
