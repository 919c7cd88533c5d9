"""Limits of web channels: polling pages, and the bodies, rules and deltas of what changed."""

from __future__ import annotations

from typing import Final

URL_CHARS: Final = 2_048
"""Longest URL of a channel: what browsers and proxies have agreed on for twenty years."""

CHANNEL_IDLE_S: Final = 86_400
"""A channel that nobody wants any more is remembered so long: clients that come back see what changed."""

PARTIAL_ITEMS: Final = 500
"""Items of a feed that is sent in parts: those beyond it count as aged."""

CHANNEL_WRITE_S: Final = 2.0
"""Between writes of what is known about channels; changes themselves are written at once."""

RESTART_SOON_US: Final = 600 * 1_000_000
"""A run that crashed so soon after it began to poll may have done so by what it polls, and do it again."""

RESTART_MOST_US: Final = 3_600 * 1_000_000
"""Longest pause of a node that crashes again and again."""

CHANNEL_SETTLE_S: Final = 2.0
"""Who subscribes is answered when that is on disk, or after so long."""

CHANNEL_CLOSE_S: Final = 5.0
"""A node that ends waits so long for changes to be written and told; the rest follows after its start."""

ALLOCATE_SOON_S: Final = 1.0
"""Least time between two allocations: many subscriptions that come together cause one."""

ALLOCATE_SHARE: Final = 0.02
"""Of the event loop's time that allocating may take: with many channels it is done less often."""

CONTRAST_PAUSE_S: Final = 5.0
"""Between looks for a page to be fetched twice at once: 12 a minute at most."""

CONTRAST_AGAIN_S: Final = 600
"""A page is fetched twice at once no more often than this; noise must be seen twice to be believed."""

VALIDATOR_CHARS: Final = 1_024
"""Of an ETag or a Last-Modified that is kept and sent back: real ones have 20 to 80."""

PROBLEM_CHARS: Final = 500
"""Of the sentence that says what is wrong with a channel."""

POLL_ERRORS: Final = 1_000_000
"""Errors in a row are counted up to here."""

POLL_LATEST_US: Final = 31 * 86_400 * 1_000_000
"""Nobody waits longer for a poll: servers, feeds and settings may ask for less."""

POLL_FULL_US: Final = 7 * 86_400 * 1_000_000
"""A body is asked for at least so often, whatever validators say: some servers answer 304 for ever."""

POLL_SKIP_US: Final = 72 * 3_600 * 1_000_000
"""A feed may be quiet for a long weekend; skipHours and skipDays that say more are a mistake."""

REDIRECTS: Final = 10
"""Followed in one fetch: robots.txt needs 5 (RFC 9309, 2.3.1.2), browsers follow 20."""

MOVED_ERRORS: Final = 5
"""Errors in a row after which the address a page has moved to is forgotten, and the old one asked again."""

ROBOTS_BYTES: Final = 512 << 10
"""Of a robots.txt that are read: RFC 9309, 2.5, wants 500 KiB at least."""

ROBOTS_FILES: Final = 1_000
"""robots.txt kept parsed; the verdict is kept with each channel, so that more hosts cost no more fetches."""

BOMB_RATIO: Final = 200
"""A body that grows more than so many times when decompressed is refused; lists and tables reach 50, gzip
itself 1,032."""

BOMB_SPARE_BYTES: Final = 1 << 20
"""Decompressed bytes before the ratio is looked at: a small page of one repeated line harms nobody."""

REDIRECT_BODY_BYTES: Final = 1 << 16
"""Of the body of a redirect that are read so that the connection can be used again."""

RESOLVER_THREADS: Final = 16
"""Names looked up at the same time; each may take the resolver's 10 s."""

POLLER_SLEEP_S: Final = 5.0
"""Longest sleep of a poller: by then it notices that the clock was set."""

CLOCK_JUMP_US: Final = 1_000_000
"""A clock that goes off by more was set; less is the clock's own drift."""

CRAWL_DELAY_US: Final = 600 * 1_000_000
"""Longest Crawl-delay that is kept to: more is meant for crawlers that fetch every page of a site."""


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
