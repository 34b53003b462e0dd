"""The allow-list for markup of untrusted content (spec/widget.md, section 7), through nh3."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache, partial
from typing import Any

from .._json import whole

_TEXT = {
    "a", "abbr", "b", "bdi", "bdo", "blockquote", "br", "caption", "cite", "code", "col", "colgroup", "dd", "del",
    "details", "dfn", "div", "dl", "dt", "em", "figcaption", "figure", "h1", "h2", "h3", "h4", "h5", "h6", "hr", "i",
    "img", "ins", "kbd", "li", "mark", "ol", "p", "pre", "q", "rp", "rt", "ruby", "s", "samp", "small", "span",
    "strong", "sub", "summary", "sup", "table", "tbody", "td", "tfoot", "th", "thead", "tr", "u", "ul", "var", "wbr",
}  # fmt: skip
_SVG = {
    "circle", "clipPath", "defs", "desc", "ellipse", "g", "line", "linearGradient", "marker", "mask", "path",
    "pattern", "polygon", "polyline", "radialGradient", "rect", "stop", "svg", "symbol", "text", "textPath", "title",
    "tspan",
}  # fmt: skip
_MATH = {
    "annotation", "math", "menclose", "merror", "mfenced", "mfrac", "mi", "mmultiscripts", "mn", "mo", "mover",
    "mpadded", "mphantom", "mprescripts", "mroot", "mrow", "ms", "mspace", "msqrt", "mstyle", "msub", "msubsup",
    "msup", "mtable", "mtd", "mtext", "mtr", "munder", "munderover", "none", "semantics",
}  # fmt: skip
_GONE = {
    "applet", "audio", "base", "button", "embed", "form", "frame", "frameset", "iframe", "input", "link", "meta",
    "noscript", "object", "option", "script", "select", "style", "template", "textarea", "video", "xml",
}  # fmt: skip
_SHAPE = {
    "clip-path", "clip-rule", "clipPathUnits", "cx", "cy", "d", "dominant-baseline", "dx", "dy", "fill", "fill-opacity",
    "fill-rule", "font-family", "font-size", "font-style", "font-weight", "fx", "fy", "gradientTransform",
    "gradientUnits", "height", "markerHeight", "markerUnits", "markerWidth", "mask", "offset", "opacity", "orient",
    "patternTransform", "patternUnits", "points", "preserveAspectRatio", "r", "refX", "refY", "rotate", "rx", "ry",
    "spreadMethod", "stop-color", "stop-opacity", "stroke", "stroke-dasharray", "stroke-dashoffset", "stroke-linecap",
    "stroke-linejoin", "stroke-miterlimit", "stroke-opacity", "stroke-width", "text-anchor", "textLength",
    "transform",
    "version", "viewBox", "width", "x", "x1", "x2", "y", "y1", "y2",
}  # fmt: skip
_MATH_ATTRIBUTES = {
    "accent", "accentunder", "columnalign", "columnlines", "columnspacing", "columnspan", "depth", "display",
    "displaystyle", "encoding", "fence", "form", "frame", "height", "largeop", "linethickness", "lspace", "mathcolor",
    "mathsize", "mathvariant", "maxsize", "minsize", "movablelimits", "notation", "rowalign", "rowlines",
    "rowspacing",
    "rowspan", "rspace", "scriptlevel", "separator", "stretchy", "symmetric", "voffset", "width",
}  # fmt: skip
_EVERYWHERE = {"dir", "lang", "style", "title"}
_OWN = {
    "a": {"href"},
    "col": {"span"},
    "colgroup": {"span"},
    "details": {"open"},
    "img": {"alt", "height", "src", "width"},
    "li": {"value"},
    "ol": {"reversed", "start", "type"},
    "td": {"align", "colspan", "rowspan"},
    "th": {"align", "colspan", "rowspan", "scope"},
}

_LINK = re.compile(r"(https?://|mailto:|#)", re.IGNORECASE)
_IMAGE = re.compile(r"data:image/(png|jpe?g|gif|webp);base64,[A-Za-z0-9+/=\s]*$", re.IGNORECASE)
_URL = re.compile(r"url\s*\(", re.IGNORECASE)
_LOCAL_URL = re.compile(r"\s*url\(\s*['\"]?#[\w.-]+['\"]?\s*\)\s*$", re.IGNORECASE)
_PLAIN = re.compile(r"[\w#.,%()\s+-]+$")
_STYLES = {"color", "background-color", "font-weight", "font-style", "text-align"}
_BIDI = re.compile("[\u202a-\u202e\u2066-\u2069]")


def sanitise(markup: str) -> str:
    """Return markup that can't load, run, submit, or stand where it was not put.

    What is not on the list loses its tag and keeps its text; scripts and the like go with their content.
    """
    return _cleaner()(whole(markup))


@cache
def _cleaner() -> Callable[[str], str]:
    """Return the list as a function: to read it in takes longer than most texts do."""
    import nh3

    attributes = {tag: _EVERYWHERE | _OWN.get(tag, set()) for tag in _TEXT}
    attributes.update(dict.fromkeys(_SVG, _EVERYWHERE | _SHAPE))
    attributes.update(dict.fromkeys(_MATH, {"dir", "title"} | _MATH_ATTRIBUTES))
    rules: dict[str, Any] = {
        "tags": _TEXT | _SVG | _MATH,
        "clean_content_tags": _GONE - (_TEXT | _SVG | _MATH),
        "attributes": attributes,
        "attribute_filter": _filter,
        "link_rel": "noopener noreferrer",
        "url_schemes": {"http", "https", "mailto", "data"},
        "strip_comments": True,
    }
    if hasattr(nh3, "Cleaner"):  # since 0.3
        return nh3.Cleaner(**rules).clean
    return partial(nh3.clean, **rules)


def _filter(tag: str, name: str, value: str) -> str | None:
    if name == "style":
        return _style(value)
    if name == "href":
        return value if _LINK.match(value.strip()) else None
    if name == "src":
        return value if _IMAGE.match(value.strip()) else None
    if _URL.search(value) and not _LOCAL_URL.match(value):
        return None
    return value


def _style(value: str) -> str | None:
    kept = []
    for rule in value.split(";"):
        name, colon, content = rule.partition(":")
        name, content = name.strip().lower(), content.strip()
        plain = _PLAIN.match(content) and not re.search(r"url|expression|var\s*\(", content, re.IGNORECASE)
        if colon and name in _STYLES and plain:
            kept.append(f"{name}: {content}")
    return "; ".join(kept) or None


def visible(text: str) -> str:
    """Return a text whose direction overrides show as escapes, so that nothing reads other than it is."""
    return _BIDI.sub(lambda sign: f"\\u{ord(sign.group()):04x}", text)
