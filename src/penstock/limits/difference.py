"""What changed: bodies, rules and deltas of web channels."""

from __future__ import annotations

from typing import Final

BODY_BYTES: Final = 8 << 20
"""Body that is read for changes: the largest feeds in use have 5 MB; more is not fetched for a person."""

CONTENT_LINES: Final = 20_000
"""Core content of a page: a novel has 10,000 lines. Comparing two such versions takes 50 MB at worst."""

LINE_CHARS: Final = 2_000
"""A longer line is cut into several, at a space if there is one: bounds every pattern's work on it."""

LINE_PLACES: Final = 2_000
"""Different places (elements by class, paths of JSON) of the lines of a page; lines at further ones share
one."""

PLACE_CHARS: Final = 200
"""Name of a place: its last six or so elements."""

FEED_ITEMS: Final = 2_000
"""Items of a feed, the first in its order: feeds have 10 to 100, archives of podcasts 1,500."""

FEED_ITEMS_READ: Final = 10_000
"""A feed with more is refused unread: 100,000 items in 8 MB would keep the reader busy for 10 s."""

ITEM_CHARS: Final = 20_000
"""Text of one item that is compared: a long article."""

ITEM_TEXT_CHARS: Final = 2_000
"""Text of one item in a delta: what a person reads before following the link."""

SEEN_ITEMS: Final = 4_000
"""Items that left a feed and are remembered, 16 bytes each: one that comes back is not news."""

TITLE_CHARS: Final = 300
"""Title of a page or an item."""

MARKUP_DEPTH: Final = 256
"""Nesting of elements or JSON: libxml2's own bound for elements."""

TAG_ATTRIBUTES: Final = 1_000
"""Attributes of one tag: libxml2 takes a second for 20,000 and a hundred times that for 200,000."""

SELECTORS: Final = 32
"""Selectors and ignore patterns of one channel, each kind."""

SELECTOR_CHARS: Final = 512
"""Length of one selector."""

SELECTOR_WIDE_STEPS: Final = 3
"""Steps of an XPath that look at a whole tree (`//`, `following::` …): each may multiply the work by the
number of elements."""

COMPARED_VERSIONS: Final = 50
"""Versions before that a new one may be compared with: 8 bytes each."""

DIFF_CELLS: Final = 400_000_000
"""Old lines × new lines that are compared exactly, one bit each: 50 MB. Beyond it all lines between the first
and the last difference count as replaced."""

LEARNED_NOISE: Final = 256
"""Places and shapes of lines that two fetches at once have shown to be noise, of each kind."""

DELTA_BYTES: Final = 1 << 18
"""A delta as a message. The average one of the survey has 17 lines; beyond it the last changes are left
out."""

DELTA_TEXT_CHARS: Final = 4_000
"""A delta as text for a person: one chat message."""
