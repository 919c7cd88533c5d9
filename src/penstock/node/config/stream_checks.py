"""Checks the section `streams`: problems that keep a node from starting, and warnings of likely mistakes."""

from __future__ import annotations

import ssl
from itertools import combinations
from typing import TYPE_CHECKING

from penstock import limits
from penstock.core.streams.log import safe_name
from penstock.errors import MqttError, NodeError, PolicyError, StreamError
from penstock.model.host import is_loopback
from penstock.mqtt.fields import check_name
from penstock.mqtt.topics import overlap
from penstock.node.config import certificates
from penstock.node.config.problems import ADDRESS, FILTER, Problem, filter_problems
from penstock.node.config.schema import Listener
from penstock.policy.content import ContentFilter

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.node.config.schema import Config
    from penstock.node.config.streams import Hosting, Neighbour, StreamListen, Streams


def problems(config: Config) -> Iterator[Problem]:
    """Find settings of `streams` that cannot work, in their order."""
    streams = config.streams
    yield from _hosts(streams)
    if streams.node:
        yield from _name("streams.node", streams.node)
    elif streams.neighbours:
        yield Problem(
            "streams.node", "is required, because there are neighbours", "a name that no other node has"
        )
    yield from _neighbours(streams, users=has_users(config))
    if streams.listen.enabled:
        yield from _listen(streams.listen)
    if not streams.nats.servers:
        yield Problem("streams.nats.servers", "is empty", "addresses, as nats://127.0.0.1:4222")
    if streams.nats.password and not streams.nats.user:
        yield Problem("streams.nats.user", "is required, because there is a password")
    try:
        streams.options()
    except StreamError as error:
        yield Problem("streams", str(error))


def has_users(config: Config) -> bool:
    """Return whether the names of those who connect are verified, by a password or a certificate."""
    return bool(config.users or config.streams.listen.client_ca)


def warnings(config: Config) -> Iterator[str]:
    """Find settings of `streams` that work and are probably mistakes."""
    streams, listen = config.streams, config.streams.listen
    if streams.host and not config.data:
        what = "messages are kept in memory and lost when the node stops"
        if streams.log == "nats":
            what = "positions of readers and writers are lost when the node stops"
        yield f"streams: there is no data folder, so {what}"
    if listen.enabled and not streams.on:
        yield "streams.listen: no stream is hosted and no neighbour is configured, so it has no use"
    if listen.enabled and not is_loopback(listen.host):
        where = f"streams.listen {listen.host}:{listen.port}"
        if config.anonymous == "always":
            yield f"anonymous: always: whoever reaches {where} can read and write streams without a password"
        elif not config.users and not listen.client_ca:
            yield f"nobody can connect to {where} from another machine: there are no users"
        if config.users and not listen.certificate:
            yield f"passwords are sent unencrypted at {where}; configure a certificate"
    for number, one in enumerate(streams.neighbours):
        if one.password and one.host and not one.ca and not is_loopback(one.host):
            yield f"streams.neighbours[{number}]: the password is sent unencrypted; configure ca"


def stream_problem(name: str, topics: tuple[str, ...]) -> str:
    """Return what is wrong with a stream that another node announces; empty if nothing is."""
    found = _name("its name", name), *(_filter(f"its topic {topic!r}", topic) for topic in topics)
    return next((f"{one.path}: {one.problem}" for each in found for one in each), "")


def _hosts(streams: Streams) -> Iterator[Problem]:
    seen: set[str] = set()
    for number, hosting in enumerate(streams.host):
        path = f"streams.host[{number}]"
        yield from _name(f"{path}.name", hosting.name)
        try:
            safe_name(hosting.name or "-")
        except NodeError as error:
            yield Problem(f"{path}.name", str(error))
        if hosting.name in seen:
            yield Problem(f"{path}.name", f"duplicate name {hosting.name!r}")
        seen.add(hosting.name)
        if not hosting.topics:
            yield Problem(f"{path}.topics", "a stream needs at least one topic filter", FILTER)
        for place, filter_ in enumerate(hosting.topics):
            yield from _filter(f"{path}.topics[{place}]", filter_)
    for one, other in combinations(enumerate(streams.host), 2):
        yield from _apart(one, other)


def _apart(one: tuple[int, Hosting], other: tuple[int, Hosting]) -> Iterator[Problem]:
    """Check that no topic belongs to two streams."""
    for mine in one[1].topics:
        for place, theirs in enumerate(other[1].topics):
            if overlap(mine, theirs):
                yield Problem(
                    f"streams.host[{other[0]}].topics[{place}]",
                    f"'{theirs}' and '{mine}' of stream {one[1].name!r} have topics in common",
                    "filters without common topics",
                )


def _neighbours(streams: Streams, *, users: bool) -> Iterator[Problem]:
    seen: set[str] = set()
    for number, one in enumerate(streams.neighbours):
        path = f"streams.neighbours[{number}]"
        yield from _name(f"{path}.name", one.name)
        if one.name in seen:
            yield Problem(f"{path}.name", f"duplicate name {one.name!r}")
        if one.name and one.name == streams.node:
            yield Problem(f"{path}.name", f"{one.name!r} is this node itself")
        seen.add(one.name)
        yield from _place(path, one, listening=streams.listen.enabled)
        if one.password and not one.user:
            yield Problem(f"{path}.user", "is required, because there is a password")
        elif users and not one.host and not one.user:
            what = "is required: there are users, who could all connect as this neighbour and read all"
            yield Problem(f"{path}.user", what, "the user name with which it connects")
        for place, filter_ in enumerate(one.only):
            yield from _filter(f"{path}.only[{place}]", filter_)
        if one.where:
            try:
                ContentFilter(one.where)
            except PolicyError as error:
                yield Problem(f"{path}.where", str(error), "a content filter, as `keep: {gt: 100}`")


def _place(path: str, one: Neighbour, *, listening: bool) -> Iterator[Problem]:
    if one.host and not one.port:
        yield Problem(
            f"{path}.port", f"is required to connect to {one.host}", "the port of its streams.listen"
        )
    if one.host and one.ca:
        try:
            ssl.create_default_context(cafile=one.ca)
        except (OSError, ValueError) as error:
            yield Problem(f"{path}.ca", f"{one.ca}: {error}", "a PEM file of certificate authorities")
    if one.host:
        return
    if not listening:
        yield Problem(
            f"{path}.host",
            "is empty, so the neighbour has to connect, but streams.listen is off",
            "its address",
        )
    for name in ("port", "ca", "password"):
        if getattr(one, name):
            yield Problem(f"{path}.{name}", "is only used with host: without it, the neighbour connects")


def _listen(listen: StreamListen) -> Iterator[Problem]:
    if not listen.host:
        yield Problem("streams.listen.host", "is empty", ADDRESS)
    if not listen.certificate:
        for name in ("key", "client_ca"):
            if getattr(listen, name):
                yield Problem(f"streams.listen.{name}", "is only used with a certificate", "with certificate")
        return
    try:
        certificates.context(
            Listener(kind="tls", certificate=listen.certificate, key=listen.key, client_ca=listen.client_ca)
        )
    except NodeError as error:
        yield Problem("streams.listen.certificate", str(error))


def _name(path: str, name: str) -> Iterator[Problem]:
    allowed = f"1 to {limits.STREAM_NAME_CHARS} printable characters"
    if not 0 < len(name) <= limits.STREAM_NAME_CHARS or not name.isprintable():
        yield Problem(path, f"found {name[:80]!r}", allowed)
        return
    try:
        check_name(name, where="")
    except MqttError as error:
        yield Problem(path, error.problem, allowed)


def _filter(path: str, found: str) -> Iterator[Problem]:
    wrong = list(filter_problems(path, found))
    yield from wrong
    if not wrong and found.startswith("$"):
        yield Problem(path, "topics that begin with $ belong to the node", FILTER)
