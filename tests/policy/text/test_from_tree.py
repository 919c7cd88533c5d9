"""Reading a policy: what may be written, and what is said about what may not."""

from __future__ import annotations

import pytest

from penstock import limits
from penstock.errors import PolicyError
from penstock.policy import filters
from penstock.policy.filters import Verb
from penstock.policy.nodes import Missing, PayloadFormat, Policy, Step
from penstock.policy.text.forms import parse, to_yaml


def steps(text: str) -> list[Step]:
    return [step for chain in parse(text).levels for step in chain]


def step(use: str) -> Step:
    (found,) = steps(f"levels:\n  - {use}\n")
    return found


def refused(text: str | bytes) -> PolicyError:
    with pytest.raises(PolicyError) as caught:
        parse(text)
    return caught.value


def test_the_design_example() -> None:
    text = """
    name: vitals
    attribute: pulse                 # default attribute of every filter; a filter may name its own
    digest: [count, mean, min, max]  # summaries of what was dropped
    levels:
      - drop: {delta: 5}             # changes smaller than 5 since the last value kept
      - drop: {within: [50, 100]}    # the normal range
      - keep: {latest: 10}
    """
    assert parse(text) == Policy(
        levels=(
            (Step(Verb.DROP, filters.Delta(change=5)),),
            (Step(Verb.DROP, filters.Within(low=50, high=100)),),
            (Step(Verb.KEEP, filters.Latest(n=10)),),
        ),
        attribute="pulse",
        digest=(("pulse", "count"), ("pulse", "mean"), ("pulse", "min"), ("pulse", "max")),
        name="vitals",
    )


def test_every_setting() -> None:
    digest = "{a.b: [mean], $topic: [distinct]}"
    policy = parse(
        f"{{missing: drop, payload: cbor, description: d, digest: {digest}, levels: [drop: uniq]}}"
    )
    assert policy.missing is Missing.DROP
    assert policy.payload is PayloadFormat.CBOR
    assert policy.description == "d"
    assert policy.attribute == "$value"
    assert policy.digest == (("a.b", "mean"), ("$topic", "distinct"))


def test_a_level_is_a_step_or_a_chain() -> None:
    policy = parse("levels:\n  - - drop: uniq\n    - keep: {latest: 5}\n  - drop: guniq\n")
    assert [len(chain) for chain in policy.levels] == [2, 1]


@pytest.mark.parametrize(
    ("use", "expected"),
    [
        ("drop: uniq", filters.Uniq()),
        ("drop: {uniq: }", filters.Uniq()),
        ("drop: {uniq: {}}", filters.Uniq()),
        ("drop: {uniq: []}", filters.Uniq()),
        ("keep: first", filters.First()),
        ("keep: {first: [a, 1]}", filters.First(values=("a", 1))),
        ("drop: {delta: 5}", filters.Delta(change=5)),
        ("drop: {delta: [5, event]}", filters.Delta(change=5, since="event")),
        ("drop: {delta: {change: 5, max_silence: 60}}", filters.Delta(change=5, max_silence=60)),
        ("drop: {within: [50, 100]}", filters.Within(low=50, high=100)),
        ("drop: {within: {high: b, low: a}}", filters.Within(low="a", high="b")),
        ("drop: {inset: a}", filters.Inset(values=("a",))),
        ("drop: {inset: [a, NO, 5, true]}", filters.Inset(values=("a", "NO", 5, True))),
        ("drop: {inset: {values: [a]}}", filters.Inset(values=("a",))),
        ("drop: {inset: {set: [a]}}", filters.Inset(values=("a",))),
        ("drop: {match: {regex: '^a'}}", filters.Match(pattern="^a")),
        ("keep: {latest: {window: 10}}", filters.Latest(n=10)),
        ("drop: {throttle: {seconds: 5, by: $topic}}", filters.Throttle(seconds=5, by="$topic")),
        ("keep: {latest_by: $topic}", filters.LatestBy(by="$topic")),
        ("drop: {random: 10%}", filters.Random(fraction=0.1, seed=0)),
        ("keep: {top: [3, price, smallest]}", filters.Top(n=3, by="price", order="smallest")),
    ],
)
def test_spellings_of_a_filter(use: str, expected: filters.Filter) -> None:
    found = step(use)
    assert repr(found.filter) == repr(expected)
    assert found.verb.value == use[:4]


def test_settings_beside_a_filter() -> None:
    found = step("drop: {within: [0, 1], attribute: spo2, missing: drop}")
    assert (found.attribute, found.missing) == ("spo2", Missing.DROP)


def test_seeds_are_written_only_where_they_are_not_the_default() -> None:
    uses = ("{random: 0.1}", "{random: 0.25}", "{random: {fraction: 0.5, seed: 7}}")
    text = "levels:\n" + "".join(f"  - drop: {use}\n" for use in uses)
    found = [step.filter for step in steps(text)]
    assert [each.seed for each in found if isinstance(each, filters.Random)] == [0, 1, 7]
    assert to_yaml(parse(text)) == text


LEVELS = "levels:\n- drop: uniq\n"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "the text is empty"),
        ("# nothing\n", "the text is empty"),
        ("- drop: uniq", "1:1: a policy is a mapping, found a list; allowed: name, description, attribute"),
        ("uniq", "1:1: a policy is a mapping, found 'uniq'"),
        ("name: a", "1:1: the policy has no 'levels', for example `- drop: {delta: 5}`"),
        ("nmae: a\n" + LEVELS, "1:1: unknown key 'nmae' (did you mean 'name'?); allowed: name, descr"),
        (LEVELS + "levels: []", "3:1: duplicate key 'levels', first at line 1, column 1"),
        ("name: 5\n" + LEVELS, "1:7 name: expected a text, found 5: put it into quotes"),
        ("name:\n" + LEVELS, "1:6 name: expected a text, found nothing"),
        (f"name: {'x' * 5000}\n" + LEVELS, "1:7 name: expected a text of at most 4096 characters"),
        ("attribute: a..b\n" + LEVELS, "1:12 attribute: attribute path 'a..b': a name is missing"),
        (
            "attribute: $tpoic\n" + LEVELS,
            "1:12 attribute: unknown pseudo-attribute '$tpoic' (did you mean '$topic'?)",
        ),
        (
            "missing: kepe\n" + LEVELS,
            "1:10 missing: unknown word 'kepe' (did you mean 'keep'?); allowed: keep, drop",
        ),
        ("payload: [a]\n" + LEVELS, "1:10 payload: found a list; allowed: auto, json, msgpack, cbor, text"),
        ("digest: mean\n" + LEVELS, "1:9 digest: expected a list of digesters, found 'mean'"),
        (
            "digest: [mean, cuont]\n" + LEVELS,
            "1:16 digest[1]: unknown digester 'cuont' (did you mean 'count'?)",
        ),
        (
            "digest: {a: [mena]}\n" + LEVELS,
            "1:14 digest.a[0]: unknown digester 'mena' (did you mean 'mean'?)",
        ),
        (
            "digest: {a: [max], a: [min]}\n" + LEVELS,
            "1:20 digest.a: duplicate key 'a', first at line 1, column 10",
        ),
        ("digest: {$x: [max]}\n" + LEVELS, "1:10 digest.$x: unknown pseudo-attribute '$x'"),
        (
            "levels: uniq",
            "1:9 levels: expected a list of levels, for example `- drop: {delta: 5}`, found 'uniq'",
        ),
        ("levels: []", "1:9 levels: a policy needs at least one level"),
        ("levels:\n- drop: uniq\n- []", "3:3 levels[1]: a level needs at least one filter"),
        ("levels: [drop: uniq" + ", drop: uniq" * 32 + "]", "1:9 levels: 33 levels; at most 32"),
        ("levels:\n- uniq", "2:3 levels[0]: a filter with its verb was expected"),
        ("levels:\n- delta: 5", "2:3 levels[0]: the verb of 'delta' is missing: write `drop: {delta: …}`"),
        (
            "levels:\n- dorp: uniq",
            "2:3 levels[0]: unknown verb 'dorp' (did you mean 'drop'?); allowed: drop, keep",
        ),
        ("levels:\n- {drop: uniq, keep: uniq}", "2:3 levels[0]: a step has one verb, found drop and keep"),
        ("levels:\n- {}", "2:3 levels[0]: a step has one verb, found none"),
        ("levels:\n- - drop: uniq\n  - {}", "3:5 levels[0][1]: a step has one verb, found none"),
        (
            "levels:\n- keep: {latest: 5, attribute: a}",
            "2:32 levels[0].keep.attribute: 'latest' looks at no attribute",
        ),
        (
            "levels:\n- drop:\n    within: {low: 1, hihg: 2}",
            "3:22 levels[0].drop.within: unknown parameter 'hihg' (did you mean 'high'?); allowed: low, high",
        ),
        (
            "levels:\n- keep: {latest: {n: 1, window: 2}}",
            "2:25 levels[0].keep.latest: duplicate key 'window', first at line 2, column 19 (as 'n')",
        ),
        (
            "levels:\n- keep: {latest: 0}",
            "2:18 levels[0].keep.latest.n: expected a whole number of at least 1, found 0",
        ),
        ("levels:\n- keep: {latest_by: a..b}", "2:21 levels[0].keep.latest_by.by: attribute path 'a..b'"),
    ],
)
def test_complaints(text: str, says: str) -> None:
    assert str(refused(text)).startswith(says)


@pytest.mark.parametrize(
    ("use", "says"),
    [
        ("[uniq]", "9 : expected a filter, for example"),
        ("{uniq: , guniq: }", "9 : a step has one filter, found uniq and guniq"),
        ("{missing: keep}", "9 : a step has one filter, found none"),
        ("guinq", "9 : unknown filter 'guinq' (did you mean 'guniq'?)"),
        ("{detla: 5}", "10 : unknown filter 'detla' (did you mean 'delta'?)"),
        ("{DELTA: 5}", "10 : unknown filter 'DELTA' (did you mean 'delta'?)"),
        ("{uniq: , attribute: 5}", "29 .attribute: expected a text, found 5"),
        ("{uniq: , missing: no}", "27 .missing: unknown word 'no'"),
        ("within", "9 .within: 'within' needs 'low' and 'high'; allowed: low (number or text), high"),
        ("{within: [1]}", "18 .within: 'within' needs 'high'"),
        ("{within: [1, 2, 3]}", "25 .within: 'within' takes 2 parameters, found 3"),
        ("{within: [9, 1]}", "18 .within: low 9 is above high 1: nothing can match"),
        ("{within: [1, [2]]}", "22 .within.high: expected a number or a text, found a list"),
        ("{delta: .nan}", "17 .delta.change: expected a finite number, found nan"),
        ("{delta: 1e999}", "17 .delta.change: expected a finite number, found inf"),
        (f"{{gt: {10**20}}}", "14 .gt.value: expected a number of at most 64 bits"),
        (f"{{gt: {'9' * 9999}}}", "14 .gt.value: expected a finite number, found inf"),
        ("{delta: {change: null}}", "26 .delta.change: expected a number, found nothing"),
        ("{delta: [5, evnt]}", "21 .delta.since: found 'evnt'; allowed: kept or event"),
        ("{uniq: 5}", "16 .uniq: 'uniq' takes no parameters, found 5"),
        ("{match: 5}", "17 .match.pattern: expected a text, found 5"),
        ("{match: (}", "17 .match.pattern: the pattern '(' is not accepted"),
        ("{inset: []}", "17 .inset.values: expected at least one value"),
        ("{inset: [a, {}]}", "21 .inset.values[1]: expected a number, a text or true/false, found a mapping"),
        ("{inset: [a, ~]}", "21 .inset.values[1]: expected a number, a text or true/false, found nothing"),
    ],
)
def test_complaints_about_a_step(use: str, says: str) -> None:
    """`says` begins with the column and the path below `levels[0].drop`."""
    column, _, rest = says.partition(" ")
    assert str(refused(f"levels:\n- drop: {use}")).startswith(f"2:{column} levels[0].drop{rest}")


@pytest.mark.parametrize(
    ("written", "us"),
    [("1s", 1_000_000), ("500ms", 500_000), ("1.5 s", 1_500_000), ("2min", 120_000_000), (2, 2_000_000),
     (0.25, 250_000), ("1d", 86_400_000_000)],
)  # fmt: skip
def test_fresh(written: object, us: int) -> None:
    assert parse(f"fresh: {written}\n{LEVELS}").fresh_us == us


def test_urgent() -> None:
    one = parse(f"urgent: {{gt: 120}}\n{LEVELS}")
    assert one.urgent == (Step(Verb.KEEP, filters.Gt(value=120)),)
    two = parse(f"urgent: [{{gt: 120}}, {{inset: [a, b], attribute: kind}}]\n{LEVELS}")
    assert two.urgent[1] == Step(Verb.KEEP, filters.Inset(values=("a", "b")), attribute="kind")
    assert parse(f"urgent: [{{gt: 120}}]\n{LEVELS}") == one


def test_matters() -> None:
    made = parse(f"matters: [{{gt: 120}}, {{lt: 90, attribute: spo2}}]\n{LEVELS}")
    assert made.matters == (
        Step(Verb.KEEP, filters.Gt(value=120)),
        Step(Verb.KEEP, filters.Lt(value=90), attribute="spo2"),
    )
    assert made.urgent == ()


PREDICATES = "allowed: gt, ge, eq, ne, lt, le, match, within, inset, contain, subset, supset"


@pytest.mark.parametrize(
    ("key", "says"),
    [
        ("fresh: -1s", "1:8 fresh: expected a time like 500ms, 1s or 2min, found '-1s'; allowed: 1ms to 24h"),
        ("fresh: 0", "1:8 fresh: expected a time above 0 and not above a day, found 0; allowed: 1ms to 24h"),
        ("fresh: 0s", "1:8 fresh: expected a time above 0 and not above a day, found '0s'; allowed: 1ms"),
        ("fresh: 25h", "1:8 fresh: expected a time above 0 and not above a day, found '25h'"),
        ("fresh: [1]", "1:8 fresh: expected a time like 500ms, 1s or 2min, found a list"),
        ("fresh: true", "1:8 fresh: expected a time like 500ms, 1s or 2min, found true"),
        (
            "urgent: 120",
            f"1:9 urgent: expected a predicate, for example `{{gt: 120}}`, found 120; {PREDICATES}",
        ),
        ("urgent: []", "1:9 urgent: expected a predicate, for example `{gt: 120}`, found an empty list"),
        ("urgent: {latest: 5}", "1:10 urgent: 'latest' does not look at the value of one event alone"),
        ("urgent: {older: 5}", "1:10 urgent: 'older' does not look at the value of one event alone"),
        ("urgent: {keep: {gt: 5}}", f"1:10 urgent: unknown predicate 'keep'; {PREDICATES}"),
        ("urgent: [{gt: 1}, {lt: 2, missing: drop}]", "1:27 urgent[1]: unknown predicate 'missing'"),
        ("urgent: {gt: 1, lt: 5}", "1:9 urgent: a predicate has one filter, found gt and lt; write several"),
        ("urgent: {gt: []}", "1:14 urgent.gt: 'gt' needs 'value'"),
        (f"urgent: [{'{gt: 1}, ' * 17}]", "1:9 urgent: 17 predicates; at most 16"),
        ("matters: 120", "1:10 matters: expected a predicate, for example `{gt: 120}`, found 120"),
        ("matters: [{gt: 1}, {uniq}]", "1:21 matters[1]: 'uniq' does not look at the value of one event"),
        (f"matters: [{'{gt: 1}, ' * 17}]", "1:10 matters: 17 predicates; at most 16"),
    ],
)
def test_complaints_about_fresh_and_urgent(key: str, says: str) -> None:
    assert str(refused(f"{key}\n{LEVELS}")).startswith(says)


def test_how_digests_are_sent() -> None:
    found = parse(f"digest: {{pulse: [mean], every: 1s, share: 0.2}}\n{LEVELS}")
    assert found.digest == (("pulse", "mean"),)
    assert (found.digest_every_us, found.digest_share) == (1_000_000, 0.2)
    found = parse(f"digest: {{share: 20%, every: 0.5}}\n{LEVELS}")
    assert (found.digest, found.digest_every_us, found.digest_share) == ((), 500_000, 0.2)
    named = parse(f"digest: {{every: [mean], share: [max]}}\n{LEVELS}")
    assert named.digest == (("every", "mean"), ("share", "max"))
    assert (named.digest_every_us, named.digest_share) == (None, None)


@pytest.mark.parametrize(
    ("key", "says"),
    [
        (
            "{share: 1.5}",
            "1:17 digest.share: expected a share above 0 and not above 1, found 1.5; allowed: 0.1 or 10%",
        ),
        (
            "{share: 0}",
            "1:17 digest.share: expected a share above 0 and not above 1, found 0; allowed: 0.1 or",
        ),
        ("{share: -0.1}", "1:17 digest.share: expected a share above 0 and not above 1, found -0.1"),
        ("{share: 150%}", "1:17 digest.share: expected a share above 0 and not above 1, found '150%'"),
        ("{share: much}", "1:17 digest.share: expected a share above 0 and not above 1, found 'much'"),
        (
            "{every: -1s}",
            "1:17 digest.every: expected a time like 500ms, 1s or 2min, found '-1s'; allowed: 1ms",
        ),
        (
            "{every: -1}",
            "1:17 digest.every: expected a time above 0 and not above a day, found -1; allowed: 1ms",
        ),
        ("{every: 0}", "1:17 digest.every: expected a time above 0 and not above a day, found 0"),
        ("{every: {a: 1}}", "1:17 digest.every: expected a time like 500ms, 1s or 2min, found"),
        ("{every: 1s, every: 2s}", "1:21 digest.every: duplicate key 'every', first at"),
        ("{every: 1s, every: [mean]}", "1:21 digest.every: duplicate key 'every', first at"),
        ("{pulse: 1s}", "1:10 digest.pulse: expected a list of digesters, found '1s'"),
    ],
)
def test_complaints_about_how_digests_are_sent(key: str, says: str) -> None:
    assert str(refused(f"digest: {key}\n{LEVELS}")).startswith(says)


def test_a_complaint_names_its_source() -> None:
    with pytest.raises(PolicyError) as caught:
        parse("levels:\n- drop: {detla: 5}", source="my.yaml")
    assert str(caught.value).startswith(
        "my.yaml:2:10 levels[0].drop: unknown filter 'detla' (did you mean 'delta'?)"
    )
    assert caught.value.facts()["source"] == "my.yaml"


def test_long_words_are_cut_in_complaints() -> None:
    assert len(str(refused(f"levels: [drop: {'x' * 9000}]"))) < 400


def test_no_control_characters_in_complaints() -> None:
    error = refused('levels: [drop: "\\e[2J"]')
    assert "\x1b" not in str(error)


# -- bytes and forms -----------------------------------------------------------------------------------------


def test_bytes_with_a_byte_order_mark() -> None:
    assert parse(b"\xef\xbb\xbf" + LEVELS.encode()) == parse(LEVELS)
    assert parse("\ufeff{}".replace("{}", '{"levels": [{"drop": "uniq"}]}')) == parse(LEVELS)
    assert parse(b'\xef\xbb\xbf<policy><level><filter name="UNIQ"/></level></policy>') == parse(LEVELS)


def test_bytes_that_are_no_text() -> None:
    assert "not UTF-8: byte 0xff at offset 6" in str(refused(b"name: \xff"))
    assert "half a surrogate pair is not a character" in str(refused("name: \ud800"))


def test_size() -> None:
    filled = LEVELS + "#" * (limits.POLICY_BYTES - len(LEVELS))
    parse(filled)
    assert "a policy of 65536 bytes; at most 65535" in str(refused(filled + "#"))
    assert "a policy of 131" in str(refused("é" * limits.POLICY_BYTES))


def test_too_large_to_be_written() -> None:
    texts = tuple(f"{number}{'x' * 100}" for number in range(1000))
    policy = Policy(levels=((Step(Verb.DROP, filters.Inset(values=texts)),),))
    with pytest.raises(PolicyError, match=r"as YAML this policy has .* at most 65535 can be read"):
        to_yaml(policy)
