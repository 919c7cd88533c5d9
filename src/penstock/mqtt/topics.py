"""Topic names and topic filters: what is valid, which filter matches which name, which filters overlap.

`matches` is the definition of matching, written to be read; `trees.py` finds all matching filters of many at
once.
"""

from __future__ import annotations

import re
from itertools import zip_longest
from typing import Final, NamedTuple

from penstock import limits
from penstock.errors import MalformedPacket, MqttError, ProtocolError
from penstock.mqtt.codes import Reason
from penstock.mqtt.fields import TEXT_BYTES, check_name

SHARE: Final = "$share/"
"""What a shared subscription's filter begins with."""

DIGEST_TOPICS: Final = "$digest/"
"""Prefix of digest topics for clients of MQTT 3.1.1, which has no user properties to mark a digest."""

_WILDCARD_WITHIN: Final = re.compile(r"[^/][+#]|[+#][^/]|#/")


class Shared(NamedTuple):
    """A filter taken apart: members of a group share what matches."""

    group: str
    """Empty: not shared."""
    filter: str


def check_topic(topic: str, *, where: str = "PUBLISH topic") -> str:
    """The same text, if it is a topic name."""
    check_name(topic, where=where)
    if not topic:
        raise ProtocolError("empty; a topic has at least one character", where=where)
    if "+" in topic or "#" in topic:
        raise MqttError(
            f"wildcard in '{topic}'; only filters have them",
            where=where,
            reason=Reason.TOPIC_NAME_INVALID,
        )
    _check_size(topic, where, Reason.TOPIC_NAME_INVALID)
    return topic


def check_filter(filter_: str, *, where: str = "SUBSCRIBE filter") -> Shared:
    """A filter taken apart, if it is one."""
    check_name(filter_, where=where)
    if not filter_:
        raise MalformedPacket("empty; a filter has at least one character", where=where)
    shared = shared_of(filter_)
    if filter_.startswith(SHARE) and (not shared.group or "+" in shared.group or "#" in shared.group):
        raise _bad_filter(f"'{filter_}' should be $share/group/filter, no wildcard in the group", where)
    if not shared.filter:
        raise _bad_filter(f"'{filter_}' names no filter behind its group", where)
    if _WILDCARD_WITHIN.search(shared.filter):
        raise _bad_filter(f"'{filter_}': + and # stand for whole levels, # only for the last", where)
    _check_size(filter_, where, Reason.TOPIC_FILTER_INVALID)
    return shared


def shared_of(filter_: str) -> Shared:
    """A checked filter taken apart."""
    if not filter_.startswith(SHARE):
        return Shared("", filter_)
    group, _, rest = filter_[len(SHARE) :].partition("/")
    return Shared(group, rest)


def matches(filter_: str, topic: str) -> bool:
    """Whether a filter (not a shared one) matches a topic name."""
    if topic.startswith("$") and filter_[0] in "+#":
        return False  # [MQTT-4.7.2-1]
    wanted = filter_.split("/")
    given = topic.split("/")
    if wanted[-1] == "#":
        wanted.pop()
        if len(given) < len(wanted):
            return False
        del given[len(wanted) :]
    return len(wanted) == len(given) and all(
        one in ("+", other) for one, other in zip(wanted, given, strict=True)
    )


def _bad_filter(problem: str, where: str) -> MqttError:
    return MqttError(problem, where=where, reason=Reason.TOPIC_FILTER_INVALID)


def _check_size(text: str, where: str, reason: Reason) -> None:
    levels = text.count("/") + 1
    if levels > limits.MQTT_TOPIC_LEVELS:
        raise MqttError(f"{levels} levels; at most {limits.MQTT_TOPIC_LEVELS}", where=where, reason=reason)
    if len(text.encode()) > TEXT_BYTES:
        raise MqttError(f"longer than {TEXT_BYTES} bytes", where=where, reason=reason)


def overlap(one: str, other: str) -> bool:
    """Whether there is a topic that both filters match, those that begin with `$` aside."""
    levels = shared_of(one).filter.split("/"), shared_of(other).filter.split("/")
    for depth, (a, b) in enumerate(zip_longest(*levels)):
        if "#" in (a, b):
            # `/#` has the empty topic above it, which is none, so `+` has nothing in common with it.
            return not (None in (a, b) and depth == 1 and "" in (levels[0][0], levels[1][0]))
        if a is None or b is None or (a != b and "+" not in (a, b)):
            return False
    return True
