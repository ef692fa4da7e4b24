# SPDX-FileCopyrightText: 2026 The shard8 authors
# SPDX-License-Identifier: Apache-2.0
"""Draws SVG: marks, axes and labels. Colours of text and lines come from the page's style, by class."""
import math

from study.quote import html

SERIES = ["#4477AA", "#EE6677", "#228833", "#CCBB44", "#66CCEE", "#AA3377", "#8899AA"]  # Tol's bright palette
LETTER = 7.2  # width of a letter of the labels, for estimates: that of the widest of the fonts
LABEL = 12    # size of the labels


def number(value):
    """A number as short as it can be read: 0.004, 1.25, 37, 1,200."""
    if value == 0:
        return "0"
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    digits = max(0, 2 - int(math.floor(math.log10(abs(value)))))
    text = f"{value:.{min(digits, 6)}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def short_number(value):
    """A number in at most five letters, for axes: 37, 1.2k, 250k, 3M."""
    for unit, letter in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= unit:
            return f"{number(value / unit)}{letter}"
    return number(value)


def ticks(low, high, count=5):
    """Round numbers from low to high, about `count` of them."""
    span = high - low or 1.0
    step = 10 ** math.floor(math.log10(span / count))
    step *= next(m for m in (1, 2, 5, 10) if span / (step * m) <= count)
    first = math.ceil(low / step - 1e-9)
    return [step * i for i in range(first, int(math.floor(high / step + 1e-9)) + 1)]


class Svg:
    """One picture of a width and a height in pixels."""

    def __init__(self, width, height, title):
        self.width, self.height, self.title, self.parts, self.taken = width, height, title, [], []

    def add(self, text):
        self.parts.append(text)

    def rect(self, x, y, width, height, color, tip="", opacity=1.0):
        extra = f' fill-opacity="{opacity:.3f}"' if opacity < 1 else ""
        body = f"<title>{html(tip)}</title>" if tip else ""
        self.add(f'<rect x="{x:.1f}" y="{y:.1f}" width="{max(width, 0):.1f}" height="{height:.1f}" fill="{color}"{extra}>'
                 f'{body}</rect>')

    def line(self, x1, y1, x2, y2, name="grid", color=""):
        stroke = f' style="stroke:{color}"' if color else ""
        self.add(f'<line class="{name}" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"{stroke}/>')

    def path(self, points, color, name="curve", tip="", dashes=""):
        text = "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
        body = f"<title>{html(tip)}</title>" if tip else ""
        dashes = f";stroke-dasharray:{dashes}" if dashes else ""
        stroke = f' style="stroke:{color}{dashes}"' if color else ""
        self.add(f'<path class="{name}" d="{text}"{stroke}>{body}</path>')

    def dot(self, x, y, color, tip=""):
        self.add(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{color}"><title>{html(tip)}</title></circle>')

    def text(self, x, y, text, anchor="start", name="label"):
        self.taken.append(box_of(x, y, text, anchor))
        self.add(f'<text class="{name}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{html(text)}</text>')

    def text_if_free(self, places, text, name="label"):
        """Writes a text at the first of the places [(x, y, anchor)] where it lies in the picture and over no other text;
        nowhere if there is none. Returns whether it was written."""
        for x, y, anchor in places:
            left, top, right, bottom = box_of(x, y, text, anchor)
            inside = left >= 0 and right <= self.width and top >= 0 and bottom <= self.height
            if inside and not any(left < t[2] and t[0] < right and top < t[3] and t[1] < bottom for t in self.taken):
                self.text(x, y, text, anchor, name)
                return True
        return False

    def write(self):
        return (f'<svg role="img" aria-label="{html(self.title)}" viewBox="0 0 {self.width} {self.height}" '
                f'width="{self.width}" height="{self.height}" xmlns="http://www.w3.org/2000/svg">' +
                "".join(self.parts) + "</svg>")


def box_of(x, y, text, anchor):
    """(left, top, right, bottom) of a text, by the width of its letters."""
    wide = LETTER * len(text)
    left = x - wide * {"start": 0.0, "middle": 0.5, "end": 1.0}[anchor]
    return left, y - 0.8 * LABEL, left + wide, y + 0.2 * LABEL


def cut(text, letters):
    """A label of at most so many letters; its middle is left out."""
    if len(text) <= letters:
        return text
    half = max(2, (letters - 1) // 2)
    return text[:half] + "…" + text[-half:]


class Axes:
    """A frame with two axes: values of x and y become pixels. `logs`: which of them are logarithmic ("x", "y"). `margin`: pixels
    at the right. `write`: the text of a number of the y axis."""

    def __init__(self, svg, x_range, y_range, x_name, y_name, logs="", margin=14, write=number):
        self.svg, self.logs, self.write = svg, logs, write
        self.left, self.top, self.right, self.bottom = 56, 26, svg.width - margin, svg.height - 42
        self.x_range, self.y_range = x_range, y_range
        self.x_name, self.y_name = x_name, y_name

    @staticmethod
    def place(value, span, is_log):
        low, high = span
        if not is_log and high == low:
            return 0.5
        if is_log:
            value, low, high = math.log(max(value, 1e-300)), math.log(low), math.log(high)
        return (value - low) / ((high - low) or 1.0)

    def x(self, value):
        return self.left + (self.right - self.left) * self.place(value, self.x_range, "x" in self.logs)

    def y(self, value):
        return self.bottom - (self.bottom - self.top) * self.place(value, self.y_range, "y" in self.logs)

    def values(self, span, is_log, given, count):
        if given is not None:
            return given
        if not is_log:
            return ticks(*span, count)
        low, high = math.floor(math.log10(span[0])), math.ceil(math.log10(span[1]))
        steps = (1,) if high - low > 4 else (1, 2, 5)
        found = [m * 10.0 ** i for i in range(low, high + 1) for m in steps if span[0] <= m * 10.0 ** i <= span[1]]
        return found if len(found) > 1 else ticks(*span, count)

    def frame(self, x_ticks=None, y_ticks=None):
        svg = self.svg
        svg.text(self.left - 48, 12, self.y_name, "start", "name")
        svg.text(self.right, svg.height - 6, self.x_name, "end", "name")
        for value in self.values(self.y_range, "y" in self.logs, y_ticks, 4):
            svg.line(self.left, self.y(value), self.right, self.y(value))
            svg.text_if_free([(self.left - 8, self.y(value) + 4, "end")], self.write(value))
        for value in self.values(self.x_range, "x" in self.logs, x_ticks, max(3, svg.width // 130)):
            svg.line(self.x(value), self.bottom, self.x(value), self.bottom + 4, "axis")
            svg.text_if_free([(self.x(value), self.bottom + 18, "middle")], number(value))
        svg.line(self.left, self.bottom, self.right, self.bottom, "axis")
