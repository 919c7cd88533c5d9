"""Reads lists of watched pages as changedetection.io exports them: its backup, its API, or single watches.

Accepted are `url-watches.json` of a backup, the answer of `GET /api/v1/watch`, one watch, and a list of
watches. What Penstock has no equal for is left out, and said.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import msgspec

from penstock import limits
from penstock.errors import ChannelError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_SECONDS: Final = {"weeks": 604_800, "days": 86_400, "hours": 3_600, "minutes": 60, "seconds": 1}
_XPATH: Final = ("xpath:", "xpath1:")
_SLASHED: Final = re.compile(r"/(.*)/([a-z]*)")


@dataclass(frozen=True, slots=True)
class Watch:
    """One page of a list, in the words of Penstock."""

    url: str
    tags: tuple[str, ...]
    rules: dict[str, Any]
    """Options for comparing, in the form that `channels add` accepts; empty: the defaults."""
    every_s: float
    """Between polls; 0: as the node allocates."""
    paused: bool
    left_out: tuple[str, ...]
    """Settings of the list that Penstock cannot follow, in sentences."""


def read_watches(data: bytes) -> list[Watch]:
    """Read a list, each address once; ChannelError if it is none, or too long."""
    if len(data) > limits.WATCH_LIST_BYTES:
        raise ChannelError(f"the list has {len(data):,} bytes; at most {limits.WATCH_LIST_BYTES:,}")
    try:
        found = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ChannelError(f"the list of watched pages is not JSON: {error}") from None
    names = _tag_names(found)
    watches: dict[str, Watch] = {}
    for raw in _entries(found):
        url = raw.get("url")
        if isinstance(url, str) and url.strip():
            watches.setdefault(url.strip(), _watch(url.strip(), raw, names))
        if len(watches) > limits.WATCH_LIST_PAGES:
            raise ChannelError(f"the list has more than {limits.WATCH_LIST_PAGES:,} pages; divide it")
    if not watches:
        raise ChannelError(
            "there is no watched page in the list: expected url-watches.json of changedetection.io, the "
            "answer of its API, or a list of objects with `url`"
        )
    return list(watches.values())


def _entries(found: Any) -> Iterator[Mapping[str, Any]]:
    """Yield the watches, wherever the list has them."""
    if isinstance(found, dict):
        inner = found.get("watching", found)
        if isinstance(inner, dict) and not isinstance(inner.get("url"), str):
            inner = list(inner.values())
        elif isinstance(inner, dict):
            inner = [inner]
        found = inner
    if isinstance(found, list):
        yield from (each for each in found if isinstance(each, dict))


def _tag_names(found: Any) -> dict[str, str]:
    """Return the titles of tags by their ids: watches name tags by id."""
    for key in ("settings", "application", "tags"):
        found = found.get(key) if isinstance(found, dict) else None
    if not isinstance(found, dict):
        return {}
    return {
        identity: each["title"]
        for identity, each in found.items()
        if isinstance(each, dict) and isinstance(each.get("title"), str)
    }


def _watch(url: str, raw: Mapping[str, Any], names: Mapping[str, str]) -> Watch:
    left_out: list[str] = []
    rules: dict[str, list[str]] = {}
    for text in _texts(raw, "include_filters"):
        _select(text, rules, left_out, prefix="")
    for text in _texts(raw, "subtractive_selectors"):
        _select(text, rules, left_out, prefix="exclude_")
    for text in _texts(raw, "ignore_text"):
        rules.setdefault("ignore", []).append(_pattern(text))
    left_out += [
        f"{key} is not supported"
        for key in ("trigger_text", "extract_text", "browser_steps", "processor_config_restock")
        if raw.get(key)
    ]
    if raw.get("fetch_backend") == "html_webdriver":
        left_out.append("its scripts are not run: `penstock channels add URL --render` has them run")
    given = _texts(raw, "tags") or [each.strip() for each in str(raw.get("tag") or "").split(",")]
    return Watch(
        url=url,
        tags=tuple(dict.fromkeys(names.get(each, each)[: limits.TAG_CHARS] for each in given if each)),
        rules=dict(rules),
        every_s=_interval_s(raw),
        paused=raw.get("paused") is True,
        left_out=tuple(left_out),
    )


def _texts(raw: Mapping[str, Any], key: str) -> list[str]:
    found = raw.get(key)
    if isinstance(found, str):
        found = found.splitlines()
    if not isinstance(found, list):
        return []
    return [each.strip() for each in found if isinstance(each, str) and each.strip()]


def _select(text: str, rules: dict[str, list[str]], left_out: list[str], *, prefix: str) -> None:
    """Add a selector under the rule it belongs to."""
    for start in _XPATH:
        if text.startswith(start):
            rules.setdefault(f"{prefix}xpath", []).append(text.removeprefix(start))
            return
    if text.startswith("json:"):
        rules.setdefault(f"{prefix}jsonpath", []).append(text.removeprefix("json:"))
    elif text.startswith(("jq:", "jqraw:")):
        left_out.append(f"the filter '{text}' is written in jq; write it as JSONPath")
    elif text.startswith("/"):
        rules.setdefault(f"{prefix}xpath", []).append(text)
    else:
        rules.setdefault(f"{prefix}css", []).append(text)


def _pattern(text: str) -> str:
    """Make an RE2 pattern of a text to ignore: `/pattern/i`, or a plain text in any case."""
    slashed = _SLASHED.fullmatch(text)
    if slashed is None:
        return f"(?i){re.escape(text)}"
    return f"(?i){slashed[1]}" if "i" in slashed[2] else slashed[1]


def _interval_s(raw: Mapping[str, Any]) -> float:
    if raw.get("time_between_check_use_default") is True:
        return 0.0
    found = raw.get("time_between_check")
    if not isinstance(found, dict):
        return 0.0
    amounts = ((found.get(name), seconds) for name, seconds in _SECONDS.items())
    total = sum(
        amount * seconds
        for amount, seconds in amounts
        if isinstance(amount, int) and not isinstance(amount, bool) and amount > 0
    )
    return float(min(total, limits.WATCH_LONGEST_S))
