"""The paper's XML: Figure 2 as printed, types, lists, escapes, and what is refused."""

from __future__ import annotations

import pytest

from penstock.errors import PolicyError
from penstock.policy import filters
from penstock.policy.filters import CATALOGUE, Filter, Verb
from penstock.policy.text.forms import parse, to_xml
from penstock.policy.text.python_form import drop, keep, policy

FIGURE_2 = """<policy attribute="PulseRate">
  <summary>
    <digester name="MEAN">
      <digester name="COUNT">
    </summary>
  <level>
    <filter name="DELTA">
      <para name="change" value="5"/>
    </filter>
  </level>
  <level>
    <filter name="WITHIN">
      <para name="low" value="50"/>
      <para name="high" value="100"/>
    </filter>
  </level>
  <level>
    <filter name="LATEST">
      <para name="window" value="10"/>
    </filter>
  </level>
</policy>
"""


def filter_in(inner: str) -> Filter:
    ((step,),) = parse(f"<policy><level>{inner}</level></policy>").levels
    return step.filter


def refused(text: str) -> str:
    with pytest.raises(PolicyError) as caught:
        parse(text)
    return str(caught.value)


def test_figure_2_as_printed() -> None:
    assert parse(FIGURE_2) == policy(
        drop.delta(5), drop.within(50, 100), keep.latest(10), attribute="PulseRate", digest=["mean", "count"]
    )


@pytest.mark.parametrize(
    "digester",
    [
        '<digester name="MEAN"/>',
        '<digester name="MEAN"></digester>',
        '<digester name="MEAN">',
        "<digester name='MEAN' >",
        '<digester\n name="Mean"\n></digester >',
        '<digester name="MEAN"><!-- <digester name="MAX"> </digester> --></digester>',
        '<digester name="MEAN" attribute="a>b">',
    ],
)
def test_digesters_with_and_without_an_end(digester: str) -> None:
    text = (
        f'<policy attribute="a>b"><summary>{digester}</summary><level><filter name="UNIQ"/></level></policy>'
    )
    assert parse(text).digest == (("a>b", "mean"),)


def test_places_behind_unclosed_digesters() -> None:
    text = '<policy><summary><digester name="é"><digester name="MAX"></summary><levle/></policy>'
    assert refused(text).startswith("1:68 policy: unknown element 'levle' (did you mean 'level'?)")
    assert refused(FIGURE_2.replace("</policy>", "</polciy>")).startswith("22:3: not XML: mismatched tag")


def test_verbs() -> None:
    """The paper's verb where none is written; `action` overrides."""
    drops = {name for name, kind in CATALOGUE.items() if kind.verb is Verb.DROP}
    assert {"within", "inset", "match", "delta", "uniq", "guniq", "random"} <= drops
    assert not {"gt", "ge", "eq", "ne", "lt", "le", "latest", "every", "first", "last"} & drops
    text = (
        '<policy><level><filter name="EVERY" action="{}"><para name="n" value="3"/></filter></level></policy>'
    )
    for word, verb in (("drop", Verb.DROP), ("keep", Verb.KEEP), ("KEEP", Verb.KEEP)):
        assert parse(text.format(word)).levels[0][0].verb is verb


def test_every_attribute() -> None:
    text = """<?xml version="1.0" encoding="ISO-8859-1"?>
    <policy name="vitals" attribute="pulse" missing="drop" payload="cbor">
      <description>
        Pulse &amp; more,
        in two lines.
      </description>
      <summary><digester name="MEAN"/><digester name="MAX" attribute="spo2"/></summary>
      <level>
        <filter name="Uniq" attribute="spo2" missing="keep"/>
        <filter name="latest_by"><para name="BY" value="$topic"/></filter>
      </level>
    </policy>"""
    assert parse(text) == policy(
        [drop(attribute="spo2", missing="keep").uniq(), keep.latest_by("$topic")],
        attribute="pulse",
        digest={"pulse": ["mean"], "spo2": ["max"]},
        missing="drop",
        payload="cbor",
        name="vitals",
        description="Pulse & more, in two lines.",
    )


@pytest.mark.parametrize(
    ("para", "expected"),
    [
        ('<para name="value" value="5"/>', 5),
        ('<para name="value" value="5.0"/>', 5.0),
        ('<para name="value" value="true"/>', True),
        ('<para name="value" value="NO"/>', "NO"),
        ('<para name="value" value="null"/>', "null"),
        ('<para name="value" value=""/>', ""),
        ('<para name="value" value="a,b"/>', "a,b"),
        ('<para name="value" value="5" type="text"/>', "5"),
        ('<para name="value" value="0x10" type="number"/>', 16),
        ('<para name="value" value="False" type="boolean"/>', False),
        ('<para name="value" value="&#10;&lt;&quot;"/>', '\n<"'),
        ('<para name="value" value="\\u0001\\n&quot;" escapes="json"/>', None),
        ('<para name="value" value="\\u0001\\ud83e\\udec0" escapes="json"/>', "\x01🫀"),
        ('<para name="value" value="\\u0035" escapes="json" type="text"/>', "5"),
    ],
)
def test_values(para: str, expected: object) -> None:
    inner = f'<filter name="EQ">{para}</filter>'
    if expected is None:
        assert "invalid JSON escapes" in refused(f"<policy><level>{inner}</level></policy>")
        return
    found = filter_in(inner)
    assert isinstance(found, filters.Eq)
    assert (type(found.value), found.value) == (type(expected), expected)


@pytest.mark.parametrize(
    ("para", "expected"),
    [
        ('<para name="values" value="a, 5 ,true"/>', ("a", 5, True)),
        ('<para name="set" value="a"/>', ("a",)),
        ('<para name="values" value="a,b" type="text"/>', ("a,b",)),
        ('<para name="set"><item value="a,b"/><item value="5" type="text"/></para>', ("a,b", "5")),
    ],
)
def test_lists(para: str, expected: tuple[object, ...]) -> None:
    found = filter_in(f'<filter name="INSET">{para}</filter>')
    assert isinstance(found, filters.Inset)
    assert repr(found.values) == repr(expected)


def test_text_parameters_need_no_type() -> None:
    assert filter_in('<filter name="MATCH"><para name="pattern" value="5"/></filter>') == filters.Match(
        pattern="5"
    )
    by_five = filter_in('<filter name="LATEST_BY"><para name="by" value="5"/></filter>')
    assert by_five == filters.LatestBy(by="5")
    share = filter_in('<filter name="RANDOM"><para name="percent" value="10%"/></filter>')
    assert isinstance(share, filters.Random)
    assert share.fraction == 0.1


UNIQ = '<level><filter name="UNIQ"/></level>'


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("<policy>", "1:9: not XML: no element found"),
        ("<policy/>", "1:1 levels: a policy needs at least one level"),
        ("<pollicy/>", "1:1: unknown element 'pollicy' (did you mean 'policy'?); allowed: policy"),
        ("<policy><level/></policy>", "1:9 levels[0]: a level needs at least one filter"),
        (
            f"<policy nmae='a'>{UNIQ}</policy>",
            "1:1: unknown attribute of <policy> 'nmae' (did you mean 'name'?)",
        ),
        (f"<policy>text{UNIQ}</policy>", "1:9: unexpected text between elements: 'text'"),
        (
            f"<policy><description/><description/>{UNIQ}</policy>",
            "1:23: duplicate key 'description', first at",
        ),
        (f"<policy attribute='a..b'>{UNIQ}</policy>", "1:1 attribute: attribute path 'a..b'"),
        (f"<policy>{UNIQ}</policy><policy/>", "1:54: not XML: junk after document element"),
        (f"<policy a='1' a='2'>{UNIQ}</policy>", "1:15: not XML: duplicate attribute"),
        (f"<policy><summary><digester/></summary>{UNIQ}</policy>", "1:18: <digester> has no name"),
        (
            f"<policy><summary><digester name='avg'></summary>{UNIQ}</policy>",
            "1:18 digest[0]: unknown digester 'avg'",
        ),
        (f"<policy escapes='xml'>{UNIQ}</policy>", "1:1: escapes='xml'; allowed: json"),
        (
            f"<policy escapes='json' name='\\ud800'>{UNIQ}</policy>",
            "1:1: half a surrogate pair is not a character",
        ),
        ("<!DOCTYPE policy [<!ENTITY a 'b'>]><policy/>", "1:18: a document type declaration is not"),
        (
            "<!DOCTYPE policy SYSTEM 'http://example.org/p.dtd'><policy/>",
            "1:51: a document type declaration is not",
        ),
        ("<policy>&a;</policy>", "1:9: not XML: undefined entity"),
        ("<a>" * 9999, "1:1: unknown element 'a'"),
        ("<policy>\x00</policy>", "1:9: not XML: "),
    ],
)
def test_refused(text: str, says: str) -> None:
    assert refused(text).startswith(says)


@pytest.mark.parametrize(
    ("inner", "says"),
    [
        ("<filter/>", "1:16: <filter> has no name"),
        ("<filter name='DETLA'/>", "1:16 levels[0].drop: unknown filter 'detla' (did"),
        ("<filter name='UNIQ' action='ignore'/>", "1:16 levels[0]: unknown verb 'ignore'"),
        (
            "<filter name='UNIQ'><item/></filter>",
            "1:36 policy.level.filter: unknown element 'item'; allowed: para",
        ),
        ("<filter name='GT'><para name='value'/></filter>", "1:34: <para> has no value"),
        (
            "<filter name='GT'><para name='value' value='x' type='number'/></filter>",
            "1:34: expected a number, found 'x'",
        ),
        (
            "<filter name='GT'><para name='value' value='x' type='int'/></filter>",
            "1:34: unknown type 'int'; allowed: number, text",
        ),
        (
            "<filter name='GT'><para name='value' value='x'><item value='y'/></para></filter>",
            "1:34: <para> has a value and items",
        ),
        (
            "<filter name='LATEST'>\n<para name='n' value='1'/>\n<para name='window' value='1'/></filter>",
            "3:1 levels[0].keep.latest: duplicate key 'window', first at line 2, column 1 (as 'n')",
        ),
        (
            "<filter name='LATEST'><para name='n' value='x'/></filter>",
            "1:38 levels[0].keep.latest.n: expected a number, found 'x'",
        ),
    ],
)
def test_filters_refused(inner: str, says: str) -> None:
    assert refused(f"<policy><level>{inner}</level></policy>").startswith(says)


def test_canonical_text() -> None:
    made = policy(
        [keep.delta(5), drop(attribute="a").inset("x", 5)],
        drop.inset("a,b", "5", True),
        attribute="pulse",
        digest={"pulse": ["mean"], "$topic": ["distinct"]},
        name="a\x01<b>",
        description="two\nlines",
    )
    assert to_xml(made) == (
        '<policy name="a\\u0001&lt;b&gt;" attribute="pulse" escapes="json">\n'
        '  <description escapes="json">two\\nlines</description>\n'
        "  <summary>\n"
        '    <digester name="MEAN"/>\n'
        '    <digester name="DISTINCT" attribute="$topic"/>\n'
        "  </summary>\n"
        "  <level>\n"
        '    <filter name="DELTA" action="keep">\n'
        '      <para name="change" value="5"/>\n'
        "    </filter>\n"
        '    <filter name="INSET" attribute="a">\n'
        '      <para name="values" value="x,5"/>\n'
        "    </filter>\n"
        "  </level>\n"
        "  <level>\n"
        '    <filter name="INSET">\n'
        '      <para name="values">\n'
        '        <item value="a,b"/>\n'
        '        <item value="5" type="text"/>\n'
        '        <item value="true"/>\n'
        "      </para>\n"
        "    </filter>\n"
        "  </level>\n"
        "</policy>\n"
    )


def test_fresh_and_urgent() -> None:
    text = """<policy attribute="pulse" fresh="1s">
  <urgent>
    <filter name="GT">
      <para name="value" value="120"/>
    </filter>
    <filter name="WITHIN" attribute="spo2">
      <para name="low" value="0"/>
      <para name="high" value="90"/>
    </filter>
  </urgent>
  <matters>
    <filter name="LT">
      <para name="value" value="40"/>
    </filter>
  </matters>
  <level>
    <filter name="UNIQ"/>
  </level>
</policy>
"""
    made = parse(text)
    assert made.fresh_us == 1_000_000
    assert [step.filter.name for step in made.urgent] == ["gt", "within"]
    assert [step.filter.name for step in made.matters] == ["lt"]
    assert to_xml(made) == text


@pytest.mark.parametrize(
    ("inside", "says"),
    [
        ('<filter name="LATEST"><para name="n" value="5"/></filter>', "'latest' does not look at"),
        ('<filter name="GT" action="drop"><para name="value" value="5"/></filter>', "has no 'action'"),
        ("", "expected a predicate"),
    ],
)
def test_what_is_not_urgent(inside: str, says: str) -> None:
    with pytest.raises(PolicyError, match=says):
        parse(f'<policy><urgent>{inside}</urgent><level><filter name="UNIQ"/></level></policy>')


def test_how_digests_are_sent() -> None:
    text = """<policy attribute="pulse">
      <summary every="1s" share="0.2"><digester name="MEAN"></summary>
      <level><filter name="UNIQ"/></level></policy>"""
    found = parse(text)
    assert found.digest == (("pulse", "mean"),)
    assert (found.digest_every_us, found.digest_share) == (1_000_000, 0.2)
    assert '<summary every="1s" share="0.2">' in to_xml(found)
    assert parse('<policy><summary every="1s"/><level><filter name="UNIQ"/></level></policy>').digest == ()


def test_complaints_about_how_digests_are_sent() -> None:
    for said, says in (
        ('share="2"', "expected a share above 0 and not above 1, found 2"),
        ('every="-1s"', "expected a time like 500ms, 1s or 2min, found '-1s'"),
        ('each="1s"', "unknown attribute of <summary> 'each'"),
    ):
        with pytest.raises(PolicyError, match=says):
            parse(f'<policy><summary {said}/><level><filter name="UNIQ"/></level></policy>')
