"""WebSub over HTTP: the callbacks that hubs call, and the endpoint of the node's own hub."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING

from aiohttp import web

from penstock import limits
from penstock.core.channels.websub import FORM_TYPE
from penstock.errors import RequestRefused
from penstock.node.channels.websub import PATH
from penstock.node.http.replies import in_time

if TYPE_CHECKING:
    from penstock.node.channels.websub import WebSubSubscriber


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
