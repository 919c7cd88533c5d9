"""Distinct counts (HLL) and quantiles (KLL) in bounded space, byte-compatible with Spark SQL.

Spark's `hll_sketch_agg(…, 12)` makes an HLL_8 sketch of 2¹² registers, `kll_sketch_agg_double(…, 200)` a KLL
sketch of doubles with k = 200; both engines read and merge each other's bytes with these parameters. An HLL
sketch is fed the XXH64 (seed 42) of the value, which is what Spark's `xxhash64` gives.

Functions import `datasketches` themselves: it loads numpy, a third of a second that most programs can save.
"""

from __future__ import annotations

import struct
from math import isfinite, isnan
from typing import TYPE_CHECKING, Final

import xxhash

from penstock.errors import DigestError
from penstock.model.values import INT64_LEAST, INT64_MOST

if TYPE_CHECKING:
    from collections.abc import Iterable

    import datasketches

    from penstock.model.values import Scalar

LG_REGISTERS: Final = 12
"""2¹² registers: 1.6 % standard error in 4 KB; Spark's default."""

KLL_K: Final = 200
"""Rank error 1.3 % in about 4 KB; Spark's default."""

HASH_SEED: Final = 42
"""Spark's seed for `xxhash64`."""

_KLL_SINGLE_BYTES: Final = 16
_KLL_LEVELS_AT: Final = 18
"""Offset of the number of levels; behind it an unused byte, the levels' offsets, minimum, maximum and
items."""

QUANTILES: Final = (0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99)
"""Ranks shown to people."""


def hash64(data: bytes) -> int:
    """XXH64 as the signed number Spark's `xxhash64` returns."""
    unsigned = xxhash.xxh64_intdigest(data, seed=HASH_SEED)
    return unsigned - (1 << 64) if unsigned > INT64_MOST else unsigned


def value_hash(value: Scalar) -> int:
    """Hash of a value for counting: `xxhash64` of a string, int, bigint or double."""
    if isinstance(value, str):
        return hash64(value.encode("utf-8", "surrogatepass"))
    if isinstance(value, bool):
        # Spark hashes a boolean as an int of 32 bits.
        return hash64(struct.pack("<i", value))
    if isinstance(value, int) or (value.is_integer() and INT64_LEAST <= value <= INT64_MOST):
        # A whole number counts once, whether it was written as 3 or 3.0.
        return hash64(struct.pack("<q", int(value)))
    return hash64(struct.pack("<d", value))


def distinct_of(found: Iterable[Scalar]) -> bytes:
    """HLL sketch of the values."""
    import datasketches  # noqa: PLC0415

    sketch = datasketches.hll_sketch(LG_REGISTERS, datasketches.tgt_hll_type.HLL_8)
    for value in found:
        sketch.update(value_hash(value))
    return bytes(sketch.serialize_compact())


def quantiles_of(numbers: Iterable[float]) -> bytes:
    """KLL sketch of the numbers."""
    import datasketches  # noqa: PLC0415

    sketch = datasketches.kll_doubles_sketch(KLL_K)
    for found in numbers:
        sketch.update(found)
    return bytes(sketch.serialize())


def merge_distinct(a: bytes, b: bytes) -> bytes:
    """HLL sketch of the union."""
    import datasketches  # noqa: PLC0415

    union = datasketches.hll_union(LG_REGISTERS)
    union.update(_read_distinct(a))
    union.update(_read_distinct(b))
    return bytes(union.get_result(datasketches.tgt_hll_type.HLL_8).serialize_compact())


def merge_quantiles(a: bytes, b: bytes) -> bytes:
    """KLL sketch of both collections."""
    merged = _read_quantiles(a)
    merged.merge(_read_quantiles(b))
    return bytes(merged.serialize())


def distinct_estimate(sketch: bytes) -> float:
    """Estimated number of different values."""
    return float(_read_distinct(sketch).get_estimate())


def quantile_estimates(sketch: bytes, ranks: tuple[float, ...] = QUANTILES) -> dict[float, float]:
    """Estimated value at each rank, by Spark's rule (inclusive); empty if the sketch is empty."""
    read = _read_quantiles(sketch)
    return {} if read.is_empty() else {rank: float(read.get_quantile(rank, True)) for rank in ranks}


def check_distinct(sketch: bytes) -> None:
    """Raise DigestError unless these bytes are an HLL sketch as this module makes them."""
    import datasketches  # noqa: PLC0415

    read = _read_distinct(sketch)
    if (read.lg_config_k, read.tgt_type) != (LG_REGISTERS, datasketches.tgt_hll_type.HLL_8):
        raise DigestError(
            f"the digest's `distinct` sketch is not an HLL_8 sketch of 2^{LG_REGISTERS} registers"
        )
    if not isfinite(read.get_estimate()):
        raise DigestError("the digest's `distinct` sketch is damaged: its estimate is not a number")


def check_quantiles(sketch: bytes) -> None:
    """Raise DigestError unless these bytes are a KLL sketch as this module makes them.

    The library trusts the header: merging a sketch whose `n` disagrees with its levels does not end.
    """
    read = _read_quantiles(sketch)
    if read.k != KLL_K:
        raise DigestError(f"the digest's `quantiles` sketch has k = {read.k}, expected {KLL_K}")
    try:
        sizes, numbers = _kll_parts(sketch, read.num_retained)
    except struct.error as error:
        raise DigestError(f"the digest's `quantiles` sketch is damaged: {error}") from None
    counted = sum(size << level for level, size in enumerate(sizes))
    if min(sizes) < 0 or counted != read.n or any(map(isnan, numbers)):
        raise DigestError("the digest's `quantiles` sketch is damaged: its levels do not add up")


def _kll_parts(sketch: bytes, retained: int) -> tuple[list[int], tuple[float, ...]]:
    """Number of items at each level, and all numbers of the sketch."""
    if len(sketch) <= _KLL_SINGLE_BYTES:  # short forms without levels: empty, or a single item
        count = len(sketch) // _KLL_SINGLE_BYTES
        return [count], struct.unpack_from(f"<{count}d", sketch, 8)
    levels = struct.unpack_from(f"<{sketch[_KLL_LEVELS_AT]}I", sketch, _KLL_LEVELS_AT + 2)
    numbers = struct.unpack_from(f"<{retained + 2}d", sketch, _KLL_LEVELS_AT + 2 + 4 * len(levels))
    ends = (*levels[1:], levels[0] + retained) if levels else (0,)
    return [end - begin for begin, end in zip(levels or (0,), ends, strict=True)], numbers


def _read_distinct(sketch: bytes) -> datasketches.hll_sketch:
    import datasketches  # noqa: PLC0415

    try:
        return datasketches.hll_sketch.deserialize(sketch)
    except (ValueError, RuntimeError, IndexError, MemoryError) as error:
        raise DigestError(f"the digest's `distinct` sketch is damaged: {error}") from None


def _read_quantiles(sketch: bytes) -> datasketches.kll_doubles_sketch:
    import datasketches  # noqa: PLC0415

    try:
        return datasketches.kll_doubles_sketch.deserialize(sketch)
    except (ValueError, RuntimeError, IndexError, MemoryError) as error:
        raise DigestError(f"the digest's `quantiles` sketch is damaged: {error}") from None
