"""Reads lines of syslog (RFC 5424 and RFC 3164) as the access points of a campus send them."""

from __future__ import annotations

import re
from dataclasses import dataclass

LONGEST = 2_048
"""Bytes of a line: RFC 5424 has receivers take 2,048."""
KINDS = {3: "Error", 4: "Warning", 6: "Info"}
"""Severities that access points use, by the last three bits of the priority."""

_NEW = re.compile(
    r"<(?P<priority>\d{1,3})>1 (?P<time>\S{1,64}) (?P<host>\S{1,255}) \S{1,48} \S{1,128} \S{1,32} "
    r"(?:-|(?:\[[^\]]*\])+)(?: (?P<text>.*))?"
)
_OLD = re.compile(
    r"<(?P<priority>\d{1,3})>(?P<time>[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d) (?P<host>\S{1,255}) "
    r"[\w./-]{1,32}(?:\[\d{1,10}\])?: (?P<text>.*)"
)
_STATION = re.compile(
    r"station (?P<station>[0-9a-f]{2}(?::[0-9a-f]{2}){5}|AP-[\w-]{1,32}) "
    r"(?P<action>[A-Za-z][A-Za-z ]{0,40}?)(?: ip=(?P<ip>\d{1,3}(?:\.\d{1,3}){3}))?"
)


@dataclass(frozen=True, slots=True)
class Refused(Exception):
    """A line that is not taken."""

    reason: str


def event_of(line: bytes) -> dict[str, str | None]:
    """The event of a line, as the locator's policy reads it; raises Refused."""
    if len(line) > LONGEST:
        raise Refused("too long")
    try:
        text = line.decode("utf-8").removeprefix("\ufeff").rstrip("\r\n\0")
    except UnicodeDecodeError:
        raise Refused("not UTF-8") from None
    found = _NEW.fullmatch(text) or _OLD.fullmatch(text)
    if found is None:
        raise Refused("not syslog")
    priority = int(found["priority"])
    kind = KINDS.get(priority & 7)
    if priority > 191 or kind is None:
        raise Refused("unknown priority")
    said = _STATION.fullmatch(found["text"] or "")
    if said is None:
        raise Refused("unknown message")
    return {
        "ap": found["host"],
        "host": said["station"],
        "message_type": kind,
        "action": said["action"],
        "ip": said["ip"],
    }
