"""What of a page matters to whoever watches it: selectors, patterns, and when a change is one."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import msgspec
from xxhash import xxh3_64_intdigest

from penstock import limits
from penstock.core.channels.difference.selectors import compiled_css, compiled_jsonpath, compiled_xpath
from penstock.errors import ChannelError, PolicyError
from penstock.policy import params

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

NOISE: Final = ("dates", "ago", "counters", "sessions", "ads")
"""Kinds of noise that are left out unless a rule says otherwise."""


class Rules(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How one channel is read and compared."""

    css: tuple[str, ...] = ()
    """HTML: only what these find; with several, all of it in the order of the page."""
    xpath: tuple[str, ...] = ()
    """HTML: the same, beside `css`."""
    jsonpath: tuple[str, ...] = ()
    """JSON: only what these find."""
    exclude_css: tuple[str, ...] = ()
    """HTML: what these find is left out."""
    exclude_xpath: tuple[str, ...] = ()
    exclude_jsonpath: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    """Lines in which one of these RE2 patterns matches are left out."""
    noise: tuple[str, ...] = NOISE
    """Kinds of noise to leave out: dates, ago, counters, sessions, ads."""
    only_additions: bool = False
    """What merely goes is no change."""
    compare_last: int = 1
    """A content that is one of the last so many versions again is no change: pages that flap."""
    whole_page: bool = False
    """HTML: navigation, asides and footers too, not only the main content."""

    def reading(self) -> int:
        """Hash of the rules that decide which lines there are: contents read by others cannot be compared."""
        selecting = (self.css, self.xpath, self.jsonpath, self.exclude_css, self.exclude_xpath)
        rest = (self.exclude_jsonpath, self.ignore, self.whole_page, "ads" in self.noise)
        return xxh3_64_intdigest(msgspec.msgpack.encode((selecting, rest)))

    def check(self) -> Rules:
        """These rules; ChannelError names the one that cannot be, and where."""
        for name, compiler in _SELECTORS.items():
            _each(name, getattr(self, name), compiler)
        _each("ignore", self.ignore, pattern)
        for place, kind in enumerate(self.noise):
            if kind not in NOISE:
                raise ChannelError(
                    f"rules.noise[{place}]: there is no kind of noise {kind!r}; allowed: {', '.join(NOISE)}"
                )
        if not 1 <= self.compare_last <= limits.COMPARED_VERSIONS:
            raise ChannelError(
                f"rules.compare_last: {self.compare_last} versions; allowed: 1 to {limits.COMPARED_VERSIONS}"
            )
        return self


def rules_of(raw: object) -> Rules:
    """Rules from configuration or from the JSON of a request; ChannelError names what is wrong and where."""
    try:
        rules = msgspec.convert(raw, Rules)
    except msgspec.ValidationError as error:
        raise ChannelError(f"rules: {error}") from None
    return rules.check()


_SELECTORS: Final[dict[str, Callable[[str], Any]]] = {
    "css": compiled_css,
    "xpath": compiled_xpath,
    "jsonpath": compiled_jsonpath,
    "exclude_css": compiled_css,
    "exclude_xpath": compiled_xpath,
    "exclude_jsonpath": compiled_jsonpath,
}


def _each(name: str, texts: Sequence[str], compiler: Callable[[str], Any]) -> None:
    if len(texts) > limits.SELECTORS:
        raise ChannelError(f"rules.{name}: {len(texts)} of them; at most {limits.SELECTORS}")
    for place, text in enumerate(texts):
        try:
            compiler(text)
        except ChannelError as error:
            raise ChannelError(f"rules.{name}[{place}]: {error}") from None


@lru_cache(maxsize=1_024)
def pattern(text: str) -> Callable[[str], bool]:
    """Whether an ignore pattern is found in a line."""
    try:
        found = params.regex(params.PATTERN.parse(text))
    except PolicyError as error:
        raise ChannelError(str(error)) from None
    return lambda line: found.search(line) is not None
