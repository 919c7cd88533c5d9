"""Problems with settings, and checks of single values: topic filters, networks, names and password hashes."""

from __future__ import annotations

import re
from ipaddress import ip_network
from typing import TYPE_CHECKING, Final, NamedTuple

from penstock import limits
from penstock.errors import MqttError
from penstock.mqtt.fields import check_name
from penstock.mqtt.topics import SHARE, check_filter

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

ANONYMOUS: Final = "anonymous"
"""Name that stands for clients without a user name in a rule of the access list."""

FILTER: Final = "a topic filter, as ward/+/pulse or ward/#"
ADDRESS: Final = "an address; 0.0.0.0 or :: for all"


class Problem(NamedTuple):
    """Something wrong with one setting."""

    path: str
    problem: str
    allowed: str = ""
    near: str = ""


def filter_problems(path: str, found: str) -> Iterator[Problem]:
    """Check a topic filter."""
    try:
        check_filter(found, where="")
    except MqttError as error:
        yield Problem(path, error.problem, FILTER)
        return
    if found.startswith(SHARE):
        yield Problem(
            path, "shared subscriptions are not allowed here", "the filter without $share and group"
        )


def network_problems(path: str, found: Iterable[str]) -> Iterator[Problem]:
    """Check a list of networks."""
    for number, network in enumerate(found):
        try:
            ip_network(network)
        except ValueError as error:
            yield Problem(f"{path}[{number}]", str(error), "as 192.168.0.0/16")


def problem_with_name(name: str) -> str:
    """Return why a user cannot have a name; empty if one can."""
    if not name or name in ("*", ANONYMOUS) or re.search(r'[+#/"\\]', name):
        return f'{name!r} is not a valid user name: not empty, not * or {ANONYMOUS}, and without + # / " \\'
    try:
        check_name(name, where="")
    except MqttError as error:
        return error.problem
    return ""


def problem_with_hash(hash_: str) -> str:
    """Return what is wrong with the hash of a password; empty if nothing is."""
    import argon2  # noqa: PLC0415  # a node without users does not need it

    try:
        costs = argon2.extract_parameters(hash_)
    except argon2.exceptions.InvalidHashError:
        return "is not an argon2 hash"
    if costs.memory_cost > limits.ARGON2_KIB or costs.time_cost > limits.ARGON2_ROUNDS:
        return (
            f"costs {costs.memory_cost} KiB and {costs.time_cost} rounds a check; "
            f"at most {limits.ARGON2_KIB} KiB and {limits.ARGON2_ROUNDS} rounds"
        )
    return ""
