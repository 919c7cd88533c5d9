"""JSON: every part has its place; what is no JSON may still be YAML in braces."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import PolicyError
from penstock.policy.text import json_form, tree
from penstock.policy.text.forms import parse, to_json
from penstock.policy.text.python_form import drop, keep, policy
from tests.kit.policies import texts

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts(), inner, max_size=3),
    max_leaves=10,
)


def plain(found: tree.Tree) -> Any:
    match found:
        case tree.LeafNode():
            return found.value
        case tree.ListNode():
            return [plain(item) for item in found.items]
        case tree.MapNode():
            return {entry.key: plain(entry.value) for entry in found.entries}


def depth(found: Any) -> int:
    inner = found.values() if isinstance(found, dict) else found if isinstance(found, list) else ()
    return 1 + max(map(depth, inner), default=0) if isinstance(found, dict | list) else 0


@given(VALUES, st.sampled_from([None, 0, 1, "\t"]), st.booleans())
def test_reads_what_python_writes(found: Any, indent: int | str | None, ascii_only: bool) -> None:
    text = json.dumps(found, indent=indent, ensure_ascii=ascii_only)
    if depth(found) <= 16:
        assert repr(plain(json_form.tree_of(f" {text}\n"))) == repr(found)


def test_places() -> None:
    found = json_form.tree_of('{"a": 1,\n\t"b": [true,\n null]}')
    assert isinstance(found, tree.MapNode)
    one, two = found.entries
    assert (str(one.place), str(one.value.place)) == ("line 1, column 2", "line 1, column 7")
    assert (str(two.place), str(two.value.place)) == ("line 2, column 2", "line 2, column 7")
    assert isinstance(two.value, tree.ListNode)
    assert [str(item.place) for item in two.value.items] == ["line 2, column 8", "line 3, column 2"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "1:1: not JSON: expected a value, found the end of the text"),
        ('{"a" 1}', "1:6: not JSON: expected ':', found '1'"),
        ('{"a": 1 "b"}', "1:9: not JSON: expected ',' or '}', found '\"'"),
        ('{"a": 1,}', "1:9: not JSON: expected a key in double quotes, found '}'"),
        ("[1,]", "1:4: not JSON: expected a value, found ']'"),
        ("[1 2]", "1:4: not JSON: expected ',' or ']', found '2'"),
        ("[01]", "1:3: not JSON: expected ',' or ']', found '1'"),
        ("[NaN]", "1:2: not JSON: expected a value, found 'N'"),
        ('["\\x"]', "1:3: not JSON: Invalid \\escape"),
        ('["a\nb"]', "1:2: not JSON: expected a value, found '\"'"),
        ('["\\ud800"]', "1:2: half a surrogate pair is not a character"),
        ("[] []", "1:4: not JSON: expected the end of the text, found '['"),
        ("[" * 17 + "]" * 17, "1:17: nested more than 16 deep"),
        ("[" * 60_000, "1:17: nested more than 16 deep"),
    ],
)
def test_refused(text: str, says: str) -> None:
    with pytest.raises(PolicyError) as caught:
        json_form.tree_of(text)
    assert str(caught.value).startswith(says)


def test_yaml_in_braces() -> None:
    assert parse("{levels: [drop: uniq]}") == policy(drop.uniq())
    assert parse('{"levels": [drop: uniq]}') == policy(drop.uniq())
    assert parse('{\t"levels":\t[{"drop": "uniq"}]}') == policy(drop.uniq())


def test_the_complaint_that_got_further_wins() -> None:
    with pytest.raises(PolicyError, match="not JSON: expected ',' or ']'"):
        parse('{"levels": [1, 2}')
    with pytest.raises(PolicyError, match="not YAML"):
        parse("{levels: [drop: uniq}")


def test_canonical_text() -> None:
    made = policy(
        [drop.uniq(), drop.within(50, 100)], keep.latest(10), name="é", digest={"a": ["mean"], "b": ["max"]}
    )
    assert to_json(made) == (
        "{\n"
        '  "name": "é",\n'
        '  "digest": {\n'
        '    "a": ["mean"],\n'
        '    "b": ["max"]\n'
        "  },\n"
        '  "levels": [\n'
        '    [{"drop": "uniq"}, {"drop": {"within": [50, 100]}}],\n'
        '    {"keep": {"latest": 10}}\n'
        "  ]\n"
        "}\n"
    )
    assert to_json(made, compact=True).startswith(
        '{"name":"é","digest":{"a":["mean"],"b":["max"]},"levels":[[{'
    )
