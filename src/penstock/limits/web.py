"""Web channels: polling pages."""

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
