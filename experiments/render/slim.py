"""A drawing in fewer characters: what the drawing library writes beyond what anybody can see.

Coordinates keep two decimals (a hundredth of a point), identifiers that nothing refers to go, and so do indentation
and turns by nothing.
"""

from __future__ import annotations

import re

TAG = re.compile(r"<[^>]*>")
LONG = re.compile(r"(?<![\w#.])-?\d+\.\d{3,}(?![\w.])")
"""A number with more than two decimals; not a part of a name, a colour or a picture in base64."""


def slim(svg: str) -> str:
    """An SVG of `solarjax.report.figures.to_svg`, the same to look at. Its text is left alone."""
    used = set(re.findall(r'(?:href="#|url\(#)([^")]+)', svg))
    svg = re.sub(r' id="([^"]*)"', lambda found: found[0] if found[1] in used else "", svg)
    svg = re.sub(r' transform="rotate\(-0 [^)]*\)"', "", svg)
    svg = TAG.sub(lambda tag: LONG.sub(lambda found: _two_decimals(found[0]), tag[0]), svg)
    # Line ends stay, so that a change of a figure is a change of some lines.
    return re.sub(r"\s*\n\s*", "\n", svg)


def _two_decimals(number: str) -> str:
    text = f"{float(number):.2f}".rstrip("0").rstrip(".")
    return "0" if text == "-0" else text
