"""What can be asked over HTTP about telling: feeds and the hub for everybody, the rest through the API."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING

import msgspec
from aiohttp import web

from penstock.core.channels.address import canonical
from penstock.errors import ChannelError
from penstock.node.http.problems import Refused
from penstock.node.telling import answers
from penstock.node.telling.feeds import CHANNEL, CONTENT_TYPE, HUB, USER, etag_of, is_known
from penstock.node.telling.opml import write_opml
from penstock.node.telling.table import ROUTES

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.node.telling.service import Telling


class Handlers:
    """One method per question."""

    def __init__(self, telling: Telling) -> None:
        self._telling = telling

    def routes(self) -> list[web.RouteDef]:
        """All of them, for the server; the first are open to everybody."""
        found = [
            web.get(f"{CHANNEL}/{{word}}", self.channel_feed),
            web.get(f"{USER}/{{word}}", self.user_feed),
            web.post(HUB, self.hub),
        ]
        return found + [web.route(each.method, each.path, getattr(self, each.handler)) for each in ROUTES]

    # -- open to everybody -------------------------------------------------------------------------------

    async def channel_feed(self, request: web.Request) -> web.Response:
        """The feed of a channel."""
        feeds = self._telling.feeds
        return self._feed(request, "url", feeds.channel if feeds is not None else None)

    async def user_feed(self, request: web.Request) -> web.Response:
        """The feed of a subscriber."""
        feeds = self._telling.feeds
        return self._feed(request, "who", feeds.user if feeds is not None else None)

    def _feed(self, request: web.Request, name: str, made: Callable[[str], bytes] | None) -> web.Response:
        feeds, value = self._telling.feeds, request.query.get(name, "")
        if feeds is None or made is None or not feeds.known(request.match_info["word"], name, value):
            raise Refused(HTTPStatus.NOT_FOUND, "there is no such feed", where=request.path)
        try:
            body = made(value)
        except ChannelError as error:
            raise Refused(HTTPStatus.NOT_FOUND, str(error), where=name) from None
        headers = {
            "ETag": etag_of(body),
            "Cache-Control": "private, max-age=60",
            "Content-Type": CONTENT_TYPE,
        }
        if name == "url" and feeds.hub_url:
            self_url = feeds.channel_url(value)
            headers["Link"] = f'<{feeds.hub_url}>; rel="hub", <{self_url}>; rel="self"'
        if is_known(request.headers.get("If-None-Match", ""), headers["ETag"]):
            return web.Response(status=HTTPStatus.NOT_MODIFIED, headers=headers)
        return web.Response(body=body, headers=headers)

    async def hub(self, request: web.Request) -> web.Response:
        """A request to the hub."""
        hub = self._telling.hub
        if hub is None:
            raise Refused(HTTPStatus.NOT_FOUND, "this node is no hub (telling.hub.enabled)")
        if request.content_type != "application/x-www-form-urlencoded":
            raise Refused(
                HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
                "the body should be application/x-www-form-urlencoded",
                where="Content-Type",
            )
        try:
            form = await request.post()
        except (ValueError, LookupError) as error:
            raise Refused(HTTPStatus.BAD_REQUEST, f"the form cannot be read: {error}") from None
        hub.take({name: value for name, value in form.items() if isinstance(value, str)})
        return web.Response(status=HTTPStatus.ACCEPTED)

    # -- behind the token --------------------------------------------------------------------------------

    async def telling(self, _: web.Request) -> web.Response:
        """The figures."""
        return _json(self._telling.status())

    async def webhook_key(self, request: web.Request) -> web.Response:
        """A receiver's key."""
        with _said(where="target"):
            target = self._telling.check(f"webhook:{request.query.get('target', '')}").partition(":")[2]
        return _json(answers.WebhookKey(target, self._telling.webhook_key(target)))

    async def telling_feed(self, request: web.Request) -> web.Response:
        """A feed's address."""
        feeds = self._telling.feeds
        if feeds is None:
            raise Refused(HTTPStatus.NOT_FOUND, "there are no feeds (telling.feeds.enabled)")
        url, who = request.query.get("url", ""), request.query.get("who", "")
        if bool(url) == bool(who):
            raise Refused(HTTPStatus.BAD_REQUEST, "give either url or who", where="url")
        with _said(where="url"):
            found = self._telling.feed_of(who) if who else feeds.channel_url(canonical(url))
        return _json(answers.FeedAddress(found))

    async def telling_export(self, request: web.Request) -> web.Response:
        """A subscriber's list."""
        who = request.query.get("who", "")
        found = sorted(self._telling.desk.subscriptions(who), key=lambda one: one.url)
        if not found:
            raise Refused(HTTPStatus.NOT_FOUND, f"'{who}' is subscribed to nothing", where="who")
        body = write_opml([(one.url, "") for one in found], title=f"Channels of {who}")
        return web.Response(body=body, content_type="text/x-opml", charset="utf-8")


class _said:  # noqa: N801  # reads as a sentence
    """Answers with what is wrong."""

    def __init__(self, *, where: str) -> None:
        self._where = where

    def __enter__(self) -> None:
        pass

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if isinstance(error, ChannelError):
            raise Refused(HTTPStatus.UNPROCESSABLE_ENTITY, str(error), where=self._where) from None


def _json(found: object) -> web.Response:
    return web.Response(body=msgspec.json.encode(found), content_type="application/json")
