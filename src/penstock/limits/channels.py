"""Limits of web channels: polling, and the bodies, rules and deltas of changed pages."""

from __future__ import annotations

from typing import Final

URL_CHARS: Final = 2_048
"""Longest URL of a channel: what browsers and proxies have agreed on for twenty years."""

CHANNEL_IDLE_S: Final = 86_400
"""How long a channel without subscribers is remembered, so that clients that come back see what changed."""

PARTIAL_ITEMS: Final = 500
"""Items remembered of a feed that is served in parts; items beyond this number count as aged out."""

CHANNEL_WRITE_S: Final = 2.0
"""Pause between writes of polling state to disk; changes themselves are written at once."""

RESTART_SOON_US: Final = 600 * 1_000_000
"""A crash within this time after polling began may be caused by a polled page, and so may repeat."""

RESTART_MOST_US: Final = 3_600 * 1_000_000
"""Longest pause before polling of a node that crashes again and again."""

CHANNEL_SETTLE_S: Final = 2.0
"""Longest time to wait for the disk before a SUBSCRIBE is answered."""

CHANNEL_CLOSE_S: Final = 5.0
"""How long a stopping node waits for changes to be written and delivered; the rest follows after its
restart."""

ALLOCATE_SOON_S: Final = 1.0
"""Shortest time between two allocations: many subscriptions that arrive together cause one."""

ALLOCATE_SHARE: Final = 0.02
"""Share of the event loop's time for allocating: with many channels it runs less often."""

THIRD_LOOK_S: Final = 300
"""After how long a new page is fetched a third time, to learn what moves with time; or its interval, if
shorter."""

CONFIRM_WAIT_S: Final = 60
"""Longest wait for the budget of a host before a candidate change is fetched again; else at the next poll."""

CONFIRM_DOUBTS: Final = 3
"""A candidate change that could not be fetched again at so many polls is told all the same."""

VALIDATOR_CHARS: Final = 1_024
"""Longest ETag or Last-Modified that is kept and sent back: real ones have 20 to 80 characters."""

PROBLEM_CHARS: Final = 500
"""Longest description of what is wrong with a channel."""

POLL_ERRORS: Final = 1_000_000
"""The count of consecutive errors stops here."""

POLL_LATEST_US: Final = 31 * 86_400 * 1_000_000
"""Longest interval between polls, even if servers, feeds or settings ask for more."""

POLL_FULL_US: Final = 7 * 86_400 * 1_000_000
"""Longest time between full fetches, whatever the validators say: some servers answer 304 for ever."""

POLL_SKIP_US: Final = 72 * 3_600 * 1_000_000
"""A feed may be quiet for a long weekend; skipHours and skipDays that say more are a mistake."""

REDIRECTS: Final = 10
"""Redirects followed in one fetch: robots.txt needs 5 (RFC 9309, 2.3.1.2), browsers follow 20."""

MOVED_ERRORS: Final = 5
"""Errors in a row after which the new address of a moved page is forgotten and the old one asked again."""

ROBOTS_BYTES: Final = 512 << 10
"""Bytes read of a robots.txt: RFC 9309, 2.5, wants at least 500 KiB."""

ROBOTS_AT_ONCE_BYTES: Final = 1 << 15
"""A larger robots.txt is parsed in a thread: this much takes 10 ms."""

ROBOTS_RULES: Final = 3_000
"""Rules of a robots.txt that are obeyed, of the groups for this program and for all: the longest in use have
1,000. Asking so many with wildcards takes 30 ms."""

ROBOTS_FILES: Final = 1_000
"""robots.txt files kept parsed. The verdict is stored with each channel, so more hosts cause no more
fetches."""

BOMB_RATIO: Final = 200
"""A body that grows by more than this factor when decompressed is refused; lists and tables reach 50, gzip
itself 1,032.
"""

BOMB_SPARE_BYTES: Final = 1 << 20
"""Decompressed bytes before BOMB_RATIO is checked: a small page of one repeated line is harmless."""

REDIRECT_BODY_BYTES: Final = 1 << 16
"""Bytes read of the body of a redirect, so that the connection can be reused."""

RESOLVER_THREADS: Final = 16
"""Host names resolved at the same time; each may take the resolver's 10 s."""

POLLER_SLEEP_S: Final = 5.0
"""Longest sleep of the poller, so that it notices a changed system clock."""

CLOCK_JUMP_US: Final = 1_000_000
"""A larger difference between wall clock and monotonic clock means that the clock was set; less is drift."""

CRAWL_DELAY_US: Final = 600 * 1_000_000
"""Longest Crawl-delay that is obeyed: larger ones are meant for crawlers that fetch every page of a site."""


BODY_BYTES: Final = 8 << 20
"""Largest body that is read: the largest feeds in use have 5 MB."""

READER_BYTES: Final = 64 << 20
"""Memory that reading one page may take, besides what the process that reads pages begins with."""

READER_CPU_S: Final = 15
"""Computing time that reading and comparing one page may take: 20,000 lines that all changed take 9 s on a
busy machine, the largest feeds 2 s."""

READER_ANSWER_S: Final = 30.0
"""How long a node waits for a page to be read: a machine may be busy with other things."""

READER_END_S: Final = 0.5
"""Time in which a process that closed its connection ends by itself."""

READER_ANSWER_BYTES: Final = 48 << 20
"""Largest answer of the process that reads pages: a version, and a delta with the old lines and the new."""

CONTENT_LINES: Final = 20_000
"""Lines of a page's content: a novel has 10,000. Comparing two such versions takes 50 MB at worst."""

LINE_CHARS: Final = 2_000
"""A longer line is cut into several, at a space if there is one: bounds the work of every pattern on it."""

LINE_PLACES: Final = 2_000
"""Distinct places (elements by class, JSON paths) of the lines of a page; lines at further places share
one.
"""

PLACE_CHARS: Final = 200
"""Longest name of a place: its last six or so elements."""

FEED_ITEMS: Final = 2_000
"""Items of a feed that are compared, the first in its order: feeds have 10 to 100, podcast archives 1,500."""

FEED_ITEMS_READ: Final = 10_000
"""A feed with more items is refused: 100,000 items in 8 MB would keep the reader busy for 10 s."""

FEED_TAGS: Final = 500_000
"""Tags of a feed, without those inside CDATA sections: 50 for each of 10,000 items; 1.5 s."""

ITEM_CHARS: Final = 200_000
"""Characters of the text of one item that are kept as lines: half a novel. The rest is compared by hash."""

ITEM_LINES: Final = 5_000
"""Lines of the text of one item, in the same way."""

ITEM_TEXT_CHARS: Final = 2_000
"""Characters of one item in a delta: what a person reads before following the link."""

SEEN_ITEMS: Final = 4_000
"""Items remembered after they left a feed, 16 bytes each: one that comes back is not new."""

TITLE_CHARS: Final = 300
"""Longest title of a page or an item."""

PAGE_DEPTH: Final = 2_048
"""Deepest nesting of elements: libxml2's own bound. Pages that never close their `<font>` reach hundreds."""

PAGE_ELEMENTS: Final = 150_000
"""Elements of a page: the longest lists of Wikipedia have 80,000; each takes 280 bytes while it is read."""

TAG_ATTRIBUTES: Final = 1_000
"""Attributes of one tag: libxml2 takes 3 s for 50,000, and four times that for twice as many."""

DOCUMENT_DEPTH: Final = 256
"""Deepest nesting of JSON."""

SELECTORS: Final = 32
"""Selectors of one channel, and ignore patterns of one channel."""

SELECTOR_CHARS: Final = 512
"""Longest selector."""

SELECTOR_WIDE_STEPS: Final = 3
"""Steps of an XPath that look at a whole tree (`//`, `following::` …): each may multiply the work by the
number of elements."""

COMPARED_VERSIONS: Final = 50
"""Earlier versions that a new one may be compared with: 8 bytes each."""

DIFF_CELLS: Final = 400_000_000
"""Largest product of old lines and new lines that is compared exactly, at one bit each: 50 MB. Beyond it
all lines between the first and the last difference count as replaced.
"""

NOISE_SLOTS: Final = 512
"""Lines of a page whose moves are remembered, some 100 bytes each: those that moved last."""

NOISE_POOL: Final = 1_024
"""Lines remembered that were seen but not told, 30 bytes each: rotating lists draw from pools of hundreds."""

NOISE_WORDINGS: Final = 512
"""Wordings of lines remembered that changed, 15 bytes each: a live board has a few for each of its rows."""

NOISE_PLACES: Final = 256
"""Places, orders and shapes of lines that are remembered as rotating, and places that a person unmuted."""

DELTA_BYTES: Final = 1 << 18
"""Largest delta as a message. The average one of the survey has 17 lines; the last changes that do not fit
are left out.
"""

DELTA_TEXT_CHARS: Final = 4_000
"""Longest delta as text for a person: one chat message."""

CHANNEL_TAGS: Final = 20
"""Tags of one page: more are a second search, not an order."""

TAG_CHARS: Final = 60
"""Characters of a tag: it has to fit into a line of the dashboard."""

WATCH_LIST_BYTES: Final = 4 << 20
"""A list of watched pages: WATCH_LIST_PAGES of the usual length."""

WATCH_LIST_PAGES: Final = 2_000
"""Pages of one imported list: each is fetched twice soon after it was added."""

WATCH_LONGEST_S: Final = 31 * 86_400
"""Longest interval between polls that an operator can set."""

RENDER_LOOK_S: Final = 0.5
"""Interval at which the memory of a browser is measured: it grows by some 100 MB in that time."""

RENDER_END_S: Final = 5.0
"""Time in which a browser ends when it is asked to; then it is killed."""

RENDER_POST_BYTES: Final = 1 << 16
"""Largest body that a script of a rendered page may send: queries of public interfaces are far smaller."""

TRIAL_SAMPLE_S: Final = 300.0
"""How long a page that was fetched to try rules on it is used for further trials."""

RESTORED_CHANGES: Final = 1_000
"""Changes that are undone to restore an older version of a page: as many as the API lists."""

PICKED_SELECTORS: Final = 6
"""Selectors offered for one line of a page: more are a second choice, not a help."""

PICKED_LINES: Final = 2_000
"""Lines of a page that are offered to pick from."""
