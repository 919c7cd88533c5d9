"""The difference engine: what of a page is content, what of a change is news.

`read` makes a body into content, `Versions` compares it with what was there and gives deltas, `text_of` and
`html_of` tell them to people, `to_json` and `from_json` to programs.
"""

from penstock.core.channels.difference.content import Content, FeedItem, Hints, Kind
from penstock.core.channels.difference.kept import VersionsState
from penstock.core.channels.difference.readable import html_of, text_of
from penstock.core.channels.difference.reading import read
from penstock.core.channels.difference.rules import NOISE, Rules, rules_of
from penstock.core.channels.difference.versions import Versions
from penstock.core.channels.difference.wire import from_json, to_json

__all__ = [
    "NOISE",
    "Content",
    "FeedItem",
    "Hints",
    "Kind",
    "Rules",
    "Versions",
    "VersionsState",
    "from_json",
    "html_of",
    "read",
    "rules_of",
    "text_of",
    "to_json",
]
