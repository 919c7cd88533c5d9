"""A digest as bytes in stores and for Spark (MessagePack), as a message (compact or JSON), and as JSON.

Whatever comes from outside is checked here, in any of the forms.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from itertools import pairwise
from math import isfinite, isnan
from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec

from penstock import limits
from penstock.errors import DigestError
from penstock.model import compact, sketches, values
from penstock.model.digest import AttributeSummary, Cause, Digest, Mark, Natural
from penstock.model.values import INT64_LEAST, INT64_MOST

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.model.event import Event

MARK: Final = "penstock-digest"
"""Name of the user property that marks a message as a digest; its value is the form of the payload."""

JSON_MARK: Final = (MARK, "1")
COMPACT_MARK: Final = (MARK, "2")

JSON_TYPE: Final = "application/json"
COMPACT_TYPE: Final = "digest/2"
"""Content type of the compact form: short, since every digest on a slow link carries it."""

MARK_BYTES: Final = 1 + 2 + len(MARK) + 2 + 1 + 1 + 2 + len(COMPACT_TYPE)
"""Bytes that user property and content type add to a compact digest in MQTT 5."""

VERSION: Final = 0xD1
"""First byte of version 1; no UTF-8 text and no MessagePack map begins with it."""

_json_encoder = msgspec.json.Encoder()
_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Digest)
_json = msgspec.json.Decoder()


def to_bytes(digest: Digest) -> bytes:
    """Encode a digest for stores and for Spark: exact and fast."""
    try:
        return bytes((VERSION,)) + _encoder.encode(digest)
    except OverflowError:
        raise DigestError(f"a count beyond 64 bits cannot be written: {digest.count} events") from None


def from_bytes(data: bytes) -> Digest:
    """Decode a digest of either binary form; DigestError says what is wrong."""
    if len(data) > limits.DIGEST_BYTES:
        raise DigestError(f"a digest of {len(data)} bytes; at most {limits.DIGEST_BYTES} are accepted")
    if data[:1] == _COMPACT:
        digest = compact.decode(data)
    elif data[:1] == _PACKED:
        try:
            digest = _decoder.decode(data[1:])
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise DigestError(f"a damaged digest: {error}") from None
    else:
        found = f"0x{data[0]:02x}" if data else "nothing"
        raise DigestError(
            "not a digest of version 1 or 2: it should begin with "
            f"0x{VERSION:02x} or 0x{compact.VERSION:02x}, found {found}"
        )
    _check(digest)
    return digest


_PACKED: Final = bytes((VERSION,))
_COMPACT: Final = bytes((compact.VERSION,))


def to_compact(digest: Digest) -> bytes:
    """Encode a digest in the compact form; `from_bytes` reads it.

    A sum is exact to rounding, all else is exact. DigestError if a number has more than 64 bits.
    """
    return compact.encode(digest)


def to_json(digest: Digest, *, with_sketches: bool = False) -> dict[str, Any]:
    """Digest as a JSON object; sketches appear as estimates, and in base64 if `with_sketches`."""
    return {
        "count": digest.count,
        "from_us": digest.from_us,
        "to_us": digest.to_us,
        "seq": [digest.seq_first, digest.seq_last],
        "level": digest.level,
        "causes": [
            {"level": cause.level, "position": cause.position, "filter": cause.filter, "count": count}
            for cause, count in digest.causes
        ],
        "attributes": {
            name: _summary_json(summary, with_sketches=with_sketches) for name, summary in digest.attributes
        },
    }


class _CauseJson(msgspec.Struct, gc=False):
    level: Natural
    position: Natural
    filter: Annotated[str, msgspec.Meta(max_length=limits.CAUSE_CHARACTERS)]
    count: Natural


class _SummaryJson(msgspec.Struct, rename={"least": "min", "most": "max", "total": "sum"}):
    n: Natural = 0
    total: float = 0.0
    stddev: float | None = None
    least: float | None = None
    most: float | None = None
    first: bool | int | float | str | None = None
    last: bool | int | float | str | None = None
    sketches: dict[str, str] = {}


class _DigestJson(msgspec.Struct):
    count: Annotated[int, msgspec.Meta(ge=1)]
    from_us: int
    to_us: int
    seq: tuple[int, int]
    causes: Annotated[tuple[_CauseJson, ...], msgspec.Meta(max_length=limits.DIGEST_CAUSES)]
    attributes: Annotated[dict[str, _SummaryJson], msgspec.Meta(max_length=limits.DIGESTERS)] = {}


def from_json(found: object) -> Digest:
    """Digest from the JSON that `to_json` made; DigestError says what is wrong.

    JSON has no times for `first` and `last`: they get the ends of the digest's time span. Sketches are
    restored only if the JSON has them in base64; estimates cannot be turned back.
    """
    try:
        read = msgspec.convert(found, _DigestJson)
        digest = Digest(
            count=read.count,
            from_us=read.from_us,
            to_us=read.to_us,
            seq_first=read.seq[0],
            seq_last=read.seq[1],
            causes=tuple(
                sorted((Cause(each.level, each.position, each.filter), each.count) for each in read.causes)
            ),
            attributes=tuple(
                sorted(
                    ((name, _summary_of(each, read)) for name, each in read.attributes.items()),
                    key=lambda pair: pair[0],
                )
            ),
        )
    except (msgspec.ValidationError, ValueError, OverflowError) as error:
        raise DigestError(f"a damaged digest: {error}") from None
    _check(digest)
    return digest


class DigestMessage(msgspec.Struct, frozen=True):
    """A digest as a message: its payload, and the properties that say what it is."""

    payload: bytes
    content_type: str
    mark: tuple[str, str]
    """User property."""

    @property
    def is_text(self) -> bool:
        """Whether the payload is UTF-8, as MQTT's payload format indicator says."""
        return self.mark == JSON_MARK


def to_message(digest: Digest, *, filter_: str, compact: bool) -> DigestMessage:
    """Encode a digest as the payload of a message; `filter_` is what JSON says it is about.

    JSON also where the compact form cannot express it: a `first` or `last` beyond 64 bits.
    """
    if compact:
        try:
            return DigestMessage(to_compact(digest), COMPACT_TYPE, COMPACT_MARK)
        except DigestError:
            pass
    body = _json_encoder.encode({"filter": filter_} | to_json(digest))
    return DigestMessage(body, JSON_TYPE, JSON_MARK)


def is_marked(user: Sequence[tuple[str, str]]) -> bool:
    """Whether a message's user properties say that it is a digest."""
    return bool(user) and (COMPACT_MARK in user or JSON_MARK in user)


def from_message(payload: bytes) -> tuple[Digest, dict[str, Any]]:
    """Digest of a message that is marked as one, and its JSON object; the payload itself tells its form.

    DigestError if it is not one.
    """
    if payload[:1] in (_COMPACT, _PACKED):
        digest = from_bytes(payload)
        return digest, to_json(digest)
    if len(payload) > limits.DIGEST_BYTES:
        raise DigestError(f"a digest of {len(payload)} bytes; at most {limits.DIGEST_BYTES} are accepted")
    try:
        told = _json.decode(payload)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise DigestError(f"a damaged digest: {error}") from None
    return from_json(told), told


def digest_in(event: Event) -> Digest | None:
    """The digest that a publisher sent in the place of events; None if the event is one of its own."""
    if not is_marked(event.properties):
        return None
    try:
        return from_message(event.payload)[0]
    except DigestError:
        return None


def _summary_of(read: _SummaryJson, whole: _DigestJson) -> AttributeSummary:
    kept = {name: b64decode(text, validate=True) for name, text in read.sketches.items()}
    first, last = values.scalar(read.first), values.scalar(read.last)
    return AttributeSummary(
        n=read.n,
        total=read.total,
        squares=None if read.stddev is None else read.stddev**2 * read.n,
        least=read.least,
        most=read.most,
        first=None if first is None else Mark(whole.from_us, whole.seq[0], first),
        last=None if last is None else Mark(whole.to_us, whole.seq[1], last),
        distinct=kept.get("distinct"),
        quantiles=kept.get("quantiles"),
    )


def _summary_json(summary: AttributeSummary, *, with_sketches: bool) -> dict[str, Any]:
    shown: dict[str, Any] = {}
    if summary.n:
        shown |= {"n": summary.n, "sum": summary.total, "mean": summary.mean, "stddev": summary.stddev}
    shown |= {"min": summary.least, "max": summary.most}
    shown |= {name: mark and mark.value for name, mark in (("first", summary.first), ("last", summary.last))}
    if summary.distinct is not None:
        shown["distinct"] = round(sketches.distinct_estimate(summary.distinct))
    if summary.quantiles is not None:
        ranks = sketches.quantile_estimates(summary.quantiles)
        shown["quantiles"] = {f"{rank:g}": found for rank, found in ranks.items()}
    if with_sketches:
        kept = {"distinct": summary.distinct, "quantiles": summary.quantiles}
        shown["sketches"] = {
            name: b64encode(data).decode() for name, data in kept.items() if data is not None
        }
    return {name: found for name, found in shown.items() if _sayable(found)}


def _sayable(found: Any) -> bool:
    """Whether JSON can express the value: an overflown sum (infinity) has no JSON form."""
    return found is not None and not (isinstance(found, float) and not isfinite(found))


def _check(digest: Digest) -> None:
    """Check what the types do not express."""
    if sum(count for _, count in digest.causes) != digest.count:
        raise DigestError(f"a damaged digest: its causes do not add up to its count {digest.count}")
    if digest.count > limits.DIGEST_COUNT:
        raise DigestError(f"a digest of {digest.count} events; at most {limits.DIGEST_COUNT} are accepted")
    if digest.from_us > digest.to_us or digest.seq_first > digest.seq_last:
        raise DigestError("a damaged digest: its time span or sequence range is reversed")
    if not _in_64_bits(digest.from_us, digest.to_us, digest.seq_first, digest.seq_last):
        raise DigestError("a damaged digest: a time or a sequence number beyond 64 bits")
    if not all(_in_64_bits(cause.level, cause.position) for cause, _ in digest.causes):
        raise DigestError("a damaged digest: a level or a position beyond 64 bits")
    if not _rising([cause for cause, _ in digest.causes]) or not _rising([n for n, _ in digest.attributes]):
        raise DigestError("a damaged digest: its causes or its attributes are repeated or out of order")
    for name, summary in digest.attributes:
        try:
            _check_summary(summary, digest.count)
        except DigestError as error:
            raise DigestError(f"attribute '{name}': {error}") from None


def _check_summary(summary: AttributeSummary, count: int) -> None:
    if summary.n > count:
        raise DigestError(f"a damaged digest: {summary.n} numbers in {count} events")
    if not summary.n and (summary.total or summary.squares is not None):
        raise DigestError("a damaged digest: a sum of no numbers")
    if any(found is not None and isnan(found) for found in (summary.least, summary.most)):
        raise DigestError("a damaged digest: a minimum or maximum that is not a number")
    for mark in (summary.first, summary.last):
        if mark is not None and not _small(mark):
            raise DigestError("a damaged digest: a first or last value out of bounds")
    if summary.distinct is not None:
        sketches.check_distinct(summary.distinct)
    if summary.quantiles is not None:
        sketches.check_quantiles(summary.quantiles)


def _small(mark: Mark) -> bool:
    value = mark.value
    bounded = not isinstance(value, str) or len(value) <= limits.MARK_CHARACTERS
    return bounded and _in_64_bits(mark.ts_us, mark.seq, value if isinstance(value, int) else 0)


def _in_64_bits(*numbers: int) -> bool:
    """Whether numbers can be written in every form: MessagePack has no larger ones."""
    return min(numbers) >= INT64_LEAST and max(numbers) <= INT64_MOST


def _rising(names: Sequence[Any]) -> bool:
    """Whether the names are in strictly ascending order."""
    return all(before < after for before, after in pairwise(names))
