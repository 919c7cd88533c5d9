"""Checks of the settings of streams: errors for what cannot work, warnings for what is surely not meant."""

from __future__ import annotations

import ssl
from itertools import combinations
from typing import TYPE_CHECKING, TypeAlias

from penstock import limits
from penstock.core.streams.log import safe_name
from penstock.errors import MqttError, NodeError, PolicyError, StreamError
from penstock.model.host import is_loopback
from penstock.mqtt.fields import check_name
from penstock.mqtt.topics import SHARE, check_filter, overlap
from penstock.node.config import certificates
from penstock.node.config.schema import Listener
from penstock.policy.content import ContentFilter

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.node.config.schema import Config
    from penstock.node.config.streams import Hosting, Neighbour, StreamListen, Streams

FoundProblem: TypeAlias = tuple[str, str, str]
"""A setting, what is wrong with it, and what it may be."""

_FILTER = "a topic filter, as ward/+/pulse or ward/#"


def problems(config: Config) -> Iterator[FoundProblem]:
    """In the order of the settings."""
    streams = config.streams
    yield from _hosts(streams)
    if streams.node:
        yield from _name("streams.node", streams.node)
    elif streams.neighbours:
        yield "streams.node", "is needed, because there are neighbours", "a name that no other node has"
    yield from _neighbours(streams, users=has_users(config))
    if streams.listen.enabled:
        yield from _door(streams.listen)
    if not streams.nats.servers:
        yield "streams.nats.servers", "there is none", "addresses, as nats://127.0.0.1:4222"
    if streams.nats.password and not streams.nats.user:
        yield "streams.nats.user", "is needed for the password", ""
    try:
        streams.options()
    except StreamError as error:
        yield "streams", str(error), ""


def has_users(config: Config) -> bool:
    """Whether callers of the door have names that they cannot choose: by a password or a certificate."""
    return bool(config.users or config.streams.listen.client_ca)


def warnings(config: Config) -> Iterator[str]:
    """What works and is surely not meant."""
    streams, door = config.streams, config.streams.listen
    if streams.host and not config.data:
        what = "what is published is in memory and ends with the node"
        if streams.log == "nats":
            what = "places of readers, and what writers may send again, are forgotten with the node"
        yield f"streams: there is no data folder, so {what}"
    if door.enabled and not streams.on:
        yield "streams.listen: there is nothing to be had there: no stream is hosted, no neighbour is named"
    if door.enabled and not is_loopback(door.host):
        where = f"streams.listen {door.host}:{door.port}"
        if config.anonymous == "always":
            yield f"anonymous: always: whoever reaches {where} can read and write streams without a password"
        elif not config.users and not door.client_ca:
            yield f"nobody can connect to {where} from another machine: there are no users"
        if config.users and not door.certificate:
            yield f"passwords cross the network readable at {where}; a certificate encrypts them"
    for number, one in enumerate(streams.neighbours):
        if one.password and one.host and not one.ca and not is_loopback(one.host):
            yield f"streams.neighbours[{number}]: the password crosses the network readable; ca encrypts it"


def stream_problem(name: str, topics: tuple[str, ...]) -> str:
    """What is wrong with a stream that another node tells of; empty: nothing."""
    found = _name("its name", name), *(_filter(f"its topic {topic!r}", topic) for topic in topics)
    return next((f"{path}: {what}" for each in found for path, what, _ in each), "")


def _hosts(streams: Streams) -> Iterator[FoundProblem]:
    seen: set[str] = set()
    for number, hosting in enumerate(streams.host):
        path = f"streams.host[{number}]"
        yield from _name(f"{path}.name", hosting.name)
        try:
            safe_name(hosting.name or "-")
        except NodeError as error:
            yield f"{path}.name", str(error), ""
        if hosting.name in seen:
            yield f"{path}.name", f"{hosting.name!r} stands twice", ""
        seen.add(hosting.name)
        if not hosting.topics:
            yield f"{path}.topics", "a stream needs at least one", _FILTER
        for place, filter_ in enumerate(hosting.topics):
            yield from _filter(f"{path}.topics[{place}]", filter_)
    for one, other in combinations(enumerate(streams.host), 2):
        yield from _apart(one, other)


def _apart(one: tuple[int, Hosting], other: tuple[int, Hosting]) -> Iterator[FoundProblem]:
    """A message goes into one stream."""
    for mine in one[1].topics:
        for place, theirs in enumerate(other[1].topics):
            if overlap(mine, theirs):
                yield (
                    f"streams.host[{other[0]}].topics[{place}]",
                    f"'{theirs}' and '{mine}' of stream {one[1].name!r} have topics in common",
                    "filters of which no topic matches two",
                )


def _neighbours(streams: Streams, *, users: bool) -> Iterator[FoundProblem]:
    seen: set[str] = set()
    for number, one in enumerate(streams.neighbours):
        path = f"streams.neighbours[{number}]"
        yield from _name(f"{path}.name", one.name)
        if one.name in seen:
            yield f"{path}.name", f"{one.name!r} stands twice", ""
        if one.name and one.name == streams.node:
            yield f"{path}.name", f"{one.name!r} is this node itself", ""
        seen.add(one.name)
        yield from _place(path, one, listening=streams.listen.enabled)
        if one.password and not one.user:
            yield f"{path}.user", "is needed for the password", ""
        elif users and not one.host and not one.user:
            what = "is needed: there are users, any of whom could come as this neighbour and get every stream"
            yield f"{path}.user", what, "the user as whom it calls"
        for place, filter_ in enumerate(one.only):
            yield from _filter(f"{path}.only[{place}]", filter_)
        if one.where:
            try:
                ContentFilter(one.where)
            except PolicyError as error:
                yield f"{path}.where", str(error), "a content filter, as `keep: {gt: 100}`"


def _place(path: str, one: Neighbour, *, listening: bool) -> Iterator[FoundProblem]:
    if one.host and not one.port:
        yield f"{path}.port", f"is needed to call {one.host}", "the port of its streams.listen"
    if one.host and one.ca:
        try:
            ssl.create_default_context(cafile=one.ca)
        except (OSError, ValueError) as error:
            yield f"{path}.ca", f"{one.ca}: {error}", "a PEM file of authorities"
    if one.host:
        return
    if not listening:
        yield f"{path}.host", "is empty, so it must call, and streams.listen is off", "its address"
    for name in ("port", "ca", "password"):
        if getattr(one, name):
            yield f"{path}.{name}", "is for calling, and without host it is the other that calls", ""


def _door(door: StreamListen) -> Iterator[FoundProblem]:
    if not door.host:
        yield "streams.listen.host", "is empty", "an address; 0.0.0.0 or :: for all"
    if not door.certificate:
        for name in ("key", "client_ca"):
            if getattr(door, name):
                yield f"streams.listen.{name}", "is of no use without a certificate", "with certificate"
        return
    try:
        certificates.context(
            Listener(kind="tls", certificate=door.certificate, key=door.key, client_ca=door.client_ca)
        )
    except NodeError as error:
        yield "streams.listen.certificate", str(error), ""


def _name(path: str, name: str) -> Iterator[FoundProblem]:
    allowed = f"1 to {limits.STREAM_NAME_CHARS} characters that can be printed"
    if not 0 < len(name) <= limits.STREAM_NAME_CHARS or not name.isprintable():
        yield path, f"found {name[:80]!r}", allowed
        return
    try:
        check_name(name, where="")
    except MqttError as error:
        yield path, error.problem, allowed


def _filter(path: str, found: str) -> Iterator[FoundProblem]:
    try:
        check_filter(found, where="")
    except MqttError as error:
        yield path, error.problem, _FILTER
        return
    if found.startswith(SHARE):
        yield path, "a shared subscription has no place here", "the filter behind its group"
    elif found.startswith("$"):
        yield path, "topics that begin with $ are the node's own", _FILTER
