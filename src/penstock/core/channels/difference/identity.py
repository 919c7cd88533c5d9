"""Recognises items of feeds: duplicates within one feed, and an item in two versions of it.

An item is known by its own id. One without an id is known by its link, and by link and title if several items
have one link. Feeds change how they make ids, or make them anew for each request: so when most ids of a feed
are unknown at once, its items are recognised by their links, else by title and date.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Any, Final, Protocol

import msgspec

from penstock import limits

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from penstock.core.channels.difference.content import FeedItem

_TRACKING: Final = re.compile(
    r"(?<=[?&;])(?:utm_\w{1,30}|fbclid|gclid|dclid|msclkid|yclid|igshid|twclid|mc_[ce]id|_hs\w{1,10}|mkt_tok"
    r"|at_\w{1,30}|pk_\w{1,30}|mtm_\w{1,30}|wt_\w{1,30}|cmpid|ncid|ocid|cid|spm|ref|ref_src|referrer|source|src"
    r"|s?cmp|rss|xtor|ns_\w{1,30}|trk\w{0,10}|partner|ito|feature)=[^&;#]*+[&;]?",
    re.IGNORECASE,
)
"""Parameters that say where a reader came from. They change without the page."""
_CERTAIN: Final = re.compile(
    r"(?<=[?&;])(?:utm_\w{1,30}|fbclid|gclid|dclid|msclkid|mc_[ce]id|_hs(?:enc|mi))=[^&;#]*+[&;]?",
    re.IGNORECASE,
)
"""Tracking parameters that no site uses to name a page."""
_MOST: Final = 0.5
"""Share of unknown ids above which items are recognised by other means."""


class _Known(Protocol):
    """The fields that an item and the mark of an item have in common."""

    @property
    def id(self) -> str: ...
    @property
    def title(self) -> str: ...
    @property
    def link(self) -> str: ...
    @property
    def published_us(self) -> int | None: ...


def untracked(link: str) -> str:
    """The link without parameters that only say where a reader came from."""
    return _CERTAIN.sub("", link).rstrip("?&") if "?" in link else link


def page_of(link: str) -> str:
    """Return a link without scheme, `www.`, tracking, fragment and the last slash: the page it leads to."""
    bare = link.partition("#")[0]
    bare = _TRACKING.sub("", bare).rstrip("?&;") if "?" in bare else bare
    return bare.partition("://")[2].removeprefix("www.").rstrip("/") or bare


def distinct(items: Iterable[FeedItem]) -> Iterator[FeedItem]:
    """Items with their ids, each id once, in the feed's order, without those that nothing identifies."""
    found = list(items)
    owns = Counter(item.id for item in found)
    links = Counter(untracked(item.link) for item in found if not item.id)
    targets: dict[str, set[str]] = {}
    for item in found:
        if owns[item.id] > 1 and item.id and item.link:
            targets.setdefault(item.id, set()).add(untracked(item.link))
    seen: set[str] = set()
    for item in found:
        if item.id:
            shared = len(targets.get(item.id, ())) > 1
            own = f"{item.id} {untracked(item.link)}" if shared else untracked(item.id)
        else:
            own = _made_id(item, shared=links[untracked(item.link)] > 1)
        own = own[: limits.URL_CHARS]
        if own and own not in seen:
            seen.add(own)
            yield msgspec.structs.replace(item, id=own)


def _made_id(item: FeedItem, *, shared: bool) -> str:
    link = untracked(item.link)
    title = item.title or (item.lines[0] if item.lines else "")
    if link and shared:
        return f"{link[: limits.URL_CHARS - limits.TITLE_CHARS - 1]} {title[: limits.TITLE_CHARS]}".strip()
    return link or title


def renamed(old: Sequence[_Known], new: Sequence[_Known]) -> dict[str, str]:
    """New ids, by old id, of items that are the same under another id."""
    known, come = {each.id for each in old}, {each.id for each in new}
    left = [each for each in old if each.id not in come]
    fresh = [each for each in new if each.id not in known]
    found: dict[str, str] = {}
    keys: list[Callable[[_Known], Any]] = [_whole, _page_and_date]
    if len(fresh) > _MOST * len(new):
        keys += [_page, _title_and_date]
    for key in keys:
        if not left or not fresh:
            break
        before, after = _unique(left, key), _unique(fresh, key)
        pairs = [(before[value], after[value]) for value in before if value in after]
        if key is _page and len(pairs) == 1:
            # One page that is always linked, such as that of a status: its next item is another one.
            pairs = [(one, other) for one, other in pairs if one.published_us == other.published_us]
        found |= {one.id: other.id for one, other in pairs}
        taken = set(found.values())
        left = [each for each in left if each.id not in found]
        fresh = [each for each in fresh if each.id not in taken]
    return found


def refilled(old: Sequence[_Known], new: Sequence[_Known]) -> set[str]:
    """Ids of older items that came into the window of a feed because others were taken out: they are not new.

    They stand behind all that were known, and are older than these; without dates, as many were taken out,
    not at the front, where a feed that grows at its end lets go of items.
    """
    known, come = {each.id for each in old}, {each.id for each in new}
    last = max((place for place, item in enumerate(new) if item.id in known), default=-1)
    tail = new[last + 1 :]
    if last < 0 or not tail:
        return set()
    dates = [each.published_us for each in old if each.published_us is not None]
    if dates and all(item.published_us is not None for item in tail):
        return {item.id for item in tail if (item.published_us or 0) < min(dates)}
    left = [place for place, each in enumerate(old) if each.id not in come]
    is_front = left == list(range(len(left)))
    in_front = any(item.id not in known for item in new[: last + 1])
    is_exchange = len(tail) == len(left) and not is_front and not in_front
    return {item.id for item in tail} if is_exchange else set()


def _unique(items: Iterable[_Known], key: Callable[[_Known], Any]) -> Mapping[Any, _Known]:
    """Items by key, without those whose key several have, or that have none."""
    found: dict[Any, _Known | None] = {}
    for item in items:
        value = key(item)
        if value:
            found[value] = None if value in found else item
    return {value: item for value, item in found.items() if item is not None}


def _whole(item: _Known) -> tuple[str, str, int | None] | None:
    return (page_of(item.link), item.title, item.published_us) if item.link and item.title else None


def _page_and_date(item: _Known) -> tuple[str, int] | None:
    return (page_of(item.link), item.published_us) if item.link and item.published_us is not None else None


def _page(item: _Known) -> str:
    return page_of(item.link)


def _title_and_date(item: _Known) -> tuple[str, int | None] | None:
    return (item.title, item.published_us) if item.title else None
