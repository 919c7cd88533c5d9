"""Attribute paths: what may be written, and where it leads."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock import limits
from penstock.errors import PolicyError
from penstock.policy.paths import PSEUDO, Source, parse


@pytest.mark.parametrize(
    ("text", "segments"),
    [
        ("pulse", ("pulse",)),
        ("vitals.pulse", ("vitals", "pulse")),
        ("readings.0.mv", ("readings", "0", "mv")),
        ('"a.b".c', ("a.b", "c")),
        ('c."a.b"', ("c", "a.b")),
        ('"say ""hi"""', ('say "hi"',)),
        ('""', ("",)),
        ('"$topic"', ("$topic",)),
        (" a b ", (" a b ",)),
        ("Zoë.脈拍", ("Zoë", "脈拍")),
        ("a$b", ("a$b",)),
    ],
)
def test_paths_into_the_payload(text: str, segments: tuple[str, ...]) -> None:
    path = parse(text)
    assert (path.source, path.segments, str(path)) == (Source.PAYLOAD, segments, text)


@pytest.mark.parametrize(
    ("text", "source", "segments"),
    [
        ("$value", Source.PAYLOAD, ()),
        ("$topic", Source.TOPIC, ()),
        ("$ts", Source.TS, ()),
        ("$size", Source.SIZE, ()),
        ("$sender", Source.SENDER, ()),
        ("$prop.unit", Source.PROPERTY, ("unit",)),
        ("$prop.a.b", Source.PROPERTY, ("a.b",)),
        ("$prop..", Source.PROPERTY, (".",)),
    ],
)
def test_pseudo_attributes(text: str, source: Source, segments: tuple[str, ...]) -> None:
    path = parse(text)
    assert (path.source, path.segments) == (source, segments)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "an attribute path is a text"),
        (5, "found 5"),
        (None, "found None"),
        (".", "missing at character 1"),
        (".a", "missing at character 1"),
        ("a.", "missing at character 3"),
        ("a..b", "missing at character 3"),
        ('a"b', "expected '.' at character 2"),
        ('"a"b', "expected '.' at character 4"),
        ('"a', "missing at character 1"),
        ('a."', "missing at character 3"),
        ("$", "unknown pseudo-attribute"),
        ("$prop", "unknown pseudo-attribute"),
        ("$prop.", "lacks the name of a user property"),
        ("$topics", "did you mean '$topic'?"),
        ("$Topic", "unknown pseudo-attribute"),
        ("a" * (limits.PATH_CHARACTERS + 1), f"at most {limits.PATH_CHARACTERS}"),
        (".".join("a" * (limits.PATH_SEGMENTS + 1)), f"at most {limits.PATH_SEGMENTS}"),
    ],
)
def test_what_is_no_path_is_refused_with_its_place(text: object, says: str) -> None:
    with pytest.raises(PolicyError) as error:
        parse(text)
    assert says in str(error.value)


def test_the_longest_and_the_deepest_path_are_accepted() -> None:
    assert parse("a" * limits.PATH_CHARACTERS).segments == ("a" * limits.PATH_CHARACTERS,)
    assert len(parse(".".join("a" * limits.PATH_SEGMENTS)).segments) == limits.PATH_SEGMENTS


def test_every_pseudo_attribute_is_documented() -> None:
    assert {name.partition(".")[0] for name in PSEUDO} == {source.value for source in Source}


@given(st.lists(st.text(max_size=8), min_size=1, max_size=limits.PATH_SEGMENTS))
def test_any_keys_can_be_written_as_a_path(keys: list[str]) -> None:
    text = ".".join('"' + key.replace('"', '""') + '"' for key in keys)
    if len(text) <= limits.PATH_CHARACTERS:
        assert parse(text).segments == tuple(keys)


@given(st.text(alphabet='a.$" 0', max_size=12))
def test_any_text_is_a_path_or_a_policy_error(text: str) -> None:
    try:
        path = parse(text)
    except PolicyError:
        return
    assert path.text == text
