"""Which lines of a page are news: exact differences first, then those that are more than noise.

Lines are compared as they are. Where they differ, they are compared by template, and lines that differ in
noise only keep their old wording: so the content that is kept changes by deltas alone, and two nodes that
have applied the same deltas hold the same lines.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.core.channels.difference.hunks import Hunk, hunks, joined
from penstock.core.channels.difference.noise import Template, is_noise, template

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from penstock.core.channels.difference.learned import Learned


class Judge:
    """What counts as noise on one channel at one moment."""

    def __init__(self, kinds: Collection[str], learned: Learned, now_us: int) -> None:
        self._kinds = kinds
        self._shapes = learned.sure_shapes()
        self._now_us = now_us
        self.silent = learned.silent()
        """Places whose lines are not compared: leave them out."""

    def news(
        self,
        old: Sequence[str],
        new: Sequence[str],
        *,
        old_places: Sequence[str],
        new_places: Sequence[str],
    ) -> list[Hunk]:
        """The hunks that are news."""
        found: list[Hunk] = []
        for hunk in hunks(old, new):
            a = [self._template(old[i], old_places[i]) for i in range(hunk.old, hunk.old_end)]
            b = [self._template(new[j], new_places[j]) for j in range(hunk.new, hunk.new_end)]
            if all(one.bare for one in a) and all(one.bare for one in b) and self._bare_noise(a, b):
                continue
            found += (
                Hunk(
                    hunk.old + real.old, hunk.old + real.old_end, hunk.new + real.new, hunk.new + real.new_end
                )
                for real in self._refined(a, b, new[hunk.new : hunk.new_end])
            )
        return found

    def _refined(self, a: list[Template], b: list[Template], lines: Sequence[str]) -> list[Hunk]:
        """Hunks by template, and between them the pairs whose masked words are news after all."""
        found: list[Hunk] = []
        i = j = 0
        for hunk in [
            *hunks([one.key for one in a], [one.key for one in b]),
            Hunk(len(a), len(a), len(b), len(b)),
        ]:
            while i < hunk.old:
                if a[i].masks != b[j].masks and not is_noise(a[i], b[j], lines[j], now_us=self._now_us):
                    found.append(Hunk(i, i + 1, j, j + 1))
                i, j = i + 1, j + 1
            if hunk.old < hunk.old_end or hunk.new < hunk.new_end:
                found.append(hunk)
            i, j = hunk.old_end, hunk.new_end
        return joined(found)

    def _bare_noise(self, a: list[Template], b: list[Template]) -> bool:
        """Lines of nothing but counters and the like may come and go; dates may not."""
        return all(mask.kind in ("ago", "counter", "session") for one in (*a, *b) for mask in one.masks)

    def _template(self, line: str, place: str) -> Template:
        shapes = self._shapes.get(place)
        if shapes:
            words = line.split(" ")
            for shape in shapes:
                if shape.fits(words):
                    return Template(shape.key, (), bare=False)
        return template(line, self._kinds)

    def key(self, line: str, place: str) -> str:
        """By which the same line is known again."""
        return self._template(line, place).key
