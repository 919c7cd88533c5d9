"""Pages as they are found in the wild: oddities by hand, each within every kind of document.

A page has `NEWS` where a reader sees it, twice: inside the oddity or behind it, and at the end. `HIDDEN` is
where no reader sees it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

NEWS: Final = "The bridge opens again in spring."
HIDDEN: Final = "nobody sees this"
_SCRIPT: Final = f"if (a <b && c> d) {{ e = '<p>{HIDDEN}</p>'; }} var x = {{" + "k: 1, " * 12_000 + "};"
_JSON: Final = '{"props": {"a": [' + "1, " * 4_000 + f'"{HIDDEN}"]}}}}'

ODDITIES: Final[dict[str, str]] = {
    "names of XML": f"<p xml:lang='de' xlink:href='#' xml:space=preserve>{NEWS}</p>",
    "names of Vue": f"<p @click='a' :class='{{b: 1}}' v-on:c.once='d' v-bind:[e]='f' #slot>{NEWS}</p>",
    "names of Angular": f"<p *ngIf='a' (click)='b()' [class.c]='d' [(ngModel)]='e' #ref>{NEWS}</p>",
    "names of Alpine and Livewire": f"<p x-data='{{a: 1}}' x-on:click.away='b' wire:model.lazy=c>{NEWS}</p>",
    "names of JSX": f"<p className=a {{...props}} on-tap='b' data-=c = == ===d>{NEWS}</p>",
    "names with quotes": f"<p \"a\" 'b' c\"d=e f'g>{NEWS}</p>",
    "names with less-than": f"<p a<b <c =<d>{NEWS}</p>",
    "no space between attributes": f"<p a='1'b='2'c=\"3\"d>{NEWS}</p>",
    "the same attribute twice": f"<p class=a class=b id=c id=d>{NEWS}</p>",
    "a thousand attributes": f"<p {' '.join(f'data-{n}={n}' for n in range(999))}>{NEWS}</p>",
    "a large attribute": f"<div data-props='{_JSON}'><p>{NEWS}</p></div>",
    "a large attribute with tags": f'<div data-html="{"<p>x</p> " * 3_000}"><p>{NEWS}</p></div>',
    "a large text of one line": f"<p>{'word, and more words ' * 2_500}</p><p>{NEWS}</p>",
    "a huge script": f"<script>{_SCRIPT}</script><p>{NEWS}</p>",
    "a script with a comment": f"<script><!-- {_SCRIPT} --></script><p>{NEWS}</p>",
    "a script that names scripts": (
        f"<script>document.write('<script src=x><\\/script>')</script><p>{NEWS}</p>"
    ),
    "data in a script": f"<script type='application/ld+json'>{_JSON}</script><p>{NEWS}</p>",
    "a huge style": f"<style>{'.a > .b { color: red } ' * 6_000}</style><p>{NEWS}</p>",
    "unknown elements": f"<my-app><x-card><foo:bar><p>{NEWS}</p></foo:bar></x-card></my-app>",
    "unknown elements of Word": (
        f"<o:p></o:p><v:shape><w:wrap/></v:shape><st1:place w:st='on'>{NEWS}</st1:place>"
    ),
    "elements that are not closed": f"<ul><li>one<li>two<p>{NEWS}<table><tr><td>a<td>b</table>",
    "elements closed in the wrong order": f"<b><i><p>{NEWS}</b></i></p></div></span></td>",
    "ends without a beginning": f"</div></p></b></table></td></body></html><p>{NEWS}</p>",
    "blocks within lines": f"<a href=x><div><p>{NEWS}</p></div></a><span><div>more</div></span>",
    "fonts that never end": "<font color=red>" * 700 + f"<p>{NEWS}</p>",
    "centres that never end": "<center><font><b>" * 300 + f"{NEWS}",
    "deep boxes": "<div>" * 1_200 + f"<p>{NEWS}</p>" + "</div>" * 1_200,
    "a table within a table within a table": "<table><tr><td>" * 60 + f"{NEWS}" + "</td></tr></table>" * 60,
    "text directly in a table": f"<table>{NEWS}<tr>and<td>more</table>",
    "cells without a table": f"<tr><td>{NEWS}</td></tr>",
    "a form around everything": f"<form><table><form><tr><td>{NEWS}</form></table></form>",
    "a template": f"<template><p>{HIDDEN}</p></template><p>{NEWS}</p>",
    "a template that is shown": f"<x-a><template shadowrootmode=open><p>{NEWS}</p></template></x-a>",
    "templates of a server": f"{{{{#if a}}}}<p {{{{b}}}} class={{% c %}}>{NEWS}</p><?php echo 1 ?><% d %>",
    "no script": f"<noscript><p>{HIDDEN}</p></noscript><p>{NEWS}</p>",
    "frames within": f"<iframe srcdoc='<p>{HIDDEN}</p>'><p>{HIDDEN}</p></iframe><p>{NEWS}</p>",
    "pictures and formulas": (
        f"<svg><text>{HIDDEN}</text><foreignObject/></svg><math><mi>x</mi></math><p>{NEWS}</p>"
    ),
    "hidden parts": f"<div style='display : none'>{HIDDEN}</div><p hidden>{HIDDEN}</p><p>{NEWS}</p>",
    "comments of every kind": f"<!-- {HIDDEN} --><!--> <!---> <!-- -- --!><![if IE]><p>{NEWS}</p><![endif]>",
    "a comment for one browser": f"<!--[if IE]><p>{HIDDEN}</p><![endif]--><p>{NEWS}</p>",
    "CDATA in HTML": f"<![CDATA[ x ]]><p>{NEWS}</p>",
    "entities": f"<p>&nosuch; &amp &lt;b&gt; &#x41; &#0; &#xD800; &#99999999; &eacute &; {NEWS}</p>",
    "control characters": f"<p>\x01\x02\x0b\x7f\u200b\ufeff\u00ad{NEWS}</p>",
    "less-than signs in the text": f"<p>1 < 2 <3 a<b c <- d <= e {NEWS.replace('.', '')}</p><p>{NEWS}</p>",
    "pre and text fields": f"<pre>\n\n a   b\n</pre><textarea><p>{NEWS}</p></textarea><p>{NEWS}</p>",
    "old elements": f"<marquee><blink><nobr><tt><acronym>{NEWS}</acronym></tt></nobr></blink></marquee>",
    "a map and an object": (
        f"<map><area><p>{HIDDEN}</p></map><object><param><p>{HIDDEN}</p></object><p>{NEWS}</p>"
    ),
    "pictures in every size": (
        f"<picture><source srcset='a 1x, b 2x'><img alt='c'></picture><figure><p>{NEWS}</p></figure>"
    ),
}


def _bare(oddity: str) -> str:
    return f"{oddity}<p>{NEWS}</p>"


def _html5(oddity: str) -> str:
    return (
        "<!doctype html><html lang=en><head><meta charset=utf-8><title>A page</title></head>"
        f"<body><nav>menu</nav><main><h1>Head</h1>{oddity}</main><p>{NEWS}</p><footer>end</footer></body></html>"
    )


def _xhtml(oddity: str) -> str:
    return (
        '<?xml version="1.0" encoding="utf-8"?>\n<!DOCTYPE html PUBLIC "-//W3C//DTD XHTML 1.0 Strict//EN" '
        '"http://www.w3.org/TR/xhtml1/DTD/xhtml1-strict.dtd">\n<html xmlns="http://www.w3.org/1999/xhtml" '
        f'xml:lang="en"><head><title>A page</title></head><body><div>{oddity}</div>'
        f"<p>{NEWS}</p></body></html>"
    )


def _old(oddity: str) -> str:
    return (
        "<HTML><HEAD><TITLE>A page</TITLE><META HTTP-EQUIV=Content-Type CONTENT='text/html; charset=utf-8'>"
        "<BODY BGCOLOR=white><TABLE WIDTH=100%><TR><TD><FONT FACE=Arial SIZE=2>"
        f"{oddity}<P>{NEWS}</TABLE>"
    )


def _app(oddity: str) -> str:
    return (
        "<!DOCTYPE html><html><head><title>A page</title>"
        f"<script>{_SCRIPT}</script></head><body><div id=app data-state='{_JSON}'>"
        f"<section><article>{oddity}<p>{NEWS}</p></article></section></div><script>{_SCRIPT}</script></body></html>"
    )


SHELLS: Final = {"bare": _bare, "HTML 5": _html5, "XHTML": _xhtml, "old": _old, "an app": _app}


def odd_pages() -> Iterator[tuple[str, bytes]]:
    """Every oddity in every kind of document, with a name."""
    for shell, wrapped in SHELLS.items():
        for name, oddity in ODDITIES.items():
            yield f"{name}, {shell}", wrapped(oddity).encode()
    frames = f"<frameset cols='1,2'><frame src=a.html><noframes><p>{NEWS}</p></noframes></frameset>"
    yield "frames with another text", f"<html><head><title>A page</title></head>{frames}</html>".encode()
