"""Topic names and topic filters: what is valid, which filter matches which name, which filters overlap.

`matches` is the readable definition of matching; `trees.py` finds the matching filters among many.
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
"""Prefix of the filter of a shared subscription."""

DIGEST_TOPICS: Final = "$digest/"
"""Prefix of the topics on which digests are told that do not come in the stream of their subscription."""

POLICY_TOPICS: Final = "$policies/"
"""Prefix of the topics on which publishers are told the policies of their receivers."""

_WILDCARD_WITHIN: Final = re.compile(r"[^/][+#]|[+#][^/]|#/")


class Shared(NamedTuple):
    """Parts of a filter: the members of a group share the matching messages."""

    group: str
    """Empty: not a shared subscription."""
    filter: str


def check_topic(topic: str, *, where: str = "PUBLISH topic") -> str:
    """Return the topic name if it is valid."""
    check_name(topic, where=where)
    if not topic:
        raise ProtocolError("empty; a topic has at least one character", where=where)
    if "+" in topic or "#" in topic:
        raise MqttError(
            f"wildcard in '{topic}'; only filters may have wildcards",
            where=where,
            reason=Reason.TOPIC_NAME_INVALID,
        )
    _check_size(topic, where, Reason.TOPIC_NAME_INVALID)
    return topic


def check_filter(filter_: str, *, where: str = "SUBSCRIBE filter") -> Shared:
    """Check a filter and split it into group and filter."""
    check_name(filter_, where=where)
    if not filter_:
        raise MalformedPacket("empty; a filter has at least one character", where=where)
    shared = shared_of(filter_)
    if filter_.startswith(SHARE) and (not shared.group or "+" in shared.group or "#" in shared.group):
        raise _bad_filter(f"'{filter_}' should be $share/group/filter, no wildcard in the group", where)
    if not shared.filter:
        raise _bad_filter(f"'{filter_}' has no filter after the group", where)
    if _WILDCARD_WITHIN.search(shared.filter):
        raise _bad_filter(f"'{filter_}': + and # must be whole levels, # the last one", where)
    _check_size(filter_, where, Reason.TOPIC_FILTER_INVALID)
    return shared


def shared_of(filter_: str) -> Shared:
    """Split a checked filter into group and filter."""
    if not filter_.startswith(SHARE):
        return Shared("", filter_)
    group, _, rest = filter_[len(SHARE) :].partition("/")
    return Shared(group, rest)


def matches(filter_: str, topic: str) -> bool:
    """Whether a filter (not a shared one) matches a topic name."""
    if topic.startswith("$") and filter_[0] in "+#":
        return False  # wildcards at the first level do not match $ topics [MQTT-4.7.2-1]
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


def covers(filter_: str, within: str) -> bool:
    """Whether every topic that matches the filter `within` matches `filter_`, too."""
    wanted, given = filter_.split("/"), within.split("/")
    if within.startswith("$") and wanted[0] in ("+", "#"):
        return False
    for depth, level in enumerate(wanted):
        if level == "#":
            return True
        if depth >= len(given) or given[depth] == "#" or level not in ("+", given[depth]):
            return False
    return len(wanted) == len(given)


def overlap(one: str, other: str) -> bool:
    """Whether some topic matches both filters; topics beginning with `$` are left aside."""
    levels = shared_of(one).filter.split("/"), shared_of(other).filter.split("/")
    for depth, (a, b) in enumerate(zip_longest(*levels)):
        if "#" in (a, b):
            # `/#` would also match its parent, but that is the empty name, no topic: `+` and `/#` do not
            # overlap.
            return not (None in (a, b) and depth == 1 and "" in (levels[0][0], levels[1][0]))
        if a is None or b is None or (a != b and "+" not in (a, b)):
            return False
    return True
