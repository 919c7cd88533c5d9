"""A digest in as few bytes as possible: the compact form, version 2, which MQTT 5 receivers get.

    0xD2 · count · from · length · first number · how many on · shape · causes · attributes

Integers are variable: seven bits a byte, low bits first, no byte more than needed. A signed one is written as
2·n, or −2·n − 1 below zero. Times and sequence numbers after the first are distances. A number of an
attribute is a decimal of up to five places where that is exact, else a float of four or eight bytes. The page
docs/reference/digest-format.md is the specification; `digest_wire` checks what the types do not express.
"""

from __future__ import annotations

import struct
from math import copysign, isfinite
from typing import Final

from penstock import limits
from penstock.errors import DigestError
from penstock.model.digest import AttributeSummary, Cause, Digest, Mark

VERSION: Final = 0xD2
"""First byte of the compact form; no UTF-8 text begins with it and goes on with a byte below 0x80."""

FILTERS: Final = (
    "worst-case", "oldest", "newest", "other",
    "gt", "ge", "eq", "ne", "lt", "le", "match", "within", "inset", "contain", "subset", "supset",
    "first", "last", "uniq", "guniq", "delta", "latest", "every", "random",
    "latest_by", "older", "throttle", "swing", "top",
)  # fmt: skip
"""Names that a cause writes as their number, from 1. Only ever appended to: receivers know the numbers."""

_NUMBERS: Final = {name: number for number, name in enumerate(FILTERS, start=1)}

# Fields of a summary; the rare ones last, since the mask is a variable integer.
_SUM, _N, _SQUARES, _LEAST, _MOST, _FIRST, _LAST, _DISTINCT, _QUANTILES = (1 << bit for bit in range(9))
_EVERY: Final = (1 << 9) - 1

_PLACES: Final = 5
"""Decimal places that a number may have; the kinds above stand for floats."""
_FLOAT, _DOUBLE = 6, 7
_MANTISSA: Final = 1 << 53
"""Whole numbers below it are exact as doubles, so that dividing one by a power of ten rounds once."""
_NOISE: Final = 2.0**-44
"""A sum of decimals is off by the rounding of each addition. Where a decimal is this near, relatively, it is
what the numbers really add up to."""

_FALSE, _TRUE, _WHOLE, _REAL, _TEXT = range(5)
_UNSIGNED: Final = 1 << 64


def encode(digest: Digest) -> bytes:
    """Encode a digest; DigestError if a number has more than 64 bits."""
    out = _Writer()
    out.natural(digest.count)
    out.whole(digest.from_us)
    out.natural(digest.to_us - digest.from_us)
    out.whole(digest.seq_first)
    out.natural(digest.seq_last - digest.seq_first)
    several = len(digest.causes) != 1
    out.natural(2 * len(digest.attributes) + several)
    if several:
        out.natural(len(digest.causes))
    for cause, count in digest.causes:
        out.natural(cause.level)
        out.natural(cause.position)
        number = _NUMBERS.get(cause.filter, 0)
        out.natural(number)
        if not number:
            out.text(cause.filter)
        if several:
            out.natural(count)
    for name, summary in digest.attributes:
        out.text(name)
        _write_summary(out, summary, digest)
    return bytes(out.data)


def _write_summary(out: _Writer, summary: AttributeSummary, digest: Digest) -> None:
    present = (
        (_SUM, summary.n > 0),
        (_N, summary.n > 0 and summary.n != digest.count),
        (_SQUARES, summary.squares is not None),
        (_LEAST, summary.least is not None),
        (_MOST, summary.most is not None),
        (_FIRST, summary.first is not None),
        (_LAST, summary.last is not None),
        (_DISTINCT, summary.distinct is not None),
        (_QUANTILES, summary.quantiles is not None),
    )
    mask = sum(bit for bit, is_there in present if is_there)
    out.natural(mask)
    if mask & _N:
        out.natural(summary.n)
    if mask & _SUM:
        out.number(_without_noise(summary.total))
    for number in (summary.squares, summary.least, summary.most):
        if number is not None:
            out.number(number)
    for mark in (summary.first, summary.last):
        if mark is not None:
            out.whole(mark.ts_us - digest.from_us)
            out.whole(mark.seq - digest.seq_first)
            out.scalar(mark.value)
    for sketch in (summary.distinct, summary.quantiles):
        if sketch is not None:
            out.blob(sketch)


def decode(data: bytes) -> Digest:
    """Decode what `encode` made; DigestError says what is wrong and where."""
    read = _Reader(data)
    count = read.natural("count")
    from_us = read.whole("from")
    to_us = from_us + read.natural("to")
    seq_first = read.whole("seq")
    seq_last = seq_first + read.natural("seq")
    told, several = divmod(read.natural("shape"), 2)
    if told > limits.DIGESTERS:
        raise read.wrong(f"{told} attributes; at most {limits.DIGESTERS}")
    number = read.natural("causes") if several else 1
    if several and not 1 < number <= limits.DIGEST_CAUSES:
        raise read.wrong(f"{number} causes; from 2 to {limits.DIGEST_CAUSES}, or a shape that is even")
    causes = tuple(_read_cause(read, None if several else count) for _ in range(number))
    attributes = tuple(
        (read.text("attribute"), _read_summary(read, count, from_us, seq_first)) for _ in range(told)
    )
    if read.left:
        raise read.wrong(f"{read.left} bytes too many")
    if not count:
        raise read.wrong("a digest of no events")
    return Digest(count, from_us, to_us, seq_first, seq_last, causes, attributes)


def _read_cause(read: _Reader, count: int | None) -> tuple[Cause, int]:
    level, position = read.natural("level"), read.natural("position")
    number = read.natural("filter")
    if number > len(FILTERS):
        raise read.wrong(f"filter number {number}; at most {len(FILTERS)}, or 0 and a name")
    name = FILTERS[number - 1] if number else read.text("filter")
    if len(name) > limits.CAUSE_CHARACTERS:
        raise read.wrong(
            f"a filter's name of {len(name)} characters; at most {limits.CAUSE_CHARACTERS} are accepted"
        )
    return Cause(level, position, name), read.natural("cause's count") if count is None else count


def _read_summary(read: _Reader, count: int, from_us: int, seq_first: int) -> AttributeSummary:
    mask = read.natural("fields")
    if mask > _EVERY or (mask & _N and not mask & _SUM):
        raise read.wrong(f"unknown fields {mask:#x} of a summary")
    n = read.natural("n") if mask & _N else count if mask & _SUM else 0

    def mark() -> Mark:
        ts_us, seq = from_us + read.whole("mark's time"), seq_first + read.whole("mark's number")
        return Mark(ts_us, seq, read.scalar())

    return AttributeSummary(
        n=n,
        total=read.number("sum") if mask & _SUM else 0.0,
        squares=read.number("squares") if mask & _SQUARES else None,
        least=read.number("min") if mask & _LEAST else None,
        most=read.number("max") if mask & _MOST else None,
        first=mark() if mask & _FIRST else None,
        last=mark() if mask & _LAST else None,
        distinct=read.blob("distinct") if mask & _DISTINCT else None,
        quantiles=read.blob("quantiles") if mask & _QUANTILES else None,
    )


def _without_noise(total: float) -> float:
    """The decimal that a sum of decimals stands for, if one is within the rounding of the additions."""
    if not isfinite(total):
        return total
    off = abs(total) * _NOISE
    for places in range(_PLACES + 1):
        scale: int = 10**places
        if off * scale > 0.25 or abs(total) * scale >= _MANTISSA:
            return total
        near = round(total * scale) / scale
        if abs(near - total) <= off:
            return near
    return total


class _Writer:
    """Bytes of a digest, field by field."""

    __slots__ = ("data",)

    def __init__(self) -> None:
        self.data = bytearray((VERSION,))

    def natural(self, value: int) -> None:
        if not 0 <= value < _UNSIGNED:
            raise DigestError(f"a number beyond 64 bits cannot be written: {value}")
        while value > 127:
            self.data.append(value & 127 | 128)
            value >>= 7
        self.data.append(value)

    def whole(self, value: int) -> None:
        self.natural(value << 1 if value >= 0 else ~value << 1 | 1)

    def text(self, value: str) -> None:
        try:
            self.blob(value.encode())
        except UnicodeEncodeError:
            raise DigestError(f"a text that is not Unicode cannot be written: {value!a}") from None

    def blob(self, value: bytes) -> None:
        self.natural(len(value))
        self.data += value

    def number(self, value: float) -> None:
        """Write the shortest form that is exact."""
        is_short = isfinite(value) and struct.unpack("<f", _as_float(value))[0] == value
        for places in range(_PLACES + 1):
            scaled = value * 10**places
            if not isfinite(scaled) or abs(scaled) >= _MANTISSA:
                break
            mantissa = round(scaled)
            if mantissa / 10**places == value and (mantissa or copysign(1.0, value) > 0):
                coded = (mantissa << 1 if mantissa >= 0 else ~mantissa << 1 | 1) << 3 | places
                if coded < 1 << 35 or not is_short:  # not more bytes than a float takes
                    self.natural(coded)
                    return
                break
        if is_short:
            self.data.append(_FLOAT)
            self.data += _as_float(value)
        else:
            self.data.append(_DOUBLE)
            self.data += struct.pack("<d", value)

    def scalar(self, value: bool | int | float | str) -> None:  # noqa: PYI041  # four kinds on the wire
        if isinstance(value, bool):
            self.data.append(_TRUE if value else _FALSE)
        elif isinstance(value, int):
            self.data.append(_WHOLE)
            self.whole(value)
        elif isinstance(value, float):
            self.data.append(_REAL)
            self.number(value)
        else:
            self.data.append(_TEXT)
            self.text(value)


def _as_float(value: float) -> bytes:
    try:
        return struct.pack("<f", value)
    except OverflowError:
        return struct.pack("<f", 0.0 if value else 1.0)  # unequal, so that a double is written


class _Reader:
    """Reads a digest field by field; an error names field and place."""

    __slots__ = ("_at", "_data", "_field")

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 1
        self._field = "version"

    @property
    def left(self) -> int:
        return len(self._data) - self._at

    def wrong(self, problem: str) -> DigestError:
        return DigestError(f"a damaged digest: {problem} ({self._field}, byte {self._at})")

    def natural(self, field: str) -> int:
        self._field = field
        value = shift = 0
        while True:
            if self._at >= len(self._data):
                raise self.wrong("it is cut off")
            digit = self._data[self._at]
            self._at += 1
            value |= (digit & 127) << shift
            if digit < 128:
                if value >= _UNSIGNED or (shift and not digit):
                    raise self.wrong("a number beyond 64 bits, or longer than needed")
                return value
            shift += 7
            if shift > 63:
                raise self.wrong("a number of more than 10 bytes")

    def whole(self, field: str) -> int:
        coded = self.natural(field)
        return ~(coded >> 1) if coded & 1 else coded >> 1

    def blob(self, field: str) -> bytes:
        return self._take(self.natural(field))

    def text(self, field: str) -> str:
        try:
            return self.blob(field).decode()
        except UnicodeDecodeError:
            raise self.wrong("a text that is not UTF-8") from None

    def number(self, field: str) -> float:
        coded = self.natural(field)
        kind = coded & 7
        if kind <= _PLACES:
            coded >>= 3
            scale: int = 10**kind
            return (~(coded >> 1) if coded & 1 else coded >> 1) / scale
        if coded > _DOUBLE:
            raise self.wrong(f"unknown kind of number {coded}")
        form, size = ("<f", 4) if kind == _FLOAT else ("<d", 8)
        found: float
        (found,) = struct.unpack(form, self._take(size))
        return found

    def scalar(self) -> bool | int | float | str:
        kind = self.natural("mark's kind")
        match kind:
            case 0 | 1:
                return kind == _TRUE
            case 2:
                return self.whole("mark's value")
            case 3:
                return self.number("mark's value")
            case 4:
                return self.text("mark's value")
        raise self.wrong(f"unknown kind of value {kind}")

    def _take(self, size: int) -> bytes:
        if size > self.left:
            raise self.wrong(f"{size} bytes announced, {self.left} left")
        begin = self._at
        self._at += size
        return self._data[begin : self._at]
