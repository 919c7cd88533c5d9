"""Decides who may use the API and the dashboard, and tells browsers what a page may do.

With a token, every request must carry it in a header, except requests for the files of the dashboard and for
whether the node is well; no page of another site can make a browser send that header. Without a token the
server listens on loopback only, where the threat is a page of another site in the operator's own browser: its
requests have another Host (DNS rebinding), another Origin, or no JSON content type, and are refused for that.
"""

from __future__ import annotations

import hmac
import logging
from http import HTTPStatus
from importlib.resources import files
from typing import TYPE_CHECKING, Final
from urllib.parse import SplitResult, urlsplit

import msgspec
from aiohttp import web

from penstock.errors import RequestRefused
from penstock.model.host import is_loopback
from penstock.node.http.answers import Problem
from penstock.node.http.routes import HEALTHY, READY

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from penstock.node.config.schema import Http

_log = logging.getLogger(__name__)

OPEN: Final = {
    "/" if file.name == "index.html" else f"/{file.name}": file
    for file in sorted(files("penstock.node.http").joinpath("page").iterdir(), key=lambda file: file.name)
    if file.name.endswith((".html", ".css", ".js", ".svg"))
}
"""The files of the dashboard: they need no token, hold no secret, and ask the operator for the token."""

PUBLIC: Final = ("/feeds/", "/hub", "/websub/")
"""Paths for feed readers and hubs, which send no token: a secret word in the URL, or a request back to the
sender, protects them."""

_HEADERS: Final = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
    "Server": "penstock",
}
"""`trusted-types 'none'`: the browser never turns text, which may come from a client, into markup."""


class Guard:
    """Checks each request before its handler."""

    def __init__(self, http: Http) -> None:
        self.host = http.host.lower()
        self.token = http.token

    @web.middleware
    async def middleware(
        self, request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        """Check and handle a request; answer every error with a problem object."""
        try:
            self._check(request)
            response = await handler(request)
        except RequestRefused as refused:
            response = answer(refused)
        except web.HTTPException as error:  # aiohttp's own: no such path, wrong method, body too large
            response = answer(_translated(error, request))
        except web.RequestPayloadError as error:
            response = answer(
                RequestRefused(HTTPStatus.BAD_REQUEST, f"the body cannot be read: {error}", where="body")
            )
        except Exception as error:
            if isinstance(error, ConnectionError) or request.transport is None:
                return web.Response()  # the client is gone: this reaches nobody, and nothing is to be logged
            _log.exception("a bug: cannot answer %s %s", request.method, request.rel_url.raw_path)
            response = answer(
                RequestRefused(HTTPStatus.INTERNAL_SERVER_ERROR, "a bug in Penstock; see the log of the node")
            )
        if not response.prepared:
            for name, value in _HEADERS.items():
                response.headers.setdefault(name, value)
            if response.status == HTTPStatus.REQUEST_TIMEOUT or (self.token and not self._known(request)):
                # No connection is kept for a client without the token, nor behind a body without an end.
                response.force_close()
        return response

    def _check(self, request: web.Request) -> None:
        if request.path.startswith(PUBLIC):
            return
        if not self.token:
            self._check_host(request)
        elif request.path not in OPEN and request.path not in (HEALTHY, READY):
            self._check_token(request)
        if request.method not in ("GET", "HEAD"):
            _check_origin(request)
            # A form on another site can post to this address, but not as JSON without asking first (CORS).
            answered = request.match_info.http_exception is None  # else: no such path, or wrong method
            if answered and request.content_type != "application/json":
                raise RequestRefused(
                    HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
                    f"the body should be application/json, found {request.content_type}",
                    where="Content-Type",
                )

    def _check_host(self, request: web.Request) -> None:
        """Refuse DNS rebinding: a page whose name was made to point here sends that name as Host."""
        name = _site(f"//{request.host}").hostname or ""
        if not is_loopback(name) and name != self.host:
            raise RequestRefused(
                HTTPStatus.FORBIDDEN,
                f"without http.token in the configuration only loopback names are accepted, not '{name}'",
                where="Host",
            )

    def _check_token(self, request: web.Request) -> None:
        if self._known(request):
            return
        found = "a wrong token" if "Authorization" in request.headers else "no token"
        raise RequestRefused(
            HTTPStatus.UNAUTHORIZED,
            f"{found}; send `Authorization: Bearer …` with http.token of the node's configuration",
            where="Authorization",
            headers={"WWW-Authenticate": 'Bearer realm="penstock"'},
        )

    def _known(self, request: web.Request) -> bool:
        kind, _, given = request.headers.get("Authorization", "").partition(" ")
        shown = given.strip().encode("utf-8", "surrogateescape")  # as aiohttp decoded it
        return kind.lower() == "bearer" and hmac.compare_digest(shown, self.token.encode())


def answer(refused: RequestRefused) -> web.Response:
    """Make the answer to a refused request: a problem object (RFC 9457)."""
    status = HTTPStatus(refused.status)
    problem = Problem(
        title=status.phrase,
        status=status.value,
        detail=str(refused),
        where=refused.where,
        policy=refused.policy,
    )
    return web.Response(
        status=status,
        body=msgspec.json.encode(problem),
        content_type="application/problem+json",
        headers=refused.headers,
    )


def stream_headers() -> dict[str, str]:
    """Return the headers of an answer that is sent piece by piece."""
    return dict(_HEADERS)


def _site(text: str) -> SplitResult:
    try:
        return urlsplit(text)
    except ValueError:  # brackets that do not match
        return urlsplit("")


def _check_origin(request: web.Request) -> None:
    """Refuse requests from a page of another site; programs that are not browsers send no origin."""
    origin = request.headers.get("Origin")
    if request.headers.get("Sec-Fetch-Site", "same-origin") not in ("same-origin", "none"):
        origin = origin or "another site"
    elif origin is None or _site(origin).netloc == request.host:
        return
    raise RequestRefused(
        HTTPStatus.FORBIDDEN,
        f"the request comes from a page of {origin}, not from the dashboard",
        where="Origin",
    )


def _translated(error: web.HTTPException, request: web.Request) -> RequestRefused:
    if isinstance(error, web.HTTPNotFound):
        detail = "no such path; /api/v1/openapi.json lists all paths"
    elif isinstance(error, web.HTTPMethodNotAllowed):
        detail = (
            f"method {request.method} is not allowed; allowed: {', '.join(sorted(error.allowed_methods))}"
        )
    else:
        detail = error.text or error.reason
    headers = {"Allow": error.headers["Allow"]} if "Allow" in error.headers else {}
    return RequestRefused(HTTPStatus(error.status), detail, where=request.rel_url.raw_path, headers=headers)
