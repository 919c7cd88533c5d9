"""Notifications over HTTP: feeds and the hub, open to everybody; callbacks for hubs; the notify routes."""

from __future__ import annotations

from hashlib import sha256
from http import HTTPStatus
from typing import TYPE_CHECKING, Annotated, Final

import msgspec
from aiohttp import web

from penstock import limits
from penstock.core.channels.address import canonical
from penstock.core.channels.websub import FORM_TYPE, link_header
from penstock.errors import ChannelError, RequestRefused
from penstock.node.channels.websub import PATH
from penstock.node.http.answers import Done
from penstock.node.http.replies import body_of, in_time, json_answer, page_of
from penstock.node.http.routes import API, PAGE, Parameter, Route
from penstock.node.notify import status

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.node.channels.websub import WebSubSubscriber
    from penstock.node.notify.service import NotifyService


_WHO: Final = Parameter("who", "a subscriber with its kind in front, as xmpp:ann@example.org")


class TestRecipient(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The subscriber to whom a test message is sent."""

    __test__ = False  # it is no test of pytest's
    who: Annotated[str, msgspec.Meta(min_length=1, max_length=4_096)]
    """With its kind in front, as webhook:https://example.org/hook."""


ROUTES: Final = (
    Route(
        method="GET",
        path=f"{API}/notify",
        handler="notify_status",
        about="what was told to people and programs, and what waits for them",
        answer=(status.NotifyStatus,),
    ),
    Route(
        method="GET",
        path=f"{API}/notify/subscribers",
        handler="notify_subscribers",
        about="who is told of which page",
        answer=(status.NotifySubscribers,),
        parameters=(Parameter("search", "text within subscriber or URL; case does not matter"), *PAGE),
    ),
    Route(
        method="POST",
        path=f"{API}/notify/test",
        handler="notify_test",
        about="send a test to a subscriber, or to somebody who may become one",
        body=TestRecipient,
        answer=(Done,),
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
"""Routes of the API, which need its token; the OpenAPI document is made of this table, too."""


class NotifyHandlers:
    """Answers requests about notifications."""

    def __init__(self, notify: NotifyService) -> None:
        self._notify = notify

    def routes(self) -> list[web.RouteDef]:
        """Make all routes; the first three need no token: feed readers and hubs know none."""
        from penstock.node.notify.feeds import CHANNEL_PATH, HUB_PATH, USER_PATH  # noqa: PLC0415  # if on

        found = [
            web.get(f"{CHANNEL_PATH}/{{word}}", self.channel_feed),
            web.get(f"{USER_PATH}/{{word}}", self.user_feed),
            web.post(HUB_PATH, self.hub),
        ]
        return found + [web.route(each.method, each.path, getattr(self, each.handler)) for each in ROUTES]

    # -- open to everybody -------------------------------------------------------------------------------

    async def channel_feed(self, request: web.Request) -> web.Response:
        """Answer with the feed of a channel."""
        feeds = self._notify.feeds
        return self._feed(request, "url", feeds.channel if feeds is not None else None)

    async def user_feed(self, request: web.Request) -> web.Response:
        """Answer with the feed of a subscriber."""
        feeds = self._notify.feeds
        return self._feed(request, "who", feeds.user if feeds is not None else None)

    def _feed(self, request: web.Request, name: str, made: Callable[[str], bytes] | None) -> web.Response:
        from penstock.node.notify.feeds import CONTENT_TYPE  # noqa: PLC0415  # loaded, if there are feeds

        feeds, value = self._notify.feeds, request.query.get(name, "")
        if feeds is None or made is None or not feeds.known(request.match_info["word"], name, value):
            raise RequestRefused(HTTPStatus.NOT_FOUND, "there is no such feed", where=request.path)
        try:
            body = made(value)
        except ChannelError as error:
            raise RequestRefused(HTTPStatus.NOT_FOUND, str(error), where=name) from None
        headers = {
            "ETag": etag_of(body),
            "Cache-Control": "private, max-age=60",
            "Content-Type": CONTENT_TYPE,
        }
        if name == "url" and feeds.hub_url:
            headers["Link"] = link_header(feeds.hub_url, feeds.channel_url(value))
        if is_known(request.headers.get("If-None-Match", ""), headers["ETag"]):
            return web.Response(status=HTTPStatus.NOT_MODIFIED, headers=headers)
        return web.Response(body=body, headers=headers)

    async def hub(self, request: web.Request) -> web.Response:
        """Take a request to the node's WebSub hub."""
        from penstock.node.http.notify import hub_form  # noqa: PLC0415  # most nodes are no hub

        hub = self._notify.hub
        if hub is None:
            raise RequestRefused(HTTPStatus.NOT_FOUND, "this node is no hub (notify.hub.enabled)")
        hub.take(await hub_form(request))
        return web.Response(status=HTTPStatus.ACCEPTED)

    # -- with the token ----------------------------------------------------------------------------------

    async def notify_status(self, _: web.Request) -> web.Response:
        """Answer with what was sent and what waits."""
        return json_answer(self._notify.status())

    async def notify_subscribers(self, request: web.Request) -> web.Response:
        """Answer with a page of the subscriptions of people and programs."""
        wanted = request.query.get("search", "").casefold()
        offset, limit = page_of(request)
        found = [
            one
            for one in self._notify.channels.subscriptions()
            if wanted in one.who.casefold() or wanted in one.url.casefold()
        ]
        found.sort(key=lambda one: (one.who, one.url))
        page = tuple(
            status.NotifySubscriber(one.who, one.url, one.policy, one.paused, one.since_us)
            for one in found[offset : offset + limit]
        )
        return json_answer(
            status.NotifySubscribers(
                len(found), offset, page, tuple(kind for kind in self._notify.kinds if kind != "hub")
            )
        )

    async def notify_test(self, request: web.Request) -> web.Response:
        """Send a test."""
        asked = await body_of(request, TestRecipient)
        try:
            said = await self._notify.test(asked.who, url=str(request.url.origin()))
        except ChannelError as error:
            raise _unprocessable(error, where="who") from None
        return json_answer(Done(said))

    async def webhook_key(self, request: web.Request) -> web.Response:
        """Answer with the key by which the receiver of a webhook checks signatures."""
        try:
            target = self._notify.check(f"webhook:{request.query.get('target', '')}").partition(":")[2]
        except ChannelError as error:
            raise _unprocessable(error, where="target") from None
        return json_answer(status.WebhookKey(target, self._notify.webhook_key(target)))

    async def feed_url(self, request: web.Request) -> web.Response:
        """Answer with the address of a feed."""
        feeds = self._notify.feeds
        if feeds is None:
            raise RequestRefused(HTTPStatus.NOT_FOUND, "there are no feeds (notify.feeds.enabled)")
        url, who = request.query.get("url", ""), request.query.get("who", "")
        if bool(url) == bool(who):
            raise RequestRefused(HTTPStatus.BAD_REQUEST, "give either url or who", where="url")
        try:
            found = self._notify.feed_of(who) if who else feeds.channel_url(canonical(url))
        except ChannelError as error:
            raise _unprocessable(error, where="url") from None
        return json_answer(status.FeedAddress(found))

    async def export(self, request: web.Request) -> web.Response:
        """Answer with the channels of a subscriber as OPML."""
        from penstock.node.notify.opml import write_opml  # noqa: PLC0415  # seldom asked for

        who = request.query.get("who", "")
        found = sorted(self._notify.channels.subscriptions(who), key=lambda one: one.url)
        if not found:
            raise RequestRefused(HTTPStatus.NOT_FOUND, f"'{who}' is subscribed to nothing", where="who")
        body = write_opml([(one.url, "") for one in found], title=f"Channels of {who}")
        return web.Response(body=body, content_type="text/x-opml", charset="utf-8")


def _unprocessable(error: ChannelError, *, where: str) -> RequestRefused:
    return RequestRefused(HTTPStatus.UNPROCESSABLE_ENTITY, str(error), where=where)


def etag_of(body: bytes) -> str:
    """Make the validator of a document."""
    return f'"{sha256(body).hexdigest()[:32]}"'


def is_known(if_none_match: str, etag: str) -> bool:
    """Whether the client has the document already (RFC 9110, 13.1.2)."""
    tags = [tag.strip().removeprefix("W/") for tag in if_none_match.split(",")]
    return etag in tags or "*" in tags


class HubCallbacks:
    """Passes what hubs send on to the subscriber. The last part of a callback URL says which page it is."""

    def __init__(self, subscriber: WebSubSubscriber) -> None:
        self._subscriber = subscriber

    def routes(self) -> list[web.RouteDef]:
        """Make the routes; they need no token, since hubs know none."""
        path = f"{PATH}/{{word}}"
        return [web.get(path, self.verify, allow_head=False), web.post(path, self.push)]

    async def verify(self, request: web.Request) -> web.Response:
        """Answer a hub that verifies a request, or denies it."""
        return web.Response(text=self._subscriber.verify(request.match_info["word"], request.query))

    async def push(self, request: web.Request) -> web.Response:
        """Take what changed on a page, at most WEBSUB_PUSH_BYTES."""
        word = request.match_info["word"]
        self._subscriber.check_push(word)  # before megabytes are read in vain
        body = await in_time(_pushed(request))
        signed = self._subscriber.push(
            word,
            body,
            content_type=request.headers.get("Content-Type", ""),
            signature=request.headers.get("X-Hub-Signature", ""),
        )
        # Section 8.1: a wrong signature is ignored, and the sender cannot tell that from success.
        return web.Response(status=HTTPStatus.OK if signed else HTTPStatus.ACCEPTED)


async def _pushed(request: web.Request) -> bytes:
    body = bytearray()
    async for piece in request.content.iter_any():
        body += piece
        if len(body) > limits.WEBSUB_PUSH_BYTES:
            raise RequestRefused(
                HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"at most {limits.WEBSUB_PUSH_BYTES} bytes are taken"
            )
    return bytes(body)


async def hub_form(request: web.Request) -> dict[str, str]:
    """Read the form of a request to the node's hub."""
    if request.content_type != FORM_TYPE:
        raise RequestRefused(
            HTTPStatus.UNSUPPORTED_MEDIA_TYPE, f"the body should be {FORM_TYPE}", where="Content-Type"
        )
    try:
        form = await in_time(request.post())
    except (ValueError, LookupError) as error:
        raise RequestRefused(HTTPStatus.BAD_REQUEST, f"the form cannot be read: {error}") from None
    return {name: value for name, value in form.items() if isinstance(value, str)}
