"""A delta as text for chat and terminals, as HTML for pages and feeds, and as JSON for programs.

The JSON message has counts as attributes for policies; `from_json` reads it back.
"""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Final

import msgspec

from penstock import limits
from penstock.core.channels.delta import Between, Change, Delta, DeltaItem
from penstock.core.channels.difference.content import ContentKind  # noqa: TC001  # msgspec reads the annotations
from penstock.core.channels.difference.hunks import hunks
from penstock.errors import ChannelError, printable

if TYPE_CHECKING:
    from collections.abc import Iterator


class _Message(msgspec.Struct, frozen=True):
    url: str
    version: int
    old_version: int
    at_us: int
    kind: ContentKind
    title: str = ""
    added: int = 0
    """Lines added."""
    removed: int = 0
    """Lines removed."""
    new_items: int = 0
    changes: tuple[Change, ...] = ()
    items: tuple[DeltaItem, ...] = ()
    cut: bool = False
    old_crc: int = 0
    between: tuple[Between, ...] | msgspec.UnsetType = msgspec.UNSET
    """Left out where nothing moved more than once."""
    restored: int | msgspec.UnsetType = msgspec.UNSET
    """Left out unless a person restored an older version."""


def to_json(delta: Delta) -> bytes:
    """Payload of a delta; above DELTA_BYTES its last changes are left out and `cut` is set."""
    encoded = msgspec.json.encode(_message(delta))
    return encoded if len(encoded) <= limits.DELTA_BYTES else msgspec.json.encode(_message(_cut(delta)))


def shortened(delta: Delta) -> Delta:
    """The delta as everybody is told it: without its last changes, if it is above DELTA_BYTES."""
    return delta if len(msgspec.json.encode(_message(delta))) <= limits.DELTA_BYTES else _cut(delta)


def _message(delta: Delta) -> _Message:
    added, removed, new_items = _counts(delta)
    return _Message(
        delta.url,
        delta.version,
        delta.old_version,
        delta.at_us,
        delta.kind,
        delta.title,
        added + delta.left_out[0],
        removed + delta.left_out[1],
        new_items + delta.left_out[2],
        delta.changes,
        delta.items,
        delta.cut,
        delta.old_crc,
        delta.between or msgspec.UNSET,
        delta.restored or msgspec.UNSET,
    )


def _counts(delta: Delta | _Message) -> tuple[int, int, int]:
    """Lines added, lines removed, new items."""
    return (
        sum(len(change.new) for change in delta.changes),
        sum(len(change.old) for change in delta.changes),
        sum(1 for item in delta.items if item.kind == "new"),
    )


def _cut(delta: Delta) -> Delta:
    bare = msgspec.structs.replace(delta, changes=(), items=(), cut=True, between=())
    room = limits.DELTA_BYTES - len(msgspec.json.encode(_message(bare))) - _SPARE_BYTES
    items: list[DeltaItem] = []
    changes: list[Change] = []
    for found, part in ((items, delta.items), (changes, delta.changes)):
        for one in part:
            room -= len(msgspec.json.encode(one)) + 1
            if room < 0:
                break
            found.append(one)  # type: ignore[arg-type]
    kept = msgspec.structs.replace(bare, changes=tuple(changes), items=tuple(items))
    counted = zip(delta.left_out, _counts(delta), _counts(kept), strict=True)
    added, removed, new_items = (left + all_ - shown for left, all_, shown in counted)
    return msgspec.structs.replace(kept, left_out=(added, removed, new_items))


_SPARE_BYTES: Final = 64
"""Digits of the counts of what was left out."""


def from_json(body: bytes) -> Delta:
    """Decode a payload; ChannelError if it is not a delta."""
    try:
        message = msgspec.json.decode(body, type=_Message)
    except (msgspec.MsgspecError, RecursionError, ValueError) as error:
        raise ChannelError(f"not a delta: {error}") from None
    if any(change.at < 0 for change in message.changes):
        raise ChannelError("not a delta: a change before the first line")
    told, shown = (message.added, message.removed, message.new_items), _counts(message)
    added, removed, new_items = (max(0, all_ - some) for all_, some in zip(told, shown, strict=True))
    return Delta(
        message.url,
        message.version,
        message.old_version,
        message.at_us,
        message.kind,
        message.title,
        message.changes,
        message.items,
        message.cut,
        message.old_crc,
        (added, removed, new_items) if message.cut else (0, 0, 0),
        message.between or (),
        message.restored or 0,
    )


_LINE_CHARS: Final = 300
_AROUND_CHARS: Final = 60
"""Characters of a long line shown before and after a change."""
_WORDS: Final = 400
"""Longest line, in words, that is compared word by word."""


def text_of(delta: Delta, *, most: int = limits.DELTA_TEXT_CHARS) -> str:
    """The changes as text, line by line; a longer text is cut and says so."""
    return _bounded(_text(delta), most=most, rest="… and more")


def html_of(delta: Delta, *, most: int = 4 * limits.DELTA_TEXT_CHARS) -> str:
    """The changes as HTML with ins and del; text of the page is escaped."""
    return _bounded(_html(delta), most=most, rest="<p>… and more</p>")


def _bounded(lines: Iterator[str], *, most: int, rest: str) -> str:
    found: list[str] = []
    room = most - len(rest) - 1
    for line in lines:
        room -= len(line) + 1
        if room < 0:
            found.append(rest)
            break
        found.append(line)
    return "\n".join(found)


def _text(delta: Delta) -> Iterator[str]:
    yield printable(delta.title[: limits.TITLE_CHARS] or delta.url)
    if delta.title:
        yield printable(delta.url)
    if delta.restored:
        yield f"{_restored(delta)}:"
    if delta.items:
        for item in delta.items:
            yield from _item_text(item)
        return
    for change in delta.changes:
        yield f"line {change.at + 1}, {change.kind}:"
        if len(change.old) == len(change.new):
            for old, new in zip(change.old, change.new, strict=True):
                a, b = _narrowed(old, new)
                yield f"- {printable(a)}"
                yield f"+ {printable(b)}"
            yield from (f"  {printable(said)}" for said in _between(delta, change))
            continue
        yield from (f"- {printable(_short(line))}" for line in change.old)
        yield from (f"+ {printable(_short(line))}" for line in change.new)


def _between(delta: Delta, change: Change) -> Iterator[str]:
    """Moves of the prices and versions of a change, as people write them."""
    for found in delta.between:
        if change.at <= found.at < change.at + len(change.old):
            yield " → ".join([found.old, *found.values, found.new])


def _item_text(item: DeltaItem) -> Iterator[str]:
    yield f"{item.kind}: {printable(item.title or item.id)}"
    if item.link:
        yield f"  {printable(item.link)}"
    if item.kind != "gone":
        yield from (f"  {printable(_short(line))}" for line in item.text.splitlines()[:3])


def _restored(delta: Delta) -> str:
    """Say that a person, not the page, brought an earlier version back."""
    return f"version {delta.restored} was restored, and the page is compared with it from now on"


def _html(delta: Delta) -> Iterator[str]:
    if delta.restored:
        yield f"<p>{_restored(delta)}</p>"
    if delta.items:
        for item in delta.items:
            name = escape(_short(item.title or item.id))
            if item.link:
                name = f'<a href="{escape(item.link)}" rel="noopener nofollow">{name}</a>'
            text = "<br>".join(escape(_short(line)) for line in item.text.splitlines()[:10])
            yield f"<p><b>{item.kind}</b> {name}{'<br>' + text if text and item.kind != 'gone' else ''}</p>"
        return
    for change in delta.changes:
        said = "".join(f"<br>{escape(said)}" for said in _between(delta, change))
        yield f"<p>{_change_html(change)}{said}</p>"


def _change_html(change: Change) -> str:
    if len(change.old) == len(change.new):
        return "<br>".join(_words_html(old, new) for old, new in zip(change.old, change.new, strict=True))
    gone = [f"<del>{escape(_short(line))}</del>" for line in change.old]
    come = [f"<ins>{escape(_short(line))}</ins>" for line in change.new]
    return "<br>".join(gone + come)


def _words_html(old: str, new: str) -> str:
    """One line with the changed words marked."""
    a, b = _narrowed(old, new)
    before, after = a.split(" "), b.split(" ")
    if len(before) > _WORDS or len(after) > _WORDS:
        return f"<del>{escape(_short(old))}</del><br><ins>{escape(_short(new))}</ins>"
    parts: list[str] = []
    done = 0
    for hunk in hunks(before, after):
        parts += (escape(word) for word in after[done : hunk.new])
        if hunk.old < hunk.old_end:
            parts.append(f"<del>{escape(' '.join(before[hunk.old : hunk.old_end]))}</del>")
        if hunk.new < hunk.new_end:
            parts.append(f"<ins>{escape(' '.join(after[hunk.new : hunk.new_end]))}</ins>")
        done = hunk.new_end
    parts += (escape(word) for word in after[done:])
    return " ".join(parts)


def _narrowed(old: str, new: str) -> tuple[str, str]:
    """Two long lines, cut to the part where they differ."""
    if len(old) <= _LINE_CHARS and len(new) <= _LINE_CHARS:
        return old, new
    start, most = 0, min(len(old), len(new))
    while start < most and old[start] == new[start]:
        start += 1
    end = 0
    while end < most - start and old[-1 - end] == new[-1 - end]:
        end += 1
    start = max(0, old.rfind(" ", 0, max(start - _AROUND_CHARS, 0)) + 1)
    end = max(0, end - _AROUND_CHARS)
    front, back = "… " if start else "", " …" if end else ""
    return tuple(  # type: ignore[return-value]
        front + _short(line[start : len(line) - end]) + back for line in (old, new)
    )


def _short(line: str) -> str:
    return line if len(line) <= _LINE_CHARS else line[: _LINE_CHARS - 2] + " …"
