"""Requests to the HTTP API of a running node: its address, the answers, and errors instead of answers."""

from __future__ import annotations

from dataclasses import dataclass
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from typing import Annotated, Any, Final
from urllib.parse import urlencode, urlsplit

import msgspec
import typer

from penstock import limits
from penstock.errors import InputError

SILENCE_S: Final = 20
"""A node that says nothing for so long is asked again."""

ANSWER_BYTES: Final = 64 << 20
"""The longest answer that is read: the history of a channel whose changes are large."""

API_URL: Final = "http://127.0.0.1:8080"

ApiOption = Annotated[
    str, typer.Option("--url", envvar="PENSTOCK_WINDOW", metavar="URL", help="Where the node's window is.")
]
TokenOption = Annotated[
    str, typer.Option("--token", envvar="PENSTOCK_TOKEN", help="http.token of the node's configuration.")
]


@dataclass(frozen=True, slots=True)
class ApiAddress:
    """A node's window."""

    url: str
    secure: bool
    host: str
    port: int
    path: str
    token: str

    def connection(self) -> HTTPConnection:
        """A connection that is not open yet."""
        kind = HTTPSConnection if self.secure else HTTPConnection
        return kind(self.host, self.port, timeout=SILENCE_S)

    @property
    def headers(self) -> dict[str, str]:
        """Of every question."""
        return {"Authorization": f"Bearer {self.token}"} if self.token else {}


def api_address(url: str, token: str) -> ApiAddress:
    """The options, read."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise InputError(f"'{url}' is no address: {error}", path="--url") from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise InputError(f"'{url}' should be like {API_URL}", path="--url")
    if not (token.isascii() and token.isprintable()):
        raise InputError("a token is made of ASCII letters, digits and signs", path="--token")
    secure = parts.scheme == "https"
    usual = 443 if secure else 80
    return ApiAddress(
        url, secure, parts.hostname, usual if port is None else port, parts.path.rstrip("/"), token
    )


def ask(where: ApiAddress, path: str, body: dict[str, Any] | None = None) -> Any:
    """The answer to a question, POST if it has a body; InputError says why there is none."""
    try:
        return msgspec.json.decode(_answer(where, path, body))
    except msgspec.DecodeError:
        raise InputError(
            "the answer is not a node's; is this the address of its window?", path=where.url
        ) from None


def ask_all(where: ApiAddress, name: str, **asked: str) -> dict[str, Any]:
    """The answer to a question about a table of the node, with all its rows under their name."""
    rows: list[Any] = []
    while True:
        query = urlencode({"limit": limits.HTTP_ROWS, "offset": len(rows), **asked})
        found: dict[str, Any] = ask(where, f"/{name}?{query}")
        rows += found[name]
        if not found[name] or len(rows) >= found["total"]:
            return found | {name: rows}


def ask_text(where: ApiAddress, path: str) -> str:
    """The same for an answer that is a text."""
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
    """What a node says instead of an answer."""
    try:
        return str(msgspec.json.decode(answer.read(1 << 16))["detail"])
    except (msgspec.DecodeError, KeyError, TypeError):
        return f"answered {answer.status} {answer.reason}; is this the address of a node's window?"


def unanswered(error: OSError | HTTPException, where: ApiAddress) -> InputError:
    """There is no answer."""
    return InputError(f"no answer: {_reason(error)}; is the node up?", path=where.url)


def _reason(error: OSError | HTTPException) -> str:
    if isinstance(error, TimeoutError):
        return f"nothing came within {SILENCE_S} seconds"
    found = error.strerror if isinstance(error, OSError) else None
    return found or str(error) or type(error).__name__
