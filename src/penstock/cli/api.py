"""Sends requests to the HTTP API of a running node, and reports errors as InputError."""

from __future__ import annotations

from dataclasses import dataclass
from http import HTTPStatus
from http.client import BadStatusLine, HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from pathlib import Path
from typing import Annotated, Any, Final
from urllib.parse import urlencode, urlsplit

import msgspec
import typer

from penstock import limits
from penstock.cli.context.target import target
from penstock.cli.options import tls_context
from penstock.errors import InputError

SILENCE_S: Final = 20
"""Seconds without a byte from the node after which a request fails."""

ANSWER_BYTES: Final = 64 << 20
"""Longest answer that is read: the history of a channel with large changes needs the most."""

TokenOption = Annotated[
    str,
    typer.Option(
        "--token",
        envvar="PENSTOCK_TOKEN",
        metavar="TEXT",
        help="http.token of the node; that of the context if omitted.",
    ),
]


@dataclass(frozen=True, slots=True)
class ApiPlace:
    """The URL of one node's HTTP port in parts."""

    url: str
    secure: bool
    host: str
    port: int
    path: str


@dataclass(slots=True)
class ApiAddress:
    """The HTTP ports of a node, or of several nodes of a cluster, with the token for all of them."""

    places: list[ApiPlace]
    """The first is that of the node that has answered last."""
    token: str
    ca: str = ""

    @property
    def url(self) -> str:
        """URL of the node that requests go to."""
        return self.places[0].url

    @property
    def path(self) -> str:
        """The part of the URL's path before /api."""
        return self.places[0].path

    def connection(self) -> HTTPConnection:
        """Return a connection to the first node that lets one in.

        With one node it opens with its first request; with several InputError says why none of them does.
        """
        if len(self.places) == 1:
            return self._connection(self.places[0])
        problems = []
        for place in list(self.places):
            connection = self._connection(place)
            try:
                connection.connect()
            except OSError as error:
                connection.close()
                problems.append(f"{place.url}: {_reason(error)}")
                continue
            self.places.remove(place)
            self.places.insert(0, place)
            return connection
        raise InputError(f"no node answers: {'; '.join(problems)}", path="--node")

    def _connection(self, place: ApiPlace) -> HTTPConnection:
        if not place.secure:
            return HTTPConnection(place.host, place.port, timeout=SILENCE_S)
        trusted = tls_context(Path(self.ca)) if self.ca else None
        return HTTPSConnection(place.host, place.port, timeout=SILENCE_S, context=trusted)

    @property
    def headers(self) -> dict[str, str]:
        """Return the headers of every request."""
        return {"Authorization": f"Bearer {self.token}"} if self.token else {}


def api_address(node: str, token: str) -> ApiAddress:
    """Find the HTTP port of a node by the options --node and --token; InputError if one is wrong."""
    found = target(node, "http")
    if found.context is not None and not token:
        token = found.context.token()
    if not (token.isascii() and token.isprintable()):
        raise InputError("a token has only printable ASCII characters", path="--token")
    places = [_place(url) for url in found.url.split(",")]
    return ApiAddress(places, token, found.context.ca if found.context is not None else "")


def _place(url: str) -> ApiPlace:
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise InputError(f"'{url}' is not a URL: {error}", path="--node") from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise InputError(f"'{url}' should be like http://127.0.0.1:8080", path="--node")
    secure = parts.scheme == "https"
    usual = 443 if secure else 80
    return ApiPlace(url, secure, parts.hostname, usual if port is None else port, parts.path.rstrip("/"))


def ask(where: ApiAddress, path: str, body: dict[str, Any] | None = None) -> Any:
    """Send a request (POST if it has a body) and return the decoded answer; InputError if there is none."""
    try:
        return msgspec.json.decode(_answer(where, path, body))
    except msgspec.DecodeError:
        raise InputError(
            "the answer is not a node's; is this the URL of its HTTP port (--node)?", path=where.url
        ) from None


def ask_all(where: ApiAddress, name: str, **asked: str) -> dict[str, Any]:
    """Ask for all rows of a table, page by page; return the answer with all rows under their name."""
    rows: list[Any] = []
    while True:
        query = urlencode({"limit": limits.HTTP_ROWS, "offset": len(rows), **asked})
        found: dict[str, Any] = ask(where, f"/{name}?{query}")
        rows += found[name]
        if not found[name] or len(rows) >= found["total"]:
            return found | {name: rows}


def ask_text(where: ApiAddress, path: str) -> str:
    """Send a request whose answer is a text, and return it."""
    return _answer(where, path, None).decode(errors="replace")


def _answer(where: ApiAddress, path: str, body: dict[str, Any] | None) -> bytes:
    connection = where.connection()
    headers = dict(where.headers)
    data = None
    if body is not None:
        headers["Content-Type"] = "application/json"
        data = msgspec.json.encode(body)
    try:
        connection.request(
            "GET" if body is None else "POST", f"{where.path}/api/v1{path}", body=data, headers=headers
        )
        answer = connection.getresponse()
        if answer.status != HTTPStatus.OK:
            raise InputError(refusal(answer), path=where.url)
        return answer.read(ANSWER_BYTES)
    except (OSError, HTTPException) as error:
        raise unanswered(error, where) from None
    finally:
        connection.close()


def refusal(answer: HTTPResponse) -> str:
    """Return why a node refused a request, from its problem object."""
    try:
        hint = " (--token, PENSTOCK_TOKEN or a context)" if answer.status == HTTPStatus.UNAUTHORIZED else ""
        return str(msgspec.json.decode(answer.read(1 << 16))["detail"]) + hint
    except (msgspec.DecodeError, KeyError, TypeError):
        return f"answered {answer.status} {answer.reason}; is this the URL of a node's HTTP port (--node)?"


def unanswered(error: OSError | HTTPException, where: ApiAddress) -> InputError:
    """Return the error for a request that got no answer."""
    if isinstance(error, BadStatusLine):  # another protocol, or an end without a word
        return InputError(
            "no answer in HTTP; is that the port of MQTT? --node wants that of dashboard and API here "
            "(8080 by default)",
            path=where.url,
        )
    return InputError(f"no answer: {_reason(error)}; is the node up, and is --node right?", path=where.url)


def _reason(error: OSError | HTTPException) -> str:
    if isinstance(error, TimeoutError):
        return f"timeout after {SILENCE_S} seconds"
    found = error.strerror if isinstance(error, OSError) else None
    return found or str(error) or type(error).__name__
