"""Every policy survives every form, exactly: also the type of each number and the order of everything."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import given

from penstock.policy import nodes
from penstock.policy.text import python_form
from penstock.policy.text.forms import parse, to_json, to_python, to_xml, to_yaml
from tests.kit.policies import policies

if TYPE_CHECKING:
    from penstock.policy.nodes import Policy


def same(one: Policy, other: Policy) -> bool:
    """Equal, and `1`, `1.0` and `true` told apart."""
    return one == other and repr(one) == repr(other)


@given(policies())
def test_yaml(policy: Policy) -> None:
    assert same(parse(to_yaml(policy)), policy)


@given(policies())
def test_json(policy: Policy) -> None:
    assert same(parse(to_json(policy)), policy)


@given(policies())
def test_json_in_one_line(policy: Policy) -> None:
    text = to_json(policy, compact=True)
    assert "\n" not in text
    assert same(parse(text), policy)


@given(policies())
def test_xml(policy: Policy) -> None:
    assert same(parse(to_xml(policy)), policy)


@given(policies())
def test_python(policy: Policy) -> None:
    assert same(evaluated(to_python(policy)), policy)


def evaluated(source: str) -> Policy:
    made = eval(source, {name: getattr(python_form, name) for name in ("policy", "drop", "keep", "when")})  # noqa: S307
    assert isinstance(made, nodes.Policy)
    return made
