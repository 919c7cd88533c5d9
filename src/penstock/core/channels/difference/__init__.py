"""The difference engine: extracts the content of a page or feed and decides which changes are news.

`read` turns a body into content, `Versions` compares it with the last version and returns deltas,
`text_of`, `html_of` and `to_json` present a delta.

    content.py         content as lines with their places, and the parts every reader shares
    charset.py         bytes to text
    rules.py           what a watcher selects and ignores; CSS, XPath and JSONPath selectors
    html.py            HTML as lines
    json_document.py   JSON as lines
    feed.py            RSS, Atom and JSON Feed as items
    markup.py          the elements of a feed, without a parser of XML
    identity.py        which items of feeds are the same
    body.py            a body of any kind to content
    hunks.py           where two lists of lines differ
    density.py         lists of links beside the text of a page
    noise/             what changes without news: learned from the page itself
    news.py            which items of a feed are new
    versions.py        the numbered versions of one channel
    formats.py         a delta as text, HTML and JSON
"""

from penstock.core.channels.difference.body import read
from penstock.core.channels.difference.content import Content, FeedItem
from penstock.core.channels.difference.formats import from_json, html_of, shortened, text_of, to_json
from penstock.core.channels.difference.noise.memory import MutedPlace
from penstock.core.channels.difference.rules import Rules, rules_of
from penstock.core.channels.difference.versions import Look, Versions, VersionsState

__all__ = [
    "Content",
    "FeedItem",
    "Look",
    "MutedPlace",
    "Rules",
    "Versions",
    "VersionsState",
    "from_json",
    "html_of",
    "read",
    "rules_of",
    "shortened",
    "text_of",
    "to_json",
]
