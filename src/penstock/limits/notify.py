"""Limits of notifications to people and programs: chat, webhooks, feeds and hubs."""

from __future__ import annotations

from typing import Final

NOTIFY_SENDS: Final = 64
"""Messages being sent at the same time by one transport, so that slow webhook receivers do not delay chat."""

NOTIFY_PACES: Final = 100_000
"""Subscribers whose sending rate is remembered: some 10 MB."""

NOTIFY_RETRY_LEAST_S: Final = 5.0
"""Pause after the first failed delivery; it doubles with each further one."""

NOTIFY_RETRY_MOST_S: Final = 3_600.0
"""Longest pause between attempts: a target that comes back gets its messages within the hour."""

NOTIFY_CHARS: Final = 8_000
"""Characters of a message to a person: chat servers refuse stanzas of 64 KB, and longer texts go unread."""

COMMAND_CHARS: Final = 4_096
"""A command of a chat: the longest URL, with room for a policy's name."""

COMMANDS_PER_MINUTE: Final = 30
"""Commands a minute of one person: fast typing."""

LIST_LINES: Final = 100
"""Subscriptions listed in one answer."""

POST_S: Final = 20.0
"""Time a webhook receiver has to answer; ten seconds are usual elsewhere."""

POST_ANSWER_BYTES: Final = 65_536
"""Bytes read of the response to a request of ours: a challenge or a sentence."""

OPML_BYTES: Final = 4 << 20
"""A list of feeds: OPML_FEEDS of the usual length."""

OPML_FEEDS: Final = 10_000
"""Feeds in one list; the longest in use have some thousand."""

OPML_DEPTH: Final = 64
"""Folders within folders."""

HUB_VERIFICATIONS: Final = 32
"""Intents verified at the same time: each is a request to a server we do not know."""

HUB_WAITING: Final = 1_000
"""Intents that wait for verification; beyond it subscribers get 503 and try again later."""

WEBSUB_PUSH_BYTES: Final = 8 << 20
"""Largest pushed page; as large as one that is fetched."""

LINK_CHARS: Final = 8_192
"""Longest Link header searched for a hub; the longest in use have some hundred characters."""

WEBSUB_PUSHES: Final = 16
"""Pushed pages that wait to be compared, 128 MiB at most; beyond it hubs get 503 and try again later."""

WEBSUB_PUSHES_EACH: Final = 2
"""Waiting pushes of one page: a page chooses its hub, and must not delay other pages."""

WEBSUB_VERIFY_S: Final = 3_600.0
"""Time a hub has to verify a subscription before it is asked again."""

WEBSUB_LEASE_LEAST_S: Final = 300.0
"""Shortest lease assumed when renewing, so that no hub is asked every second."""
