"""Valid requests of the HTTP API, made from its table of routes, with bodies."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from penstock.node.http.channels.routes import CHANNEL_ROUTES
from penstock.node.http.notify import ROUTES as NOTIFY_ROUTES
from penstock.node.http.routes import API, ROUTES
from penstock_lab.experiments.fuzz.exchange import INTEGERS
from penstock_lab.experiments.fuzz.targets.mqtt import CLIENTS, FILTERS, POLICIES, TOPICS

if TYPE_CHECKING:
    from random import Random

    from penstock.node.http.routes import Parameter, Route

_ALL: Final = (*ROUTES, *CHANNEL_ROUTES, *NOTIFY_ROUTES)
_FILES: Final = ("/", "/index.html", "/app.js", f"{API}/openapi.json", "/feeds/x", "/hub", "/none")
_TEXTS: Final = ("a", "", "ü", "..", "%00", "x" * 300, *CLIENTS[1:3], *FILTERS[:3])
_NUMBERS: Final = ("0", "1", "100", "-1", "1e9", "9" * 30, "nan", "", "x", "2147483648")
TOKENS: Final = (
    b"\r\n",
    b"\r\n\r\n",
    b"%",
    b"%ff",
    b"?",
    b"&",
    b"{",
    b'"',
    b"\\ud800",
    b"1e999",
    b"[" * 2000,
    b"null",
    b"Content-Length: 5\r\n",
    b"Transfer-Encoding: chunked\r\n",
    b"Transfer-Encoding: gzip, chunked\r\n",
    b"Content-Encoding: deflate\r\n",
    b"Expect: 100-continue\r\n",
    b"Host: evil.example\r\n",
    b"Host: [::1\r\n",
    b"Origin: null\r\n",
    b"Upgrade: websocket\r\nConnection: Upgrade\r\n",
    b"Content-Type: multipart/form-data; boundary=x\r\n",
    b"Content-Type: text/plain; charset=none\r\n",
    b"Authorization: Bearer \xff\r\n",
    b"Range: bytes=0-\r\n",
)


def valid(dice: Random) -> list[bytes]:
    """Return one to four requests on one connection, heads and bodies as pieces of their own."""
    found: list[bytes] = []
    for _ in range(dice.randint(1, 4)):
        found += _file(dice) if dice.random() < 0.1 else _call(dice.choice(_ALL), dice)
    return found


def _file(dice: Random) -> list[bytes]:
    return [
        f"{dice.choice(('GET', 'HEAD'))} {dice.choice(_FILES)} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()
    ]


def _call(route: Route, dice: Random) -> list[bytes]:
    path, asked = route.path, []
    for parameter in route.parameters:
        value = quote(_value(parameter, dice), safe="")
        if parameter.in_path:
            path = path.replace(f"{{{parameter.name}}}", value or "x")
        elif parameter.required or dice.random() < 0.5:
            asked.append(f"{parameter.name}={value}")
    target = path + ("?" + "&".join(asked) if asked else "")
    head = f"{route.method} {target} HTTP/1.{dice.choice('1110')}\r\nHost: localhost\r\n"
    if route.body is None and route.method == "GET":
        return [head.encode() + b"\r\n"]
    body = json.dumps(_body(route, dice)).encode()
    head += "Content-Type: application/json\r\n"
    if dice.random() < 0.2:
        cut = dice.randrange(len(body) + 1)
        chunks = b"".join(
            b"%x\r\n%s\r\n" % (len(part), part) for part in (body[:cut], body[cut:], b"") if part or not body
        )
        return [head.encode() + b"Transfer-Encoding: chunked\r\n\r\n", chunks, b"0\r\n\r\n"]
    return [head.encode() + b"Content-Length: %d\r\n\r\n" % len(body), body]


def _value(parameter: Parameter, dice: Random) -> str:
    if parameter.choices and dice.random() < 0.8:
        return dice.choice(parameter.choices)
    return dice.choice(_NUMBERS if parameter.kind == "integer" else _TEXTS)


def _body(route: Route, dice: Random) -> Any:
    """A body that the route may take; values are odd now and then, as everybody's are."""
    known: dict[str, Any] = {
        "policy": dice.choice((*POLICIES, "", None)),
        "filter": dice.choice(FILTERS),
        "client_id": dice.choice(CLIENTS),
        "topic": dice.choice((*TOPICS, "#", "$SYS/x")),
        "payload": dice.choice(("", "12", "ü" * 100)),
        "qos": dice.randrange(4),
        "retain": dice.random() < 0.2,
        "events": dice.choice((1, 10, 0, 10**9)),
        "seconds": dice.choice((0.01, 0.05, 0, -1)),
        "url": dice.choice(("http://127.0.0.1:1/", "http://[", "x")),
        "who": dice.choice(("webhook:http://127.0.0.1:1/", "xmpp:", "x")),
        "paused": dice.random() < 0.5,
        "every_s": dice.choice((None, 60, -1)),
        "rules": dice.choice((None, {}, {"css": "p"}, {"ignore": ["["]})),
        "opml": dice.choice(("", "<opml/>", "<opml><body><outline xmlUrl='x'/></body></opml>")),
    }
    if route.body is None:
        return {}
    return {name: known.get(name, 1) for name in route.body.__struct_fields__ if dice.random() < 0.9}


_LENGTH: Final = re.compile(rb"(?i)(content-length: *)(\d+)")


def lengths(piece: bytes, dice: Random) -> bytes:
    """Announce another length of the body, or of a chunk."""
    size = dice.choice((b"", b"-1", b"0x10", b"1_0", b"%d" % dice.choice(INTEGERS), b"9" * 40))
    if _LENGTH.search(piece):
        return _LENGTH.sub(lambda found: found[1] + size, piece, count=1)
    return re.sub(rb"^[0-9a-f]+\r\n", dice.choice((b"ffffffff", b"-1", b"", size)) + b"\r\n", piece)
