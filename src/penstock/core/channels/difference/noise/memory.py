"""Memory of the noise of one channel: how often which part of it moved, and when."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Final, TypeVar

import msgspec
from xxhash import xxh3_64_intdigest

from penstock import limits
from penstock.core.channels.difference.hunks import Hunk
from penstock.core.channels.difference.noise.heat import (
    COLD,
    COLUMN_MOVES,
    NUMBER_MOVES,
    QUIET_LOOKS,
    ROLE_MOVES,
    WORD_MOVES,
    Heat,
)
from penstock.core.channels.difference.noise.slots import moved_lines
from penstock.core.channels.difference.noise.tokens import (
    column,
    is_number,
    is_stated,
    rekeyed,
    token_at,
    tokens,
)
from penstock.errors import ChannelError

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence


def hash_of(place: str, text: str) -> int:
    """Hash by which a line at a place is recognised."""
    return xxh3_64_intdigest(f"{place}\x00{text}".encode())


WHOLE: Final = -1
"""Key of a slot: another line stands in its place."""
GONE: Final = -2
"""Key of a slot: the line is missing."""


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
    passed: dict[int, tuple[str, ...]] = {}
    """Values that stood where a price or version stands, since the last message, without the present one."""


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
    tables: dict[str, int] = {}
    """Places that may be timetables: seconds from now to the time that a line named when it went."""
    roles: dict[str, Heat] = {}
    """Places whose lines take turns in wordings that were seen there before."""
    wordings: dict[int, int] = {}
    """Wordings of lines that changed, by hash of place and text without numbers: when seen, in seconds."""

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
    """List what is muted now, whole places first, then lines in the order of the page."""
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
    for place, heat in memory.roles.items():
        if place not in memory.unmuted and is_muted(heat, ROLE_MOVES):
            found.append(MutedPlace(place, "", "known words", _ROLE, heat.at_us))
    columns = {at: heat for at, heat in memory.columns.items() if is_muted(heat, COLUMN_MOVES)}
    found += _muted_columns(columns, memory.unmuted, lines, places)
    for slot in sorted(memory.slots, key=lambda slot: slot.line):
        if slot.line >= len(lines) or places[slot.line] in memory.unmuted:
            continue
        text = lines[slot.line]
        for key, heat in sorted(slot.heat.items()):
            part = token_at(text, key)
            if is_token_muted(heat, text, key, now_us=now_us, gap_us=0):
                what = f"'{part}'" if part else "this line"
                found.append(MutedPlace(places[slot.line], text, part, _evidence(heat, what), heat.at_us))
    return found


_SEARCHED: Final = 2_000
"""Lines that are searched for those of muted columns, which are known by a hash only."""
_ROLE: Final = "Its lines took turns in words that had stood there before. New words are told."


def _muted_columns(
    columns: dict[int, Heat], unmuted: Collection[str], lines: Sequence[str], places: Sequence[str]
) -> list[MutedPlace]:
    """Columns of numbers, each with the first line that has it."""
    found: dict[int, MutedPlace] = {}
    for text, place in islice(zip(lines, places, strict=True), _SEARCHED if columns else 0):
        if len(found) == len(columns):
            break
        if place in unmuted:
            continue
        for n, token in enumerate(tokens(text)):
            at = hash_of(place, column(text, 2 * n + 1)) if is_number(token) else 0
            if at in columns and at not in found:
                said = f"'{token}' changed in this line and others like it, at several looks."
                found[at] = MutedPlace(place, text, token, said, columns[at].at_us)
    return list(found.values())


def need_of(token: str, key: int) -> int:
    """Moves between polls that mute a token."""
    return NUMBER_MOVES if key >= 0 and any(sign.isdigit() for sign in token) else WORD_MOVES


def is_token_muted(heat: Heat, line: str, key: int, *, now_us: int, gap_us: int) -> bool:
    """Whether a part of a told line is muted now."""
    if heat.moves and not heat.sure and is_stated(line, key):
        return heat.silences(now_us)
    return heat.mutes(need_of(token_at(line, key), key), now_us=now_us, gap_us=gap_us)


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
        tables=dict([*memory.tables.items()][-limits.NOISE_PLACES :]),
        roles=_latest(memory.roles),
        wordings=_newest(memory.wordings),
    )


def _latest(heats: dict[_Key, Heat]) -> dict[_Key, Heat]:
    if len(heats) <= limits.NOISE_PLACES:
        return heats
    return dict(sorted(heats.items(), key=lambda each: each[1].at_us)[-limits.NOISE_PLACES :])


def _newest(wordings: dict[int, int]) -> dict[int, int]:
    if len(wordings) <= limits.NOISE_WORDINGS:
        return wordings
    return dict([*wordings.items()][-limits.NOISE_WORDINGS :])


def unmuted(memory: Memory, place: str, places: Sequence[str]) -> Memory:
    """The memory after a person asked to hear of a place; ChannelError if the page has no such place."""
    known = (places, memory.places, memory.orders, memory.roles)
    if not any(place in each for each in known):
        raise ChannelError(f"the page has no place {place!r}: `channels why` names those that are muted")
    if place in memory.unmuted:
        return memory
    return msgspec.structs.replace(memory, unmuted=(*memory.unmuted, place)[-limits.NOISE_PLACES :])


def _displaced(
    found: Sequence[Hunk],
    old: tuple[Sequence[str], Sequence[str]],
    new: tuple[Sequence[str], Sequence[str]],
) -> dict[int, int]:
    """Lines that hunks put elsewhere: where they stood, by where they stand now."""
    gone: list[tuple[int, tuple[str, str]]] = []
    came: list[tuple[int, tuple[str, str]]] = []
    shift = 0
    for hunk in found:
        size = hunk.new_end - hunk.new
        gone += [(i, (old[1][i], old[0][i])) for i in range(hunk.old, hunk.old_end)]
        came += [(j, (new[1][j], new[0][j])) for j in range(hunk.old + shift, hunk.old + shift + size)]
        shift += size - (hunk.old_end - hunk.old)
    return {j: i for i, j in moved_lines(gone, came).items()}


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
    displaced = _displaced(found, old, new)
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
            i = displaced.get(start + n, i)
            slot = slots.get(i) if n < gone or start + n in displaced else None
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
