# SPDX-FileCopyrightText: 2026 The shard8 authors
# SPDX-License-Identifier: Apache-2.0
"""Contrast of the texts of a page with what is behind them, from the page's style sheets. Contrast as WCAG 2.2 defines it:
https://www.w3.org/TR/WCAG22/#dfn-contrast-ratio"""
import colorsys
import re

from css import Sheet, split

LEAST = 4.5  # WCAG 2.2, success criterion 1.4.3, for texts of ordinary size
SCHEMES = ("default", "slate")  # of Material: light and dark
NAMES = {"white": (1, 1, 1, 1), "black": (0, 0, 0, 1), "transparent": (0, 0, 0, 0)}
UNSEEN = {"head", "script", "style", "svg", "title", "template", "noscript"}


def number(text, whole):
    return float(text[:-1]) / 100 if text.endswith("%") else float(text.removesuffix("deg")) / whole


def colour(text):
    """Red, green, blue and opacity from 0 to 1. Raises ValueError."""
    text = text.strip().lower()
    if text in NAMES:
        return NAMES[text]
    if re.fullmatch(r"#([0-9a-f]{3,4}|[0-9a-f]{6}|[0-9a-f]{8})", text):
        digits = text[1:] if len(text) > 5 else "".join(2 * digit for digit in text[1:])
        return tuple(int(digits[i:i + 2], 16) / 255 for i in range(0, 6, 2)) + (int(digits[6:] or "ff", 16) / 255,)
    match = re.fullmatch(r"(rgb|hsl)a?\((.*)\)", text)
    parts = re.split(r"[\s,/]+", match[2].strip()) if match else []
    if len(parts) not in (3, 4):
        raise ValueError(text)
    opacity = number(parts[3], 1) if len(parts) == 4 else 1.0
    if match[1] == "rgb":
        return tuple(number(part, 255) for part in parts[:3]) + (opacity,)
    hue, saturation, lightness = number(parts[0], 360), number(parts[1], 1), number(parts[2], 1)
    return colorsys.hls_to_rgb(hue, lightness, saturation) + (opacity,)


def over(top, bottom, opacity=1.0):
    """A colour upon an opaque one."""
    alpha = top[3] * opacity
    return tuple(alpha * t + (1 - alpha) * b for t, b in zip(top[:3], bottom[:3])) + (1.0,)


def luminance(rgb):
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in rgb[:3]]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(a, b):
    low, high = sorted((luminance(a), luminance(b)))
    return (high + 0.05) / (low + 0.05)


class Style:
    """What children inherit, and what is behind the element's text."""

    def __init__(self, variables, text, behind, opacity):
        self.variables, self.text, self.behind, self.opacity = variables, text, behind, opacity


def resolved(value, variables):
    """A value with its variables put in. Raises ValueError for one that is not declared."""
    while match := re.search(r"var\(\s*(--[\w-]+)\s*(?:,((?:[^()]|\([^()]*\))*))?\)", value):
        inner = variables.get(match[1], match[2])
        if inner is None:
            raise ValueError(f"{match[1]} is not declared")
        value = value[:match.start()] + inner.strip() + value[match.end():]
    return value


def background(value, variables):
    """The colour in a shorthand: the first word that is one."""
    for word in split(value, " "):
        try:
            return colour(resolved(word, variables))
        except ValueError:
            pass
    return NAMES["transparent"]


def style_of(element, sheet, parent):
    declared = sheet.declared(element)
    own = {name: value for name, value in declared.items() if name.startswith("--")}
    variables = {**parent.variables, **own} if own else parent.variables
    for name in own:
        try:
            variables[name] = resolved(own[name], variables)
        except ValueError:  # of a feature that is not used: it matters where it is read
            del variables[name]

    def read(name, inherited):
        value = declared.get(name)
        if value is None or value in ("inherit", "currentColor", "currentcolor", "unset"):
            return inherited
        return colour(resolved(value, variables))

    text = read("color", parent.text)
    upon = read("background-color", None) or background(declared.get("background", ""), variables)
    behind = over(upon, parent.behind)
    opacity = float(declared.get("opacity", 1)) or 1.0  # what is unseen at first is seen later
    return Style(variables, text, behind, parent.opacity * opacity)


class Contrast:
    """Checks pages that have the same style sheets. Elements with the same chain of parents are computed once."""

    def __init__(self, sheets):
        self.sheet = Sheet(sheets, lambda name: name.startswith("--") or
                           name in ("color", "background-color", "background", "opacity"))
        self.depends = sorted(self.sheet.attributes)
        self.keys, self.seen = {}, {}

    def faults(self, root):
        """Line and message of each text with too little contrast that no page before had."""
        for scheme in SCHEMES:
            for element in root:
                if element.tag == "body":
                    element.attributes["data-md-color-scheme"] = scheme
            start = Style({}, NAMES["black"], NAMES["white"], 1.0)
            yield from self._below(root, scheme, start, scheme)

    def _below(self, element, chain, parent, scheme):
        if element.tag in UNSEEN or "hidden" in element.attributes:
            return
        relevant = tuple((name, element.attributes.get(name)) for name in self.depends)
        key = self.keys.setdefault((chain, element.tag, relevant), len(self.keys))
        known = key in self.seen
        if not known:
            try:
                self.seen[key] = style_of(element, self.sheet, parent)
            except ValueError as error:
                yield element.line, f"cannot read a colour of <{element.tag} class='{' '.join(element.classes)}'>: {error}"
                self.seen[key] = parent
        style = self.seen[key]
        if element.text.strip() and (key, "text") not in self.seen:
            self.seen[(key, "text")] = style
            ratio = contrast(over(style.text, style.behind, style.opacity), style.behind)
            if ratio < LEAST:
                words, classes = " ".join(element.text.split())[:40], " ".join(sorted(element.classes))
                yield element.line, (f"contrast {ratio:.2f} of '{words}', <{element.tag} class='{classes}'>, "
                                     f"in the scheme {scheme}: {LEAST} is the least; see docs/site/extra.css")
        for child in element.children:
            yield from self._below(child, key, style, scheme)
