"""A digest as bytes between nodes (MessagePack behind a version byte) and as JSON for people."""

from __future__ import annotations

from base64 import b64encode
from typing import TYPE_CHECKING, Any, Final

import msgspec

from penstock import limits
from penstock.errors import DigestError
from penstock.model import sketches
from penstock.model.digest import Digest

if TYPE_CHECKING:
    from penstock.model.digest import AttributeSummary

VERSION: Final = 0xD1
"""First byte of version 1; no UTF-8 text and no MessagePack map begins with it."""

_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Digest)


def to_bytes(digest: Digest) -> bytes:
    """The compact form that travels between nodes and to Spark."""
    return bytes((VERSION,)) + _encoder.encode(digest)


def from_bytes(data: bytes) -> Digest:
    """The digest in these bytes; DigestError says what is wrong with them."""
    if len(data) > limits.DIGEST_BYTES:
        raise DigestError(f"a digest of {len(data)} bytes; at most {limits.DIGEST_BYTES} are accepted")
    if not data or data[0] != VERSION:
        found = f"0x{data[0]:02x}" if data else "nothing"
        raise DigestError(f"not a digest of version 1: it should begin with 0x{VERSION:02x}, found {found}")
    try:
        digest = _decoder.decode(data[1:])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise DigestError(f"a damaged digest: {error}") from None
    _check(digest)
    return digest


def to_json(digest: Digest, *, with_sketches: bool = False) -> dict[str, Any]:
    """The digest as a JSON object; sketches appear as their estimates, and as base64 if asked for."""
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
    return {name: found for name, found in shown.items() if found is not None}


def _check(digest: Digest) -> None:
    """What the types cannot say."""
    if sum(count for _, count in digest.causes) != digest.count:
        raise DigestError(f"a damaged digest: its causes do not add up to its count {digest.count}")
    if digest.from_us > digest.to_us or digest.seq_first > digest.seq_last:
        raise DigestError("a damaged digest: its time span or sequence range is reversed")
    for name, summary in digest.attributes:
        try:
            if summary.distinct is not None:
                sketches.check_distinct(summary.distinct)
            if summary.quantiles is not None:
                sketches.check_quantiles(summary.quantiles)
        except DigestError as error:
            raise DigestError(f"attribute '{name}': {error}") from None
