"""A delta for people: as text for chat and terminals, as HTML for pages and feeds."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Final

from penstock import limits
from penstock.core.channels.difference.hunks import hunks
from penstock.errors import printable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.core.channels.delta import Change, Delta, Item

_LINE_CHARS: Final = 300
_AROUND_CHARS: Final = 60
"""What is shown of a long line before and after what changed in it."""
_WORDS: Final = 400
"""Words of a line that are compared one by one."""


def text_of(delta: Delta, *, most: int = limits.DELTA_TEXT_CHARS) -> str:
    """What changed, line by line; cut to a bound, and then it says so."""
    return _bounded(_text(delta), most=most, rest="… and more")


def html_of(delta: Delta, *, most: int = 4 * limits.DELTA_TEXT_CHARS) -> str:
    """The same as HTML with ins and del; everything that came from the page is escaped."""
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
            continue
        yield from (f"- {printable(_short(line))}" for line in change.old)
        yield from (f"+ {printable(_short(line))}" for line in change.new)


def _item_text(item: Item) -> Iterator[str]:
    yield f"{item.kind}: {printable(item.title or item.id)}"
    if item.link:
        yield f"  {printable(item.link)}"
    if item.kind != "gone":
        yield from (f"  {printable(_short(line))}" for line in item.text.splitlines()[:3])


def _html(delta: Delta) -> Iterator[str]:
    if delta.items:
        for item in delta.items:
            name = escape(_short(item.title or item.id))
            if item.link:
                name = f'<a href="{escape(item.link)}" rel="noopener nofollow">{name}</a>'
            text = "<br>".join(escape(_short(line)) for line in item.text.splitlines()[:10])
            yield f"<p><b>{item.kind}</b> {name}{'<br>' + text if text and item.kind != 'gone' else ''}</p>"
        return
    for change in delta.changes:
        yield f"<p>{_change_html(change)}</p>"


def _change_html(change: Change) -> str:
    if len(change.old) == len(change.new):
        return "<br>".join(_words_html(old, new) for old, new in zip(change.old, change.new, strict=True))
    gone = [f"<del>{escape(_short(line))}</del>" for line in change.old]
    come = [f"<ins>{escape(_short(line))}</ins>" for line in change.new]
    return "<br>".join(gone + come)


def _words_html(old: str, new: str) -> str:
    """One line with the words that changed marked."""
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
    """Two long lines, cut to where they differ."""
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
