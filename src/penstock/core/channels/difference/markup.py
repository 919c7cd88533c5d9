"""What elements of HTML mean for lines: which begin one, which are furniture, which are never seen."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, Final


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


BLOCKS: Final = _set(
    "address article aside blockquote body button caption center dd details dialog dir div dl dt "
    "fieldset figcaption figure footer form h1 h2 h3 h4 h5 h6 header hgroup hr html legend li main menu "
    "nav ol option p pre section summary table tbody textarea tfoot thead tr ul video audio"
)
CELLS: Final = frozenset({"td", "th"})
PREFORMATTED: Final = frozenset({"pre", "textarea", "listing", "plaintext", "xmp"})
_UNSEEN: Final = _set(
    "script style noscript template svg iframe object embed canvas head title meta link base datalist "
    "map audio video param source track noframes frameset applet"
)
_ASIDES: Final = frozenset({"nav", "aside", "footer"})
_ASIDE_ROLES: Final = frozenset({"navigation", "complementary", "contentinfo", "search"})
_ASIDE_WORDS: Final = _set(
    "sidebar nav navbar navigation breadcrumb breadcrumbs footer related recommended recommendations trending"
)
_AD_WORDS: Final = _set(
    "ad ads advert adverts advertisement advertisements advertising adsbygoogle adsense adslot adunit "
    "adbox sponsor sponsored promoted outbrain taboola doubleclick dfp"
)
_CONSENT_WORDS: Final = frozenset(
    {"banner", "notice", "consent", "bar", "popup", "modal", "overlay", "dialog"}
)
_NOT_SHOWN: Final = re.compile(r"display\s*:\s*none|visibility\s*:\s*hidden", re.IGNORECASE)
_WORDS: Final = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_STEADY: Final = re.compile(r"[A-Za-z_-]{1,30}")
_STYLE_CHARS: Final = 1_000


def is_hidden(element: Any) -> bool:
    """Whether nobody sees it."""
    if element.tag in _UNSEEN or not isinstance(element.tag, str):
        return True
    if not element.attrib:
        return False
    if element.get("hidden") is not None or element.get("aria-hidden") == "true":
        return True
    style = element.get("style")
    return style is not None and _NOT_SHOWN.search(style[:_STYLE_CHARS]) is not None


def is_advertisement(element: Any) -> bool:
    """Whether its names say that it is one, or that it asks for consent."""
    if not element.attrib:
        return False
    words = _names(element)
    return bool(words & _AD_WORDS) or (
        bool(words & {"cookie", "cookies", "gdpr", "consent"}) and bool(words & _CONSENT_WORDS)
    )


def is_aside(element: Any) -> bool:
    """Whether it is marked as beside the content: navigation, footer, what else there is to read."""
    return element.tag in _ASIDES or (bool(element.attrib) and element.get("role") in _ASIDE_ROLES)


def is_named_aside(element: Any) -> bool:
    """Whether its names say so."""
    return bool(element.attrib) and bool(_names(element) & _ASIDE_WORDS)


def label(element: Any) -> str:
    """Its name in a place: tag, id and classes, those without digits: the others are made by machines."""
    if not element.attrib:
        return str(element.tag)
    return _label(element.tag, element.get("id") or "", element.get("class") or "")


@lru_cache(maxsize=4_096)
def _label(tag: str, own: str, classes: str) -> str:
    name = f"#{own}" if _STEADY.fullmatch(own) else ""
    steady = [one for one in classes.split()[:8] if _STEADY.fullmatch(one)][:3]
    return tag + name + "".join(f".{one}" for one in sorted(steady))


def _names(element: Any) -> frozenset[str]:
    own, classes = element.get("id"), element.get("class")
    return _words(own or "", classes or "") if own or classes else frozenset()


@lru_cache(maxsize=4_096)
def _words(own: str, classes: str) -> frozenset[str]:
    return frozenset(word.lower() for word in _WORDS.findall(f"{own} {classes}"[:_STYLE_CHARS]))
