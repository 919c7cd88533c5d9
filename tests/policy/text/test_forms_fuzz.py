"""Whatever a stranger sends: a policy or a PolicyError, soon, and nothing else."""

from __future__ import annotations

from datetime import timedelta
from time import process_time

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock import limits
from penstock.errors import PolicyError
from penstock.policy import filters
from penstock.policy.text.forms import FORMS, parse
from tests.kit.policies import TRICKY_TEXTS, policies

pytestmark = pytest.mark.slow

QUICK = settings(deadline=timedelta(seconds=5), suppress_health_check=[HealthCheck.too_slow])

WORDS = (
    *TRICKY_TEXTS, *filters.CATALOGUE, "levels", "drop", "keep", "digest", "values", "missing", "{",
    "}", "[", "]", ": ", ", ", "- ", "\n", "\n  ", '"', "'", "<policy>", "<level>", "<filter name='",
    "<para ", "value='", "'/>", "</", ">", "<!--", "-->", "<![CDATA[", "]]>", "<!DOCTYPE a>", "&#0;",
    "&#xD800;", "\\ud800", "\\u0000", "!!set ", "? ", "|\n", "%YAML 1.1\n---\n", "\ufeff", "1" * 5000,
    "0x" + "f" * 5000, "1e99999", "-.inf", "[" * 50,
)  # fmt: skip


def complaint(text: str | bytes) -> str:
    """The error message about a text; empty if it is a policy."""
    try:
        parse(text)
    except PolicyError as error:
        return str(error)
    return ""


def survives(text: str | bytes) -> None:
    said = complaint(text)
    assert said.isprintable()
    assert len(said) < 2_000


@QUICK
@given(st.text() | st.binary())
def test_anything(text: str | bytes) -> None:
    survives(text)


@QUICK
@given(
    st.lists(st.sampled_from(WORDS), max_size=40).map("".join), st.sampled_from(["", "{", "<", "levels: "])
)
def test_words_of_the_language(text: str, opening: str) -> None:
    survives(opening + text)


@st.composite
def mutated(draw: st.DrawFn) -> str:
    """A valid text with a few places overwritten, cut out or doubled."""
    text = draw(st.sampled_from([*FORMS.values()]))(draw(policies(max_levels=2)))
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(text)))
        end = min(len(text), start + draw(st.integers(0, 12)))
        middle = draw(st.sampled_from(WORDS) | st.text(max_size=3) | st.just(text[start:end] * 2))
        text = text[:start] + middle + text[end:]
    return text


@QUICK
@given(mutated())
def test_damaged_policies(text: str) -> None:
    survives(text)


@QUICK
@given(mutated(), st.integers(0, 200), st.binary(max_size=3))
def test_damaged_bytes(text: str, place: int, damage: bytes) -> None:
    data = text.encode(errors="surrogatepass")
    survives(data[:place] + damage + data[place + len(damage) :])


def full(part: str, *, before: str = "", after: str = "") -> str:
    room = limits.POLICY_BYTES - len((before + after).encode())
    return before + part * (room // len(part.encode())) + after


@pytest.mark.parametrize(
    "text",
    [
        full("["),
        full("{a: "),
        full('{"a":'),
        full("- "),
        full("? "),
        full("a,", before="levels: [drop: {inset: [", after="b]}]"),
        full("1,", before='{"levels": [{"drop": {"inset": [', after="1]}}]}"),
        full("- a\n"),
        full("a: \n"),
        full("&a "),
        full("!"),
        full('"'),
        full("%"),
        full("#\n"),
        full("<"),
        full("<policy>"),
        full("<!--"),
        full("<![CDATA["),
        full("<?"),
        full("<digester "),
        full("<digester '"),
        full("<digester>", before="<policy><summary>"),
        full("<level/>", before="<policy>", after="</policy>"),
        full("<filter name='UNIQ'/>", before="<policy><level>", after="</level></policy>"),
        full(",", before="<policy><level><filter name='INSET'><para name='values' value='", after="'/>"),
        full("é", before="name: "),
        full("9", before="levels: [drop: {gt: ", after="}]"),
        full("(a{100})", before="levels: [drop: {match: '", after="'}]"),
        full("drop: {match: '(((a{99}){99}){9})'}, ", before="levels: [[", after="]]"),
        full("a.", before="attribute: "),
        full("x", before="levels: [drop: {", after=": 1}]"),
    ],
    ids=lambda text: text[:30],
)
def test_as_large_as_may_be(text: str) -> None:
    start_s = process_time()
    survives(text)
    assert process_time() - start_s < 5, "what a stranger sends may not cost much"
