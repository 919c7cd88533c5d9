"""What is remembered about the noise of one channel: how often which part of it moved, and when.

`Heat` counts moves. A part that two fetches of one moment show differently is muted at once; between polls
the second move of a number mutes it, words and whole lines need three. Heat cools: after half a day of
stillness for each move, or a week, the part is content again. A part that was muted on weak evidence and
then stayed as it is is told after all, late.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar

import msgspec
from xxhash import xxh3_64_intdigest

from penstock import limits
from penstock.core.channels.difference.hunks import Hunk
from penstock.core.channels.difference.noise.tokens import rekeyed, token_at
from penstock.errors import ChannelError
from penstock.model.instant import SECOND_US

if TYPE_CHECKING:
    from collections.abc import Sequence


def hash_of(place: str, text: str) -> int:
    """Hash by which a line at a place is recognised."""
    return xxh3_64_intdigest(f"{place}\x00{text}".encode())


HOUR_US: Final = 3_600 * SECOND_US

WINDOW_US: Final = 36 * HOUR_US
"""Moves further apart than this do not add up; with rare polls, more than two polls apart."""
RARE_US: Final = 12 * HOUR_US
"""Looks further apart than this teach nothing about words and lines."""
KEEP_US: Final = 12 * HOUR_US
"""How long each move keeps a part muted; with rare polls, two polls."""
STILL_LOOKS: Final = 12
"""Looks after which what a pair showed differently, and what then changed once and stayed, was an edit."""
FIRM: Final = 14
"""Most moves that are counted, and the weight of a pair: a week without a move."""
SETTLED: Final = 4
"""Moves from which a part that cools stays as it is silently; after fewer it is told, late."""
NUMBER_MOVES: Final = 2
WORD_MOVES: Final = 3
QUIET_LOOKS: Final = 2
"""Looks after the first that only teach: the third fetch some minutes later, and the first regular poll."""

WHOLE: Final = -1
"""Key of a slot: another line stands in its place."""
GONE: Final = -2
"""Key of a slot: the line is missing."""


class Heat(msgspec.Struct, frozen=True, array_like=True):
    """How often something moved, and when last."""

    moves: int = 0
    at_us: int = 0
    sure: bool = False
    """Whether two fetches of one moment differed in it."""
    again: int = 0
    """Moves since then."""
    still: int = 0
    """Looks since the last move."""

    def moved(self, *, now_us: int, gap_us: int, words: bool = False, teaching: bool = False) -> Heat:
        """The heat after a move between two looks that are `gap_us` apart.

        `words`: not a number, so that moves between rare looks say nothing: who polls once a day wants to be
        told of a new menu every day. `teaching`: the looks are minutes apart and nothing is told yet, so that
        a second move is enough.
        """
        if words and gap_us > RARE_US:
            return self
        recent = self.moves > 0 and now_us - self.at_us <= max(WINDOW_US, 5 * gap_us // 2)
        if not recent:
            return Heat(1, now_us)
        more = WORD_MOVES - 1 if teaching else 1
        return Heat(min(self.moves + more, FIRM), now_us, self.sure, self.again + self.sure)

    def rested(self) -> Heat:
        """The heat after a look at which it did not move."""
        return msgspec.structs.replace(self, still=self.still + 1)

    def seen(self, *, now_us: int) -> Heat:
        """The heat after two fetches of one moment differed."""
        return Heat(FIRM, now_us, sure=True)

    def mutes(self, need: int, *, now_us: int, gap_us: int) -> bool:
        """Whether it is muted now, if so many moves are needed."""
        if self.moves < need and not self.sure:
            return False
        if self.still >= STILL_LOOKS and self.sure and self.again < NUMBER_MOVES:
            return False  # an edit between the two fetches of the pair, which has stayed
        return now_us - self.at_us <= self.moves * max(KEEP_US, 2 * gap_us)

    @property
    def unproven(self) -> bool:
        """Whether only a pair speaks for it, so that it may be an edit between the two fetches."""
        return self.sure and self.again < NUMBER_MOVES and self.still <= STILL_LOOKS

    @property
    def firm(self) -> bool:
        """Whether there is much evidence."""
        return self.sure or self.moves >= SETTLED


COLD: Final = Heat()
_Key = TypeVar("_Key", str, int)


class Slot(msgspec.Struct, frozen=True, array_like=True):
    """A told line that looked different at some time."""

    line: int
    """Index of the told line."""
    at_us: int
    """When `now` was seen."""
    now: dict[int, str] = {}
    """How it deviates from what was told, by keys of its tokens, WHOLE and GONE."""
    calm: tuple[int, ...] = ()
    """Keys whose present deviation is noise."""
    heat: dict[int, Heat] = {}


class Stranger(msgspec.Struct, frozen=True, array_like=True):
    """A line that was seen but is not among the told ones: the pool."""

    here: bool
    heat: Heat
    calm: bool
    """Whether its presence is noise."""


FORM: Final = 1
"""Version of `Memory`: another one is refused when it is read."""


class Memory(msgspec.Struct, frozen=True):
    """Noise of one channel; bounded, and stored with its version."""

    form: int = 0
    """Version of this structure; 0: nothing was remembered yet."""
    looks: int = 0
    """Looks so far, up to the first that may speak."""
    at_us: int = 0
    """When the last look was."""
    by_tags: bool = False
    """Whether class names differ from fetch to fetch, so that places are told apart by tags alone."""
    slots: tuple[Slot, ...] = ()
    pool: dict[int, Stranger] = {}
    """By hash of place and text."""
    places: dict[str, Heat] = {}
    """Places where much of the lines is replaced at a look."""
    orders: dict[str, Heat] = {}
    """Places whose lines change their order."""
    columns: dict[int, Heat] = {}
    """Columns of numbers, by hash of tags and shape, that change in several lines at one look."""
    unmuted: tuple[str, ...] = ()
    """Places that a person wants to hear of, whatever they do."""

    @property
    def teaching(self) -> bool:
        """Whether the next look only teaches."""
        return self.looks <= QUIET_LOOKS

    @property
    def is_warm(self) -> bool:
        """Whether anything ever moved."""
        return bool(self.slots or self.pool or self.places or self.orders)

    @property
    def unproven(self) -> bool:
        """Whether the page differs from what was told in something that only a pair speaks for."""
        return any(
            heat.unproven for slot in self.slots for key, heat in slot.heat.items() if key in slot.now
        ) or any(stranger.here and stranger.heat.unproven for stranger in self.pool.values())

    def looked(self, *, now_us: int) -> Memory:
        """The memory after a look at which nothing moved."""
        looks = min(self.looks + 1, QUIET_LOOKS + 1)
        return msgspec.structs.replace(self, form=FORM, looks=looks, at_us=now_us)


class MutedPlace(msgspec.Struct, frozen=True):
    """A part of a page that is not told, and on what evidence."""

    place: str
    """Name to unmute it by."""
    text: str
    """The line concerned, as it was told last; empty: all lines at the place."""
    part: str
    """The part of the line that keeps changing; empty: all of it."""
    evidence: str
    """A sentence."""
    since_us: int
    """When it moved last."""


def muted_places(
    memory: Memory, lines: Sequence[str], places: Sequence[str], *, now_us: int
) -> list[MutedPlace]:
    """What is muted now, whole places first, then lines in the order of the page."""
    found: list[MutedPlace] = []

    def is_muted(heat: Heat, need: int) -> bool:
        return heat.mutes(need, now_us=now_us, gap_us=0)

    for place, heat in memory.places.items():
        if place not in memory.unmuted and is_muted(heat, WORD_MOVES):
            found.append(MutedPlace(place, "", "", _evidence(heat, "many of its lines"), heat.at_us))
    for place, heat in memory.orders.items():
        if place not in memory.unmuted and is_muted(heat, NUMBER_MOVES):
            found.append(
                MutedPlace(place, "", "order", _evidence(heat, "the order of its lines"), heat.at_us)
            )
    for slot in sorted(memory.slots, key=lambda slot: slot.line):
        if slot.line >= len(lines) or places[slot.line] in memory.unmuted:
            continue
        text = lines[slot.line]
        for key, heat in sorted(slot.heat.items()):
            part = token_at(text, key)
            if is_muted(heat, need_of(part, key)):
                what = f"'{part}'" if part else "this line"
                found.append(MutedPlace(places[slot.line], text, part, _evidence(heat, what), heat.at_us))
    return found


def need_of(token: str, key: int) -> int:
    """Moves between polls that mute a token."""
    return NUMBER_MOVES if key >= 0 and any(sign.isdigit() for sign in token) else WORD_MOVES


def _evidence(heat: Heat, what: str) -> str:
    if heat.sure:
        return f"Two fetches of one moment differed in {what}."
    return f"{what[0].upper()}{what[1:]} changed at {heat.moves} looks, one soon after the other."


def bounded(memory: Memory) -> Memory:
    """The memory without what moved longest ago, if it is too large."""
    slots = memory.slots
    if len(slots) > limits.NOISE_SLOTS:
        warm = sorted(slots, key=lambda slot: max((heat.at_us for heat in slot.heat.values()), default=0))
        slots = tuple(sorted(warm[-limits.NOISE_SLOTS :], key=lambda slot: slot.line))
    pool = memory.pool
    if len(pool) > limits.NOISE_POOL:
        pool = dict(sorted(pool.items(), key=lambda each: each[1].heat.at_us)[-limits.NOISE_POOL :])
    return msgspec.structs.replace(
        memory,
        slots=slots,
        pool=pool,
        places=_latest(memory.places),
        orders=_latest(memory.orders),
        columns=_latest(memory.columns),
    )


def _latest(heats: dict[_Key, Heat]) -> dict[_Key, Heat]:
    if len(heats) <= limits.NOISE_PLACES:
        return heats
    return dict(sorted(heats.items(), key=lambda each: each[1].at_us)[-limits.NOISE_PLACES :])


def unmuted(memory: Memory, place: str, places: Sequence[str]) -> Memory:
    """The memory after a person asked to hear of a place; ChannelError if the page has no such place."""
    if place not in places and place not in memory.places and place not in memory.orders:
        raise ChannelError(f"the page has no place {place!r}: `channels why` names those that are muted")
    if place in memory.unmuted:
        return memory
    return msgspec.structs.replace(memory, unmuted=(*memory.unmuted, place)[-limits.NOISE_PLACES :])


def retold(
    memory: Memory,
    found: Sequence[Hunk],
    old: tuple[Sequence[str], Sequence[str]],
    new: tuple[Sequence[str], Sequence[str]],
) -> Memory:
    """The memory after the hunks were told: slots follow their lines, and heat stays with what moved."""
    slots = {slot.line: slot for slot in memory.slots}
    kept: list[Slot] = []
    pool = dict(memory.pool)
    shift = done = 0
    for hunk in [*found, Hunk(len(old[0]), len(old[0]), 0, 0)]:
        kept += [
            msgspec.structs.replace(slots[i], line=i + shift) for i in range(done, hunk.old) if i in slots
        ]
        start = hunk.old + shift
        gone, came = hunk.old_end - hunk.old, hunk.new_end - hunk.new
        for n in range(max(gone, came)):
            i = hunk.old + n
            slot = slots.get(i) if n < gone else None
            if n >= came:
                key = hash_of(old[1][i], old[0][i])
                heat = slot.heat.get(GONE, COLD) if slot else COLD
                pool[key] = Stranger(here=False, heat=heat, calm=False)
                continue
            text, place = new[0][start + n], new[1][start + n]
            heats: dict[int, Heat] = {}
            if slot is not None:
                keys = rekeyed(old[0][i], text, slot.heat)
                heats = {
                    keys.get(key, key): heat for key, heat in slot.heat.items() if key < 0 or key in keys
                }
            stranger = pool.pop(hash_of(place, text), None)
            if stranger is not None and stranger.heat.moves:
                heats[GONE] = stranger.heat
            if heats:
                kept.append(Slot(start + n, memory.at_us, heat=heats))
        done = hunk.old_end
        shift += came - gone
    return bounded(msgspec.structs.replace(memory, slots=tuple(kept), pool=pool))
