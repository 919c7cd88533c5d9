"""Filters and exact tables as bytes, for another process.

    magic "PSLT" · version · kind · arrays · groups · hashes · positions · ahead · newest · inserted · refused
    body: the words of a filter; of an exact table its keys, ascending, then their masks
    the XXH64 of all before

Little-endian. Invalid bytes are refused with SlotError before memory is allocated for them.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

import numpy as np
import xxhash

from penstock import limits
from penstock.core.slots.exact import ExactTable
from penstock.core.slots.filter import RefreshingFilter
from penstock.core.slots.shape import Shape, Variant
from penstock.errors import SlotError

if TYPE_CHECKING:
    from penstock.core.slots.slot_sets import Words

MAGIC: Final = b"PSLT"
VERSION: Final = 1
_EXACT: Final = 0
_KINDS: Final = (Variant.SBF, Variant.MSBF, Variant.MHBF, Variant.MMBF, Variant.RBF)
_HEAD: Final = struct.Struct("<4sBBBBBIBqQQ")
_SUM: Final = struct.Struct("<Q")
_COUNT_MOST: Final = (1 << 63) - 1


def to_bytes(sets: RefreshingFilter | ExactTable) -> bytes:
    """Encode a filter or an exact table; `read` decodes it."""
    return _filter_bytes(sets) if isinstance(sets, RefreshingFilter) else _table_bytes(sets)


def _filter_bytes(filtered: RefreshingFilter) -> bytes:
    shape = filtered.shape
    head = _HEAD.pack(
        MAGIC,
        VERSION,
        _KINDS.index(shape.variant) + 1,
        shape.arrays,
        shape.groups,
        shape.hashes,
        shape.positions,
        shape.ahead,
        filtered.newest,
        filtered.inserted,
        filtered.refused,
    )
    return _signed(head + filtered.words.astype("<u8", copy=False).tobytes())


def _table_bytes(table: ExactTable) -> bytes:
    keys, masks = table.rows()
    head = _HEAD.pack(
        MAGIC, VERSION, _EXACT, table.slots, 1, 1, 1, table.ahead, table.newest, table.inserted, table.refused
    )
    body = keys.astype("<u8", copy=False).tobytes() + masks.astype("<u8", copy=False).tobytes()
    return _signed(head + body)


def read(data: bytes) -> RefreshingFilter | ExactTable:
    """Decode what `to_bytes` wrote; SlotError says what is wrong with it."""
    if len(data) < _HEAD.size + _SUM.size:
        raise SlotError(f"not a slot filter: {len(data)} bytes are shorter than its header")
    magic, version, kind, arrays, groups, hashes, positions, ahead, newest, inserted, refused = (
        _HEAD.unpack_from(data)
    )
    if magic != MAGIC:
        raise SlotError("not a slot filter: it does not begin with PSLT")
    if version != VERSION:
        raise SlotError(f"slot filter of version {version}; supported: {VERSION}")
    body = memoryview(data)[_HEAD.size : -_SUM.size]
    if _SUM.unpack_from(data, len(data) - _SUM.size)[0] != xxhash.xxh64_intdigest(
        memoryview(data)[: -_SUM.size]
    ):
        raise SlotError("damaged filter: wrong checksum; ask for it again")
    if not ahead <= newest <= limits.SLOT_LATEST + limits.SLOT_WINDOW or max(inserted, refused) > _COUNT_MOST:
        raise SlotError(f"damaged filter: newest slot {newest}, {inserted} inserted, {refused} refused")
    if kind == _EXACT:
        return _table(body, slots=arrays, ahead=ahead, newest=newest, counts=(inserted, refused))
    if not 1 <= kind <= len(_KINDS):
        raise SlotError(f"unknown kind of filter {kind}; allowed: 0 to {len(_KINDS)}")
    shape = Shape(
        variant=_KINDS[kind - 1],
        arrays=arrays,
        groups=groups,
        hashes=hashes,
        positions=positions,
        ahead=ahead,
    )
    if len(body) != shape.words * 8:
        raise SlotError(f"damaged filter: {len(body)} bytes of words, its shape needs {shape.words * 8}")
    found = RefreshingFilter(shape, start=newest - ahead)
    found.words[:] = np.frombuffer(body, dtype="<u8")
    found.inserted, found.refused = inserted, refused
    return found


def _table(body: memoryview, *, slots: int, ahead: int, newest: int, counts: tuple[int, int]) -> ExactTable:
    rows, rest = divmod(len(body), 16)
    if rest or rows > limits.SLOT_FLOWS:
        raise SlotError(f"damaged table: {len(body)} bytes are not rows of 16, {limits.SLOT_FLOWS} at most")
    table = ExactTable(slots=slots, ahead=ahead, start=newest - ahead)
    keys: Words = np.frombuffer(body[: rows * 8], dtype="<u8").astype(np.uint64)
    masks: Words = np.frombuffer(body[rows * 8 :], dtype="<u8").astype(np.uint64)
    table.put_rows(keys, masks)
    table.inserted, table.refused = counts
    return table


def _signed(data: bytes) -> bytes:
    return data + _SUM.pack(xxhash.xxh64_intdigest(data))
