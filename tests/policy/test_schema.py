"""The schema accepts whatever we write and refuses what `parse` refuses for its shape."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from jsonschema import Draft202012Validator

from penstock.errors import PolicyError
from penstock.policy import digesters, filters
from penstock.policy.params import params_of
from penstock.policy.schema import json_schema
from penstock.policy.text.forms import parse, to_json
from tests.kit.policies import policies

if TYPE_CHECKING:
    from penstock.policy.nodes import Policy

SCHEMA = json_schema()
VALIDATOR = Draft202012Validator(SCHEMA)


def test_is_a_schema_and_plain_json() -> None:
    Draft202012Validator.check_schema(SCHEMA)
    assert json.loads(json.dumps(SCHEMA)) == SCHEMA


@given(policies())
def test_accepts_what_we_write(policy: Policy) -> None:
    VALIDATOR.validate(json.loads(to_json(policy)))


@pytest.mark.parametrize(
    "text",
    [
        '{"levels": [{"drop": "uniq"}]}',
        '{"levels": [{"drop": {"uniq": null, "attribute": "a"}}]}',
        '{"levels": [{"drop": {"latest": {"window": 5}}}]}',
        '{"levels": [{"drop": {"latest": [5]}}]}',
        '{"levels": [{"drop": {"inset": "a"}}, [{"keep": {"inset": {"set": [1, "a", true]}}}]]}',
        '{"levels": [{"drop": {"random": "10%"}}], "digest": {"a.b": ["mean"], "$topic": ["distinct"]}}',
        '{"levels": [{"drop": {"delta": [5, "event"]}}], "digest": ["mean"]}',
        '{"levels": [{"drop": "uniq"}], "fresh": "1.5 s", "urgent": [{"gt": {"value": 5}}]}',
        '{"levels": [{"drop": "uniq"}], "digest": {"pulse": ["mean"], "every": "1s", "share": 0.1}}',
        '{"levels": [{"drop": "uniq"}], "digest": {"every": 0.5, "share": "10%"}}',
        '{"levels": [{"drop": "uniq"}], "digest": {"every": ["mean"], "share": ["max"]}}',
        '{"levels": [{"drop": "uniq"}], "fresh": 2, "urgent": {"match": "a", "attribute": "b"}}',
        '{"levels": [{"drop": "uniq"}], "matters": [{"gt": 5}, {"lt": 2, "attribute": "b"}]}',
    ],
)
def test_accepts_other_spellings_that_parse(text: str) -> None:
    parse(text)
    VALIDATOR.validate(json.loads(text))


@pytest.mark.parametrize(
    "text",
    [
        "[]",
        "{}",
        '{"levels": []}',
        '{"levels": [[]]}',
        '{"levels": [{}]}',
        '{"levels": ["uniq"]}',
        '{"levels": [{"delta": 5}]}',
        '{"levels": [{"drop": "delta"}]}',
        '{"levels": [{"drop": {"detla": 5}}]}',
        '{"levels": [{"drop": {"delta": 0}}]}',
        '{"levels": [{"drop": {"delta": "5"}}]}',
        '{"levels": [{"drop": {"delta": {}}}]}',
        '{"levels": [{"drop": {"delta": {"chagne": 5}}}]}',
        '{"levels": [{"drop": {"delta": [5, "event", 1, 1]}}]}',
        '{"levels": [{"drop": {"within": [5]}}]}',
        '{"levels": [{"drop": {"within": 5}}]}',
        '{"levels": [{"drop": {"inset": []}}]}',
        '{"levels": [{"drop": {"inset": [null]}}]}',
        '{"levels": [{"drop": {"latest": 0}}]}',
        '{"levels": [{"drop": {"latest": 1.5}}]}',
        '{"levels": [{"drop": {"latest": {"n": 5, "window": 5}}}]}',
        '{"levels": [{"drop": {"latest": 5, "attribute": "a"}}]}',
        '{"levels": [{"drop": {"uniq": 5}}]}',
        '{"levels": [{"drop": {"uniq": null, "guniq": null}}]}',
        '{"levels": [{"drop": {"attribute": "a"}}]}',
        '{"levels": [{"drop": "uniq", "keep": "uniq"}]}',
        '{"levels": [{"drop": "uniq"}], "digest": ["avg"]}',
        '{"levels": [{"drop": "uniq"}], "digest": "mean"}',
        '{"levels": [{"drop": "uniq"}], "digest": {"a": "mean"}}',
        '{"levels": [{"drop": "uniq"}], "missing": "ignore"}',
        '{"levels": [{"drop": "uniq"}], "attribute": 5}',
        '{"levels": [{"drop": "uniq"}], "level": 1}',
        '{"levels": [{"drop": "uniq"}], "fresh": "-1s"}',
        '{"levels": [{"drop": "uniq"}], "fresh": 0}',
        '{"levels": [{"drop": "uniq"}], "urgent": 120}',
        '{"levels": [{"drop": "uniq"}], "digest": {"every": "-1s"}}',
        '{"levels": [{"drop": "uniq"}], "digest": {"every": 0}}',
        '{"levels": [{"drop": "uniq"}], "digest": {"share": 0}}',
        '{"levels": [{"drop": "uniq"}], "digest": {"share": 1.5}}',
        '{"levels": [{"drop": "uniq"}], "digest": {"pulse": 1}}',
        '{"levels": [{"drop": "uniq"}], "urgent": []}',
        '{"levels": [{"drop": "uniq"}], "matters": {"latest": 5}}',
        '{"levels": [{"drop": "uniq"}], "urgent": {"latest": 5}}',
        '{"levels": [{"drop": "uniq"}], "urgent": {"gt": 5, "missing": "drop"}}',
    ],
)
def test_refuses_what_does_not_parse(text: str) -> None:
    with pytest.raises(PolicyError):
        parse(text)
    assert not VALIDATOR.is_valid(json.loads(text))


def test_tells_every_word_of_the_language() -> None:
    told = json.dumps(SCHEMA, ensure_ascii=False)
    for kind in filters.CATALOGUE.values():
        assert kind.doc in told
        assert all(param.doc in told for param in params_of(kind))
    assert all(digester.doc in told for digester in digesters.CATALOGUE.values())
