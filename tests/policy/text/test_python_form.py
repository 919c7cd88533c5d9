"""The builder has a method for every filter, with its parameters, and makes the same policies as YAML."""

from __future__ import annotations

import re
from inspect import Parameter, getdoc, signature
from typing import Any, get_args

import pytest

from penstock.errors import PolicyError
from penstock.policy import digesters
from penstock.policy.filters import CATALOGUE, Filter
from penstock.policy.nodes import Missing, PayloadFormat, Policy
from penstock.policy.params import params_of
from penstock.policy.text import python_form
from penstock.policy.text.forms import parse, to_python
from penstock.policy.text.python_form import drop, keep, policy, text_of, when

VITALS = """
name: vitals
attribute: pulse
digest: [count, mean, min, max]
levels:
  - drop: {delta: 5}
  - - drop: uniq
    - drop: {within: [95, 100], attribute: spo2, missing: drop}
  - keep: {latest: 10}
"""


def test_reads_like_the_yaml() -> None:
    made = policy(
        drop.delta(5),
        [drop.uniq(), drop(attribute="spo2", missing="drop").within(95, 100)],
        keep.latest(10),
        name="vitals",
        attribute="pulse",
        digest=["count", "mean", "min", "max"],
    )
    assert made == parse(VITALS)


def test_source_text() -> None:
    assert to_python(parse(VITALS)) == (
        "policy(\n"
        "    drop.delta(5),\n"
        '    [drop.uniq(), drop(attribute="spo2", missing="drop").within(95, 100)],\n'
        "    keep.latest(10),\n"
        '    name="vitals",\n'
        '    attribute="pulse",\n'
        '    digest=["count", "mean", "min", "max"],\n'
        ")\n"
    )


def test_digest_by_attribute() -> None:
    made = policy(drop.uniq(), digest={"pulse": ["mean"], "$topic": ["distinct"]})
    assert made.digest == (("pulse", "mean"), ("$topic", "distinct"))


def test_has_a_method_for_every_filter_and_no_other() -> None:
    methods = {name for name in vars(python_form.Steps) if not name.startswith("_")}
    assert methods - {"verb", "attribute", "missing"} == set(CATALOGUE)


@pytest.mark.parametrize("kind", CATALOGUE.values(), ids=lambda kind: str(kind.name))
def test_method_agrees_with_the_catalogue(kind: type[Filter]) -> None:
    method = getattr(drop, kind.name)
    assert getdoc(method) == f"{kind.doc}."
    taken = signature(method).parameters
    declared = params_of(kind)
    assert list(taken) == [param.name for param in declared]
    for param in declared:
        shape = taken[param.name]
        if param.kind.is_list:
            assert shape.kind is Parameter.VAR_POSITIONAL
        elif param.required:
            assert shape.default is Parameter.empty
        else:
            assert shape.kind is Parameter.KEYWORD_ONLY
            assert shape.default == param.default


def test_names_agree_with_the_catalogues() -> None:
    assert get_args(python_form.DigesterName) == tuple(digesters.CATALOGUE)
    assert get_args(python_form.MissingName) == tuple(option.value for option in Missing)
    assert get_args(python_form.PayloadName) == tuple(option.value for option in PayloadFormat)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: drop.within(9, 1), "drop.within: low 9 is above high 1: nothing can match"),
        (lambda: drop.delta(0), "drop.delta.change: expected a number above 0, found 0"),
        (drop.inset, "drop.inset.values: expected at least one value, found an empty list"),
        (lambda: drop.inset("a", "\ud800"), "drop.inset.values[1]: half a surrogate pair is not a character"),
        (lambda: drop.gt(10**400), "drop.gt.value: expected a number of at most 64 bits"),
        (lambda: drop.every(1e300), "drop.every.n: expected a number of at most 64 bits"),  # type: ignore[arg-type]
        (lambda: drop(attribute="a").latest(5), "drop.latest.attribute: 'latest' looks at no attribute"),
        (lambda: drop(missing="no"), "missing: found 'no'; allowed: keep, drop"),  # type: ignore[arg-type]
        (lambda: drop.delta(1, since=None), "drop.delta.since: found nothing; allowed: kept or event"),  # type: ignore[arg-type]
        (policy, "levels: a policy needs at least one level"),
        (lambda: policy(drop.uniq(), payload="xml"), "payload: found 'xml'; allowed: auto, json"),  # type: ignore[arg-type]
        (lambda: policy(drop.uniq(), name="\ud800"), "name: half a surrogate pair is not a character"),
        (lambda: policy(drop.uniq(), digest=["avg"]), "digest: unknown digester 'avg'"),  # type: ignore[list-item]
    ],
)
def test_wrong_arguments(make: object, message: str) -> None:
    assert callable(make)
    with pytest.raises(PolicyError) as caught:
        make()
    assert str(caught.value).startswith(message)


def test_equality_tells_truth_from_one() -> None:
    assert drop.eq(1) == drop.eq(1.0)
    assert hash(drop.eq(1)) == hash(drop.eq(1.0))
    assert drop.eq(1) != drop.eq(True)
    assert drop.inset(1, 2) != drop.inset(True, 2)
    assert drop.gt(1) != drop.ge(1)


def test_fresh_and_urgent() -> None:
    made = policy(drop.uniq(), fresh=0.5, urgent=when.gt(120), matters=[when.gt(120), when.lt(9)])
    said = "{fresh: 500ms, urgent: {gt: 120}, matters: [{gt: 120}, {lt: 9}], levels: [drop: uniq]}"
    assert made == parse(said)
    assert "matters=[when.gt(120), when.lt(9)]" in to_python(made)
    assert 'fresh="500ms"' in to_python(made)
    assert "urgent=when.gt(120)" in to_python(made)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"fresh": "-1s"}, "fresh: expected a time like 500ms"),
        ({"fresh": 0}, "fresh: expected a time above 0"),
        ({"urgent": 120}, "urgent: expected a predicate like when.gt"),
        ({"urgent": [when.gt(3), 120]}, "urgent[1]: expected a predicate like when.gt(120), found 120"),
        ({"urgent": drop.gt(5)}, "urgent[0]: a predicate has neither a verb nor `missing`"),
        ({"matters": 120}, "matters: expected a predicate like when.gt"),
        ({"matters": when.latest(5)}, "matters[0]: 'latest' does not look at the value of one event alone"),
        ({"urgent": when.latest(5)}, "urgent[0]: 'latest' does not look at the value of one event alone"),
    ],
)
def test_wrong_fresh_and_urgent(given: dict[str, Any], says: str) -> None:
    with pytest.raises(PolicyError, match=re.escape(says)):
        policy(drop.uniq(), **given)


def test_how_digests_are_sent() -> None:
    built = policy(drop.uniq(), digest={"pulse": ["mean"], "every": "2s", "share": "5%"})
    assert built.digest == (("pulse", "mean"),)
    assert (built.digest_every_us, built.digest_share) == (2_000_000, 0.05)
    assert 'digest={"pulse": ["mean"], "every": "2s", "share": 0.05}' in text_of(built)
    assert policy(drop.uniq(), digest={"every": ["mean"]}).digest == (("every", "mean"),)


@pytest.mark.parametrize(
    ("digest", "says"),
    [
        ({"every": -1}, "digest.every: expected a time above 0"),
        ({"share": 2}, "digest.share: expected a share above 0 and not above 1, found 2"),
        ({"pulse": "mean"}, "digest: expected a list of digesters, found 'mean'"),
    ],
)
def test_complaints_about_how_digests_are_sent(digest: Any, says: str) -> None:
    with pytest.raises(PolicyError) as error:
        policy(drop.uniq(), digest=digest)
    assert str(error.value).startswith(says)


def test_a_policy_made_by_hand_is_checked_too() -> None:
    levels = ((drop.uniq(),),)
    for wrong, path in (({"digest_every_us": 0}, "digest.every"), ({"digest_share": 0.0}, "digest.share")):
        with pytest.raises(PolicyError, match=path):
            Policy(levels, **wrong)
    with pytest.raises(PolicyError, match="'share' cannot be both a setting and an attribute"):
        Policy(levels, digest=(("share", "mean"),), digest_share=0.5)
