"""What can be asked about web channels; a page is named by its URL in any spelling."""

from __future__ import annotations

from typing import Final

from penstock.node.http import channel_answers as answers
from penstock.node.http.answers import Done
from penstock.node.http.routes import API, PAGE, Parameter, Route

_URL: Final = Parameter("url", "the page, percent-encoded", required=True)

CHANNEL_ROUTES: Final = (
    Route(
        method="GET",
        path=f"{API}/channels",
        handler="channels",
        about="watched web pages, those that fail first, then those that changed last",
        answer=(answers.ChannelsFound,),
        parameters=(
            Parameter("search", "text within URL or title; case does not matter"),
            Parameter("state", "only pages in this state", choices=("polled", "failing", "paused", "idle")),
            *PAGE,
        ),
    ),
    Route(
        method="GET",
        path=f"{API}/channels/one",
        handler="channel",
        about="one page: how it is watched, why it is polled when it is, who is told",
        answer=(answers.ChannelDetails,),
        parameters=(_URL,),
    ),
    Route(
        method="GET",
        path=f"{API}/channels/history",
        handler="channel_history",
        about="the last changes of a page, newest first",
        answer=(answers.ChannelHistory,),
        parameters=(_URL, Parameter("limit", "changes; 20 if omitted", kind="integer", most=1_000)),
    ),
    Route(
        method="GET",
        path=f"{API}/channels/export",
        handler="channel_export",
        about="the watched pages as a list of feeds (OPML)",
        media="text/x-opml",
    ),
    Route(
        method="POST",
        path=f"{API}/channels/add",
        handler="channel_add",
        about="watch a page until it is removed, or change how it is watched",
        body=answers.NewPage,
        answer=(answers.ChannelDetails,),
    ),
    Route(
        method="POST",
        path=f"{API}/channels/remove",
        handler="channel_remove",
        about="forget a page with its history and its subscribers",
        body=answers.Page,
        answer=(Done,),
    ),
    Route(
        method="POST",
        path=f"{API}/channels/pause",
        handler="channel_pause",
        about="stop polling a page for everybody, or go on",
        body=answers.PausedPage,
        answer=(answers.ChannelDetails,),
    ),
    Route(
        method="POST",
        path=f"{API}/channels/check",
        handler="channel_check",
        about="poll a page now, if its server and the budgets allow it",
        body=answers.Page,
        answer=(Done,),
    ),
    Route(
        method="POST",
        path=f"{API}/channels/subscribe",
        handler="channel_subscribe",
        about="tell somebody of a page's changes",
        body=answers.SubscriberOf,
        answer=(Done,),
    ),
    Route(
        method="POST",
        path=f"{API}/channels/unsubscribe",
        handler="channel_unsubscribe",
        about="tell somebody no more",
        body=answers.SubscriberOf,
        answer=(Done,),
    ),
    Route(
        method="POST",
        path=f"{API}/channels/import",
        handler="channel_import",
        about="watch the feeds of a list (OPML)",
        body=answers.FeedList,
        answer=(answers.Imported,),
    ),
)
