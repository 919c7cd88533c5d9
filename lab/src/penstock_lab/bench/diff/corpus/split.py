"""Splits the kinds of noise and edits into seen and held-out ones.

The first catalogue (`noises`, `edits`) is split in two halves by a seed. The model was made by looking at the
half DRAWN; the half ONCE_HELD_OUT was judged once, which showed 4.0 % false alarms per poll and 26.9 per
subscription-week, all edits found. What was wrong was mended, so that half counts as seen since then. The
second catalogue (`unseen`) was written before that, some of it later, and nothing was mended by looking at
what the model makes of it: it is what the benchmark judges on. Its note names kinds that raise alarms, so
when the model was changed again a third catalogue (`fresh`) was written first and judged after that: 7.4
per subscription-week. It counts as seen since then, with kinds that were written to mend it (`boards`); after
that a fourth one (`last`) was written and judged once.
"""

from __future__ import annotations

from random import Random
from typing import Final, TypeVar

from penstock_lab.bench.diff.corpus.boards import BOARD_NOISES
from penstock_lab.bench.diff.corpus.edits import EDITS, Edit
from penstock_lab.bench.diff.corpus.fresh import FRESH_NOISES
from penstock_lab.bench.diff.corpus.last import LAST_NOISES
from penstock_lab.bench.diff.corpus.noises import NOISES, Noise
from penstock_lab.bench.diff.corpus.unseen import LATEST_NOISES, UNSEEN_EDITS, UNSEEN_NOISES

SEED: Final = 17
_Kind = TypeVar("_Kind")


def halves(kinds: dict[str, _Kind], seed: int = SEED) -> tuple[dict[str, _Kind], dict[str, _Kind]]:
    """The two halves of a catalogue."""
    names = sorted(kinds)
    Random(seed).shuffle(names)  # noqa: S311
    held = set(names[: len(names) // 2])
    return (
        {name: kind for name, kind in kinds.items() if name not in held},
        {name: kind for name, kind in kinds.items() if name in held},
    )


DRAWN_NOISES, ONCE_HELD_OUT_NOISES = halves(NOISES)
DRAWN_EDITS, ONCE_HELD_OUT_EDITS = halves(EDITS)
FIRST_NOISES: Final = NOISES
SEEN_NOISES, SEEN_EDITS = {**NOISES, **BOARD_NOISES, **FRESH_NOISES}, EDITS
HELD_OUT_NOISES, HELD_OUT_EDITS = {**UNSEEN_NOISES, **LATEST_NOISES}, UNSEEN_EDITS

__all__ = [
    "BOARD_NOISES",
    "DRAWN_EDITS",
    "DRAWN_NOISES",
    "FIRST_NOISES",
    "FRESH_NOISES",
    "HELD_OUT_EDITS",
    "HELD_OUT_NOISES",
    "LAST_NOISES",
    "ONCE_HELD_OUT_EDITS",
    "ONCE_HELD_OUT_NOISES",
    "SEEN_EDITS",
    "SEEN_NOISES",
    "Edit",
    "Noise",
]
