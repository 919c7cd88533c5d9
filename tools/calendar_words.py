"""Writes `core/channels/difference/noise/calendar.json`: words for dates, times and ages in 31 languages.

The words are those of CLDR, taken from Babel. They are written down once, because loading Babel's data for so
many languages takes a second and 35 MB in every node, and the words of a calendar do not change.

    python tools/calendar_words.py > src/penstock/core/channels/difference/noise/calendar.json
"""

from __future__ import annotations

import json
import re
import sys
from typing import Any

from babel.localedata import LocaleDataDict, load

LANGUAGES = tuple(
    "en de fr es it pt nl sv da nb fi pl cs sk hu ro bg el ru uk tr ar he fa hi id vi th ja ko zh".split()  # noqa: SIM905
)
"""As CLDR names them."""

# Babel does not have these.
DAYS = {
    0: """
    today heute aujourd'hui aujourd’hui hoy oggi hoje vandaag idag tänään dziś dzisiaj dnes ma azi днес σήμερα
    сегодня сьогодні bugün اليوم היום امروز आज วันนี้ 今日 本日 오늘 今天""",
    -1: """
    yesterday gestern hier ayer ieri ontem gisteren igår eilen wczoraj včera tegnap вчера χθες вчора dün أمس
    אתמול دیروز kemarin เมื่อวาน 昨日 어제 昨天""",
    1: """
    tomorrow morgen demain mañana domani amanhã imorgon huomenna jutro zítra zajtra holnap mâine утре αύριο
    завтра yarın غدا מחר فردا besok พรุ่งนี้ 明日 내일 明天""",
}
NOW = """
just now|right now|a moment ago|moments ago|a few seconds ago|seconds ago|gerade eben|soeben|à l'instant
à l’instant|ahora mismo|justo ahora|proprio ora|agora mesmo|zojuist|just nu|lige nu|akkurat nå|juuri nyt
przed chwilą|právě teď|práve teraz|épp most|chiar acum|току-що|μόλις τώρα|только что|щойно|az önce|şimdi
الآن|עכשיו|अभी|baru saja|vừa xong|เมื่อสักครู่|たった今|방금|刚刚"""
ONES = """
a an one ein eine einer einem einen un une uno una um uma een één en ett et yksi jeden jedna jednu jedną egy o
един една ένα μία один одна одну bir satu một"""

UNITS = {
    "second": 1,
    "minute": 60,
    "hour": 3_600,
    "day": 86_400,
    "week": 604_800,
    "month": 2_629_746,
    "year": 31_556_952,
}


def words(language: str) -> dict[str, Any]:
    """Return the words of one language."""
    data = LocaleDataDict(load(language))
    found: dict[str, Any] = {"months": {}, "weekdays": {}, "halves": {}, "spans": {}, "phrases": {}}
    for context in ("format", "stand-alone"):
        for width in ("wide", "abbreviated"):
            for table, names in (("months", "months"), ("weekdays", "days")):
                for number, name in data[names][context][width].items():
                    found[table].setdefault(_bare(name), number)
    for width in ("wide", "abbreviated", "narrow"):
        halves = data["day_periods"]["format"][width]
        found["halves"] |= {halves[half].lower(): half for half in ("am", "pm") if half in halves}
    for unit, seconds in UNITS.items():
        for length in ("", "-short", "-narrow"):
            ways = data["date_fields"].get(unit + length, {})
            for direction, sign in (("past", -1), ("future", 1)):
                _add_all(found, ways.get(direction, {}), seconds, sign)
        for length in ("long", "short", "narrow"):
            _add_all(found, data["unit_patterns"].get(f"duration-{unit}", {}).get(length, {}), seconds, 0)
    return found


def _add_all(found: dict[str, Any], patterns: dict[str, str], seconds: int, sign: int) -> None:
    for form, pattern in patterns.items():
        if form != "per":
            _add(found, form, pattern, seconds, sign)


def _bare(name: str) -> str:
    return name.lower().rstrip(".")


def _add(found: dict[str, Any], form: str, pattern: str, seconds: int, sign: int) -> None:
    """Add a pattern as `after the number -> [before the number, seconds, sign]`."""
    pattern = " ".join(re.sub("[\u200e\u200f\u061c]", "", pattern).lower().split())
    if "{0}" not in pattern:
        count = {"one": 1, "two": 2}.get(form)
        if count and sign:
            found["phrases"].setdefault(pattern, [count * seconds, seconds, sign])
        return
    before, _, after = pattern.partition("{0}")
    entry = [before, seconds, sign]
    if after and entry not in found["spans"].setdefault(after, []):
        found["spans"][after].append(entry)


def merged() -> dict[str, Any]:
    """Merge all languages: a word may mean several things."""
    whole: dict[str, Any] = {"months": {}, "weekdays": {}, "halves": {}, "spans": {}, "phrases": {}}
    for language in LANGUAGES:
        for table, entries in words(language).items():
            for word, meaning in entries.items():
                if table == "spans":
                    known = whole[table].setdefault(word, [])
                    known += [entry for entry in meaning if entry not in known]
                elif table in ("months", "weekdays"):
                    known = whole[table].setdefault(word, [])
                    if meaning not in known:
                        known.append(meaning)
                else:
                    whole[table].setdefault(word, meaning)
    return {
        **{table: dict(sorted(entries.items())) for table, entries in whole.items()},
        "days": {word: offset for offset, words_ in DAYS.items() for word in words_.split()},
        "now": NOW.strip().replace("\n", "|").split("|"),
        "ones": ONES.split(),
    }


if __name__ == "__main__":
    json.dump(merged(), sys.stdout, ensure_ascii=False, separators=(",", ":"))
    sys.stdout.write("\n")
