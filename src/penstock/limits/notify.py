"""Limits of notifications to people and programs: chat, webhooks, feeds and hubs."""

from __future__ import annotations

from typing import Final

TELL_SENDS: Final = 64
"""Messages on their way at the same time, to different subscribers of one kind: slow receivers of webhooks
hold up nobody who is told by chat."""

TELL_PACES: Final = 100_000
"""Subscribers whose pace is remembered: some 10 MB."""

TELL_RETRY_LEAST_S: Final = 5.0
"""Pause after the first failure to reach somebody; it doubles with each further one."""

TELL_RETRY_MOST_S: Final = 3_600.0
"""Longest pause after failures: a target that comes back is told within the hour."""

TELL_CHARS: Final = 8_000
"""Characters of a message to a person: chat servers refuse stanzas of 64 KB, and nobody reads more."""

COMMAND_CHARS: Final = 4_096
"""A command of a chat: the longest URL, with room for a policy's name."""

COMMANDS_PER_MINUTE: Final = 30
"""Commands of one person: fast typing."""

LIST_LINES: Final = 100
"""Subscriptions told in one answer."""

POST_S: Final = 20.0
"""A receiver of a webhook has so long to answer; ten seconds are usual elsewhere."""

POST_ANSWER_BYTES: Final = 65_536
"""What is read of the answer to a request of ours: a challenge or a sentence."""

OPML_BYTES: Final = 4 << 20
"""A list of feeds: OPML_FEEDS of the usual length."""

OPML_FEEDS: Final = 10_000
"""Feeds in one list; the longest in use have some thousand."""

OPML_DEPTH: Final = 64
"""Folders within folders."""

HUB_VERIFICATIONS: Final = 32
"""Intents that are verified at the same time: each is a request to a stranger's server."""

HUB_WAITING: Final = 1_000
"""Intents that wait to be verified; beyond it subscribers are asked to come again."""

WEBSUB_PUSH_BYTES: Final = 8 << 20
"""A pushed page; as large as one that is fetched."""

LINK_CHARS: Final = 8_192
"""A Link header in which a hub is looked for; the longest in use have some hundred."""

WEBSUB_PUSHES: Final = 16
"""Pushed pages that wait to be compared, 128 MiB at most; beyond it hubs are asked to come again."""

WEBSUB_PUSHES_EACH: Final = 2
"""Of one page: a page chooses its hub, and shall not keep others waiting."""

WEBSUB_VERIFY_S: Final = 3_600.0
"""A hub that has not verified a subscription by then is asked again."""

WEBSUB_LEASE_LEAST_S: Final = 300.0
"""Leases that are shorter are renewed as if they had this length: no hub is asked every second."""
