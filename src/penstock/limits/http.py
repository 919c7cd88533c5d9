"""Limits of the HTTP server: requests, dashboards, metrics."""

from __future__ import annotations

from typing import Final

HTTP_BODY_BYTES: Final = 1 << 18
"""Body of a request: four times the largest policy, since JSON may write a character as six."""

HTTP_CONNECTIONS: Final = 256
"""Open HTTP connections: a browser opens six, so forty people look at once."""

HTTP_HEAD_S: Final = 10
"""The head of a connection's first request must arrive within ten slow round trips."""

HTTP_HEAD_BYTES: Final = 1 << 15
"""Head of a request: browsers send 1 KB, the names of a client and a filter may have 65,535 bytes in theory
and a hundred in practice."""

HTTP_BODY_S: Final = 10
"""The body of a request must arrive within this time: HTTP_BODY_BYTES at 26 KB/s. A body that is broken in
the middle never ends, and would keep its connection for ever."""

HTTP_LINGER_S: Final = 2
"""How long the rest of a body that nobody wants is read, so that its sender can read the answer."""

HTTP_LIVE_STREAMS: Final = 32
"""Dashboards and `penstock top` that follow at once; all get the same bytes."""

HTTP_STALL_S: Final = 30
"""A viewer whose connection takes nothing for so long is closed."""

HTTP_ROWS: Final = 1_000
"""Rows in one answer; the next ones are asked for with `offset`."""

HTTP_FRESH_S: Final = 0.1
"""Responses within this time share one snapshot of the node: a thousand requests a second cost ten
snapshots."""

HTTP_TRIES: Final = 4
"""Trials of a policy on live traffic at once: each holds up to HTTP_TRY_BYTES."""

HTTP_TRY_EVENTS: Final = 10_000
"""Events a policy is tried on: ten queues of the default size."""

HTTP_TRY_BYTES: Final = 32 << 20
"""Bytes of the events a policy is tried on."""

HTTP_TRY_S: Final = 60
"""Longest time to wait for events to try a policy on."""

HTTP_TRY_ITEMS: Final = 200
"""Items of the packed queue that are shown."""

HTTP_TAPS: Final = 8
"""Views of what is being published at once: each makes routing slower while it is open."""

HTTP_WATCH_S: Final = 10
"""Longest time for which topics are counted or attributes looked for in one request."""

HTTP_TOPICS: Final = 5_000
"""Topics that are counted in one request; messages of further ones are counted together."""

HTTP_MESSAGES: Final = 100
"""Messages in one batch of a live view, four times a second: nobody reads more."""

HTTP_ATTRIBUTE_EVENTS: Final = 2_000
"""Events in which attributes are looked for: about 10 ms of work in a thread."""

HTTP_ATTRIBUTES: Final = 200
"""Attributes that are listed."""

HTTP_IMPORT_BYTES: Final = 9 << 20
"""Body of a request that imports a list: a list of 4 MiB, whose quotes are escaped in JSON."""

HTTP_ACCESS_TRIED: Final = 100
"""Users, and topics of rules, for which other rules are compared with those in force."""

HTTP_ACCESS_RULES: Final = 1_000
"""Access rules that can be tried in one request."""

LIVE_CLIENTS: Final = 100
"""Clients in the live view, those furthest behind first; the others are asked for by name."""

LIVE_SUBSCRIPTIONS: Final = 8
"""Subscriptions per client in the live view, those furthest behind first."""

HISTORY_SAMPLES: Final = 600
"""Ten minutes, one sample a second."""

HISTORY_SUBSCRIPTIONS: Final = 500
"""Subscriptions with a history, those most recently behind: with HISTORY_SAMPLES of 64 bytes, 20 MB."""

METRICS_SLOWEST: Final = 20
"""Subscriptions with metrics of their own: Prometheus keeps every label it ever saw."""

METRICS_STREAMS: Final = 100
"""Streams, and neighbours, with metrics of their own; the totals count all."""
