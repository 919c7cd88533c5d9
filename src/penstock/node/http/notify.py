"""The notify routes of the API: one table for the server and for the OpenAPI document."""

from __future__ import annotations

from typing import Final

from penstock.node.http.routes import API, Parameter, Route
from penstock.node.notify import status

_WHO: Final = Parameter("who", "a subscriber with its kind in front, as xmpp:ann@example.org")

ROUTES: Final = (
    Route(
        method="GET",
        path=f"{API}/notify",
        handler="status",
        about="what was told to people and programs, and what waits for them",
        answer=(status.NotifyStatus,),
    ),
    Route(
        method="GET",
        path=f"{API}/notify/webhook-key",
        handler="webhook_key",
        about="the key by which a receiver checks what is sent to its address",
        answer=(status.WebhookKey,),
        parameters=(Parameter("target", "the receiver's address"),),
    ),
    Route(
        method="GET",
        path=f"{API}/notify/feed",
        handler="feed_url",
        about="the address of the Atom feed of a channel or of a subscriber",
        answer=(status.FeedAddress,),
        parameters=(Parameter("url", "a channel"), _WHO),
    ),
    Route(
        method="GET",
        path=f"{API}/notify/opml",
        handler="export",
        about="a subscriber's channels as a list for feed readers",
        media="text/x-opml",
        parameters=(_WHO,),
    ),
)
"""Of the API, behind its token."""
