"""YAML: words without quotes mean what YAML 1.2 says, and nothing but plain data is read."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import pytest
import yaml
from hypothesis import given

from penstock import limits
from penstock.errors import PolicyError
from penstock.policy.text import tree, yaml_form
from penstock.policy.text.forms import parse, to_yaml
from penstock.policy.text.python_form import drop, policy
from penstock.policy.text.yaml_form import _scalar
from tests.kit.policies import policies, scalars, texts

if TYPE_CHECKING:
    from penstock.model.values import Scalar
    from penstock.policy.nodes import Policy


def value(text: str) -> object:
    found = yaml_form.tree_of(text)
    assert isinstance(found, tree.LeafNode)
    return found.value


def refused(text: str) -> str:
    with pytest.raises(PolicyError) as caught:
        yaml_form.tree_of(text)
    return str(caught.value)


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        *((word, word) for word in ("NO", "no", "on", "off", "yes", "y", "n", "1_000", "12:30:00", "0b1")),
        *((word, word) for word in ("2024-01-01", "1e", "e3", ".", "+.nan", "nan", "inf", "0o8", "0x")),
        *((word, True) for word in ("true", "True", "TRUE")),
        *((word, False) for word in ("false", "False", "FALSE")),
        *((word, None) for word in ("null", "Null", "NULL", "~")),
        ("5", 5), ("-5", -5), ("+5", 5), ("010", 10), ("0o17", 15), ("0x1F", 31),
        ("1e3", 1000.0), ("1.5", 1.5), (".5", 0.5), ("5.", 5.0), ("-1.5E-3", -0.0015),
        (".inf", math.inf), ("-.Inf", -math.inf),
        ('"5"', "5"), ("'true'", "true"), ('""', ""), ("|\n a\n", "a\n"),
    ],
)  # fmt: skip
def test_words(word: str, expected: object) -> None:
    found = value(word)
    assert type(found) is type(expected)
    assert found == expected


def test_not_a_number() -> None:
    found = value(".NaN")
    assert isinstance(found, float)
    assert math.isnan(found)


def test_places_and_duplicates_are_kept() -> None:
    found = yaml_form.tree_of("a: 1\nb:\n  - x\n  - {c: y}\na: 2\n")
    assert isinstance(found, tree.MapNode)
    assert [(entry.key, str(entry.place), str(entry.value.place)) for entry in found.entries] == [
        ("a", "line 1, column 1", "line 1, column 4"),
        ("b", "line 2, column 1", "line 3, column 3"),
        ("a", "line 5, column 1", "line 5, column 4"),
    ]


def test_keys_are_texts() -> None:
    found = yaml_form.tree_of("{1.0: a, true: b, ~: c}")
    assert isinstance(found, tree.MapNode)
    assert [entry.key for entry in found.entries] == ["1.0", "true", "~"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("a: &x 1", "1:4: the anchor 'x' is not supported"),
        ("a: &x {}", "1:4: the anchor 'x' is not supported"),
        ("a: *x", "1:4: the alias 'x' is not supported"),
        ("a: !!python/object:os.system x", "1:4: the tag 'tag:yaml.org,2002:python/object:os.system' is not"),
        ("a: !!str 5", "1:4: the tag 'tag:yaml.org,2002:str' is not supported; put a text into quotes"),
        ("! a", "1:1: the tag '!' is not supported"),
        ("<<: {a: 1}", "1:1: the merge key << is not supported"),
        ("a: 1\n---\nb: 2", "2:1: a second document begins; only one is allowed"),
        ("? " * 9999, "1:3: a key must be a text, found a collection"),
        ("? [a]\n: b", "1:3: a key must be a text, found a collection"),
        ("a:\n\t- b", "2:1: not YAML: "),
        ("a: [b", "not YAML: did not find expected ',' or ']'"),
        ("a: 'b", "1:6: not YAML: "),
        ("a: \x07", "1:4: the character '\\x07' must be written as an escape in double quotes"),
        ("a: b\n\ufffe: c", "2:1: the character '\\ufffe' must be"),
        ('"\\U00110000"', "not YAML: "),
    ],
)
def test_refused(text: str, says: str) -> None:
    assert says in refused(text)


@pytest.mark.parametrize("opening", ["[", "{a: ", "- "])
def test_depth(opening: str) -> None:
    assert f"nested more than {limits.POLICY_DEPTH} deep" in refused(opening * 10_000)


@pytest.mark.parametrize("loader", [yaml.CSafeLoader, yaml.SafeLoader])
@given(policies())
def test_both_parsers_read_the_same(loader: object, policy: Policy) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(yaml_form, "_LOADER", loader)
        assert repr(parse(to_yaml(policy))) == repr(policy)


@given(scalars())
def test_scalars_survive(scalar: Scalar) -> None:
    found = value(_scalar(scalar))
    assert type(found) is type(scalar)
    assert found == scalar


@given(texts())
def test_other_programs_read_texts_as_texts(text: str) -> None:
    """YAML 1.1 has more words that are no texts; what we write is quoted for it too."""
    assert yaml.safe_load(_scalar(text)) == text


def test_canonical_text() -> None:
    made = policy(
        drop.delta(5, max_silence=60),
        [drop.uniq(), drop(attribute="spo2").within(95, 100), drop(missing="drop").guniq()],
        drop.inset("NO", "5", 5, True, "a b", "a, b"),
        attribute="vitals.pulse",
        digest={"vitals.pulse": ["mean"], "$topic": ["distinct"]},
        name="Zoë",
    )
    assert to_yaml(made) == (
        "name: Zoë\n"
        "attribute: vitals.pulse\n"
        "digest:\n"
        "  vitals.pulse: [mean]\n"
        "  $topic: [distinct]\n"
        "levels:\n"
        "  - drop: {delta: {change: 5, max_silence: 60}}\n"
        "  - - drop: uniq\n"
        "    - drop: {within: [95, 100], attribute: spo2}\n"
        "    - drop: {guniq: {}, missing: drop}\n"
        '  - drop: {inset: ["NO", "5", 5, true, a b, "a, b"]}\n'
    )


def test_long_lists_are_wrapped() -> None:
    made = policy(drop.inset(*(f"member-{number}" for number in range(300))))
    text = to_yaml(made)
    assert max(map(len, text.splitlines())) <= 110
    assert parse(text) == made


def test_long_keys() -> None:
    attribute = '"' + "\x01" * 250 + '"'
    made = policy(drop.uniq(), digest={attribute: ["mean"], "b": ["max"]})
    assert parse(to_yaml(made)) == made
