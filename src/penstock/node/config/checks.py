"""Checks a whole configuration: problems that keep a node from starting, and warnings of likely mistakes."""

from __future__ import annotations

import re
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from penstock.core.channels.address import canonical
from penstock.errors import BadAddress, NodeError
from penstock.model.host import is_loopback
from penstock.mqtt.topics import overlap
from penstock.node.config import certificates, notify, slots
from penstock.node.config.problems import (
    ADDRESS,
    ANONYMOUS,
    Problem,
    filter_problems,
    network_problems,
    problem_with_hash,
    problem_with_name,
)
from penstock.policy.lint import lint
from penstock.policy.text.forms import parse

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.node.config.schema import Config, Listener

TOKEN_CHARACTERS: Final = 16
"""A shorter token can be guessed over the network within a year."""


def problems(config: Config) -> Iterator[Problem]:
    """Find what keeps a node from starting, in the order of the settings."""
    yield from _listeners(config)
    yield from _http(config)
    yield from _data(config)
    yield from _users(config)
    for number, rule in enumerate(config.acl):
        yield from filter_problems(f"acl[{number}].topic", rule.topic)
    for number, installed in enumerate(config.install):
        if installed.policy not in config.policies:
            near = get_close_matches(installed.policy, config.policies, n=1)
            yield Problem(
                f"install[{number}].policy",
                f"there is no policy '{installed.policy}'",
                allowed=", ".join(config.policies) or "none: `policies` is empty",
                near=near[0] if near else "",
            )
        yield from filter_problems(f"install[{number}].filter", installed.filter)
    for number, topic in enumerate(config.queues.ordered):
        yield from filter_problems(f"queues.ordered[{number}]", topic)
    for number, topic in enumerate(config.recorder.topics):
        yield from filter_problems(f"recorder.topics[{number}]", topic)
    yield from slots.problems(config.slots)
    yield from _channels(config)
    yield from notify.problems(
        config.notify,
        channels=config.channels.enabled,
        http=config.http.enabled,
        has_address=bool(config.http.base_url or config.http.port),
    )
    if config.streams != type(config.streams)():
        from penstock.node.config import stream_checks  # noqa: PLC0415  # most nodes have no streams

        yield from stream_checks.problems(config)
    if config.cluster != type(config.cluster)():
        from penstock.node.config import cluster_checks  # noqa: PLC0415  # most nodes are on their own

        yield from cluster_checks.problems(config.cluster)


def warnings(config: Config) -> Iterator[str]:
    """Find settings that work and are probably mistakes."""
    far = [listener for listener in config.listeners if not is_loopback(listener.host)]
    where = ", ".join(_shown(listener) for listener in far)
    certified = any(listener.client_ca for listener in config.listeners)
    if far and config.anonymous == "always":
        yield f"anonymous: always: whoever reaches {where} can connect without a password"
    if far and config.anonymous != "always" and not config.users and not certified:
        yield f"nobody can connect to {where} from another machine: there are no users"
    plain = ", ".join(_shown(listener) for listener in far if not listener.encrypted)
    if plain and config.users:
        yield f"passwords are sent unencrypted at {plain}; use kind: tls or websockets"
    if config.http.enabled and not is_loopback(config.http.host):
        yield f"http: the token is sent unencrypted at {config.http.host}:{config.http.port}"
    if config.http.token and len(config.http.token) < TOKEN_CHARACTERS:
        yield f"http.token: fewer than {TOKEN_CHARACTERS} characters can be guessed"
    if config.slots != type(config.slots)() and not any(listener.slots for listener in config.listeners):
        yield "slots: no listener has `slots: true`, so nothing is reserved"
    yield from slots.warnings(config.slots)
    if config.streams != type(config.streams)():
        from penstock.node.config import stream_checks  # noqa: PLC0415  # most nodes have no streams

        yield from stream_checks.warnings(config)
    if config.cluster.on:
        from penstock.node.config import cluster_checks  # noqa: PLC0415  # most nodes are on their own

        yield from cluster_checks.warnings(config.cluster)
    yield from _reordered(config)
    names = {user.name for user in config.users}
    for number, rule in enumerate(config.acl):
        if not certified and rule.user not in (*names, "*", ANONYMOUS):
            near = get_close_matches(rule.user, [*names, ANONYMOUS], n=1)
            hint = f" (did you mean '{near[0]}'?)" if near else ""
            yield f"acl[{number}].user: there is no user '{rule.user}'{hint}"


def _reordered(config: Config) -> Iterator[str]:
    """Warn of installed policies whose urgent events overtake others of topics that are declared ordered."""
    if not config.queues.ordered:
        return
    for number, installed in enumerate(config.install):
        text = config.policies.get(installed.policy)
        topics = [each for each in config.queues.ordered if overlap(each, installed.filter)]
        if text and topics:
            for warning in lint(parse(text), ordered=topics):
                if warning.startswith("urgent: its events overtake"):
                    yield f"install[{number}], policy {installed.policy}: {warning}"


def _shown(listener: Listener) -> str:
    return f"{listener.kind} {listener.host}:{listener.port}"


def _listeners(config: Config) -> Iterator[Problem]:
    if not config.listeners:
        yield Problem("listeners", "a node needs at least one")
    taken: dict[tuple[str, int], str] = {}
    for number, listener in enumerate(config.listeners):
        path = f"listeners[{number}]"
        yield from _port(taken, f"{path}.port", listener.host, listener.port)
        if not listener.host:
            yield Problem(f"{path}.host", "is empty", allowed=ADDRESS)
        if listener.websocket and not re.fullmatch(r"/[\w./~-]*", listener.path, re.ASCII):
            yield Problem(
                f"{path}.path", f"found {listener.path!r}", allowed="/ followed by characters of a URL path"
            )
        for place, origin in enumerate(listener.origins):
            if origin != "*" and not _is_origin(origin):
                yield Problem(
                    f"{path}.origins[{place}]",
                    f"found {origin!r}",
                    allowed="https://host, https://host:port, *",
                )
        yield from _tls(path, listener)
    if config.http.enabled:
        yield from _port(taken, "http.port", config.http.host, config.http.port)
    if config.streams.listen.enabled:
        listen = config.streams.listen
        yield from _port(taken, "streams.listen.port", listen.host, listen.port)


def _port(taken: dict[tuple[str, int], str], path: str, host: str, port: int) -> Iterator[Problem]:
    if port and (host, port) in taken:
        yield Problem(path, f"{host}:{port} is already used by {taken[host, port]}")
    taken[host, port] = path


def _is_origin(origin: str) -> bool:
    try:
        found = urlsplit(origin)
        port = found.port
    except ValueError:
        return False
    host = found.hostname or ""
    shown = f"[{host}]" if ":" in host else host
    return bool(host) and origin.lower() == f"{found.scheme}://{shown}{'' if port is None else f':{port}'}"


def _tls(path: str, listener: Listener) -> Iterator[Problem]:
    if not listener.encrypted:
        for name in ("certificate", "key", "client_ca"):
            if getattr(listener, name):
                yield Problem(
                    f"{path}.{name}",
                    f"is not used by a listener of kind {listener.kind}",
                    allowed="with kind: tls or websockets",
                )
        return
    if not listener.certificate:
        yield Problem(f"{path}.certificate", f"is required for a listener of kind {listener.kind}")
        return
    try:
        certificates.context(listener)
    except NodeError as error:
        yield Problem(f"{path}.certificate", str(error))


def _http(config: Config) -> Iterator[Problem]:
    http = config.http
    if http.enabled and not http.token and not is_loopback(http.host):
        yield Problem(
            "http.token", f"is required, because {http.host} is not a loopback address", allowed="a long text"
        )
    if http.token and not (http.token.isascii() and http.token.isprintable() and " " not in http.token):
        yield Problem(
            "http.token", "has characters that an HTTP header cannot carry", allowed="ASCII without spaces"
        )
    if not (http.contact.isprintable() and http.contact.isascii()):
        yield Problem("http.contact", "has characters that an HTTP header cannot carry", allowed="ASCII")
    if http.base_url:
        yield from _base_url(http.base_url)


def _base_url(base_url: str) -> Iterator[Problem]:
    try:
        if "?" in canonical(base_url) or "#" in base_url:
            yield Problem(
                "http.base_url",
                f"{base_url} has a query or a fragment",
                allowed="https://host or https://host/path",
            )
    except BadAddress as error:
        yield Problem("http.base_url", str(error))


def _data(config: Config) -> Iterator[Problem]:
    if config.data and Path(config.data).exists() and not Path(config.data).is_dir():
        yield Problem("data", f"{config.data} is not a folder")


def _channels(config: Config) -> Iterator[Problem]:
    channels = config.channels
    for name in ("allow_hosts", "deny_hosts"):
        for number, host in enumerate(getattr(channels, name)):
            if not re.fullmatch(r"(\*\.)?[\w.-]+|[0-9A-Fa-f:.]+", host):
                yield Problem(
                    f"channels.{name}[{number}]",
                    f"found {host!r}",
                    allowed="a host, as example.org or *.example.org",
                )
    polling = channels.polling
    if polling.most_s < polling.least_s:
        yield Problem(
            "channels.polling.most_s",
            f"{polling.most_s:g} is less than least_s, which is {polling.least_s:g}",
        )
    yield from network_problems("channels.polling.networks", polling.networks)
    if channels.log and not config.data:
        yield Problem("channels.log", "there is no data folder to write to", allowed="with `data`")


def _users(config: Config) -> Iterator[Problem]:
    seen: set[str] = set()
    for number, user in enumerate(config.users):
        path = f"users[{number}]"
        wrong = problem_with_name(user.name)
        if wrong:
            yield Problem(f"{path}.name", wrong)
        if user.name in seen:
            yield Problem(f"{path}.name", f"duplicate user '{user.name}'")
        seen.add(user.name)
        wrong = problem_with_hash(user.password)
        if wrong:
            yield Problem(f"{path}.password", wrong, allowed="the output of `penstock passwd`")
