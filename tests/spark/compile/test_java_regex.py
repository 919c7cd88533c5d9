"""Patterns mean to Java what they mean to RE2: every pattern on every text, both engines."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from pyspark.sql import functions as sf

from penstock.errors import PolicyError
from penstock.pipeline.compile.java_regex import to_java
from penstock.policy.params import regex
from tests.agreement.cases import PATTERNS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TRICKY = [
    "a$", "^a", "a.b", "(?s)a.b", "(?m)^b$", "(?m)^$", "(?m)a$", r"\Aa\z", r"\bfoo\b", r"\bé",
    r"o\B", r"a\Bb", r"\s", r"^\S+$", r"\w+é", r"\d", r"[[:alpha:]]+1", r"[^[:^digit:]]", r"\pL{3}",
    r"\p{Greek}", r"\P{L}", r"\pN", r"\p{^Lu}", "(?i)K", "(?i)s", "(?i)i", "(?i:ß)", "(?i)[k-m]x",
    "(?i)É(?-i)A", "a{2}", "a{2,}b", "a{,2}", "{", "}", "x*", "(a|ab)(c|bcd)$", "(?P<n>a)b",
    "(?<n>a)b", "(?U)a+b", "a+?b", "a??b", r"\Q.+\E", r"\Qa.b", r"\x41", r"\x{1F600}", r"\101",
    r"\0", r"[]]", r"[^]]", r"[\]a]", r"[a\-z]", r"[&&]", r"[a&&b]", r"[[a]", "#", " ", "a b",
    r"\.", r"\#", r"\v", r"\a", r"[\v]", r"[\s]", "|", "(|a)", "()", "^*a", r"(?:\b)+foo", "é",
    "日", "[一-龥]", "😀", "[😀-😂]", r"\r", "\n", r"(?i)\x{212a}", r"[^\n]", "(?im)^B$",
    "(?i-s:A.)", r"\pZ", "ſ", r"\$", "$", "^", "^$", r"a\z|b",
]  # fmt: skip
TEXTS = [
    "", "a", "b", "A", "aa", "aab", "ab", "abcd", "a\nb", "a\n", "\na", "a\rb", "a\r\n",
    "a\u2028b", "a\u0085", "foo", "foo bar", "éfoo", "fooé", "é", "É", "éa", "ÉA", "K", "k", "K",
    "ſ", "S", "İ", "ı", "I", "i", "ß", "ẞ", "α", "Ω", "5", "٥", "Ⅷ", "a1", "\v", "\t", "\xa0",
    " ", "{", "}", "a{,2}", "a{2}", "]", "[", "&", "a&b", "-", ".", ".+", "#", "$", "a b", "😀",
    "😁x", "日本", "\x00", "\x07", "lx", "Kx", "Kx", "A@", "\\", "x.b", "B\nb",
]  # fmt: skip


def test_every_pattern_on_every_text(spark: SparkSession) -> None:
    patterns = [*PATTERNS, *TRICKY]
    frame = spark.createDataFrame([(text,) for text in TEXTS], "t string")
    found = frame.select(
        "t", sf.array(*(sf.col("t").rlike(to_java(pattern)) for pattern in patterns)).alias("m")
    )
    differ = [
        (pattern, row["t"], matched)
        for row in found.collect()
        for pattern, matched in zip(patterns, row["m"], strict=True)
        if matched != (regex(pattern).search(row["t"]) is not None)
    ]
    assert differ == []


def test_a_single_byte_cannot_be_matched() -> None:
    with pytest.raises(PolicyError, match="a single byte, cannot be matched on Spark"):
        to_java(r"a\Cb")
