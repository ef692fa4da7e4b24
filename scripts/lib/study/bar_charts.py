# SPDX-FileCopyrightText: 2026 The shard8 authors
# SPDX-License-Identifier: Apache-2.0
"""Horizontal bars with their labels, on one scale: stacked, or to both sides of zero."""
from dataclasses import dataclass, field

from study.quote import html
from study.svg import LETTER, Svg, cut, number, ticks

FEWER, MORE = "#4477AA", "#EE6677"
THICK = 20        # pixels of a stacked bar
HATCH = 6         # pixels from one line of a hatch to the next
WIDEST = 270      # pixels of labels beside bars, at most
BELOW = 18        # pixels that a mark and its text take below a bar


@dataclass
class Bar:
    """One stacked bar, of parts {name: value}.

    `second`: a second line below the label. `swatch`: (colour, text) of a square before the label. `hatched`: drawn with
    lines over it. `band`: (low, high), drawn over the bar's end and named behind its total. `mark`: (names of
    parts, text): a line below these parts, which lie side by side. `ticks`: {name: value}, drawn as upright lines."""
    label: str
    parts: dict
    second: str = ""
    swatch: tuple = ()
    hatched: bool = False
    band: tuple = ()
    mark: tuple = ()
    ticks: dict = field(default_factory=dict)

    def total(self):
        return sum(value for value in self.parts.values() if value > 0)

    def said(self, unit, narrow):
        """What stands behind the bar."""
        if self.ticks:
            values = [number(self.total()), *(number(value) for value in self.ticks.values())]
            named = [f"{name} {value}" for name, value in zip(self.ticks, values[1:])]
            return f"{' | '.join(values)} {unit}" if narrow else ", ".join([f"{values[0]} {unit}", *named])
        text = f"{number(self.total())} {unit}"
        return f"{text} ({number(self.band[0])} to {number(self.band[1])})" if self.band and not narrow else text


class Rows:
    """Labels at the left, or in a narrow picture above, and a scale at the top. `svg` is the picture, `begin` where bars may
    begin; `high`: pixels of a row without the label above it."""

    def __init__(self, title, labels, width, widest, high):
        self.narrow = width < 500
        self.begin = 0 if self.narrow else min(widest, 14 + LETTER * max(len(label) for label in labels))
        self.high = high + 16 if self.narrow else high
        self.top = 28 if self.narrow else 24
        self.svg = Svg(width, self.top + self.high * len(labels) + 8, title)

    def scale(self, least, most, place):
        """Grid lines and their numbers; `place`: the pixel of a value."""
        for value in ticks(least, most, 3 if self.narrow else 6):
            self.svg.line(place(value), 18, place(value), self.svg.height - 6, "axis" if value == 0 and least < 0 else "grid")
            self.svg.text_if_free([(place(value), 12, "middle" if place(value) > 20 else "start")], number(value))

    def label(self, i, text, baseline, second="", swatch=()):
        """Writes the label of row i, at the right, or with a swatch at the left, and returns the y of its bars."""
        y, indent = self.top + self.high * i, 16 if swatch else 0
        if swatch:
            self.svg.rect(0, y + (2 if self.narrow else 6), 10, 10, *swatch)
        if self.narrow:
            room = int((self.svg.width - indent) / LETTER)
            self.svg.text(indent, y + 11, f"{cut(text, max(4, room - len(second) - 2))}, {second}" if second else cut(text, room))
            return y + 16
        room = int((self.begin - 10 - indent) / LETTER)
        place = (indent, "start") if swatch else (self.begin - 10, "end")
        for line, (words, name) in enumerate(((text, "label"), (second, "value"))):
            if words:
                self.svg.text(place[0], y + baseline + 15 * line, cut(words, room), place[1], name)
        return y


def hatch(svg, x, y, width, height):
    """Lines from lower left to upper right over a rectangle, cut at its sides."""
    lines = []
    for at in range(HATCH, int(width + height), HATCH):
        begin, end = max(0.0, at - height), min(float(at), width)
        lines.append(f"M{x + begin:.1f} {y + at - begin:.1f}L{x + end:.1f} {y + at - end:.1f}")
    if lines:
        svg.add(f'<path class="hatch" d="{"".join(lines)}"/>')


def bars(title, rows, colors, unit, width):
    """Stacked bars from zero. `rows`: [Bar], or [(label, {part: value})]."""
    rows = [row if isinstance(row, Bar) else Bar(*row) for row in rows]
    marked, swatches = any(row.mark for row in rows), any(row.swatch for row in rows)
    labels = [max(row.label, row.second, key=len) + ("xx" if swatches else "") for row in rows]
    frame = Rows(title, labels, width, WIDEST, THICK + 10 + (BELOW if marked else 10 if swatches else 0))
    svg, begin = frame.svg, frame.begin
    banded = 12 + max((LETTER * len(row.said(unit, frame.narrow)) for row in rows if row.band or row.ticks), default=0)
    most = max([value for row in rows for value in (row.total(), *row.band, *row.ticks.values())] + [1e-12])
    noted = 0 if frame.narrow else 12 + max((LETTER * len(row.mark[1]) for row in rows if row.mark), default=0)
    room = width - begin - max(74, banded, noted)
    place = lambda value: begin + room * value / most
    frame.scale(0, most, place)
    for i, row in enumerate(rows):
        y = frame.label(i, row.label, 15, row.second, row.swatch)
        x, ends = float(begin), {}
        for part, value in row.parts.items():
            if value > 0:
                ends[part] = (x, x + room * value / most)
                svg.rect(x, y, room * value / most, THICK, colors[part], f"{row.label}: {part} {number(value)} {unit}")
                x += room * value / most
        if row.hatched:
            hatch(svg, begin, y, x - begin, THICK)
        furthest = x
        if row.band:
            svg.line(place(row.band[0]), y + THICK / 2, place(row.band[1]), y + THICK / 2, "band-line")
            for value in row.band:
                svg.line(place(value), y + 4, place(value), y + THICK - 4, "band-line")
            furthest = max(x, place(row.band[1]))
        for name, value in row.ticks.items():
            svg.add(f'<g><title>{html(f"{row.label}: {name} {number(value)} {unit}")}</title>')
            svg.line(place(value), y - 2, place(value), y + THICK + 2, "tick")
            svg.add("</g>")
            furthest = max(furthest, place(value))
        svg.text(furthest + 6, y + 15, row.said(unit, frame.narrow), "start", "value")
        if row.mark and (spans := [ends[part] for part in row.mark[0] if part in ends]):
            first, last = min(span[0] for span in spans), max(span[1] for span in spans)
            svg.line(first, y + THICK + 4, last, y + THICK + 4, "exposed")
            svg.text_if_free([(last + 5, y + THICK + 12, "start"), (first - 5, y + THICK + 12, "end"),
                               (last, y + THICK + 16, "end"), (first, y + THICK + 16, "start")], row.mark[1], "value")
    return svg.write()


def both_sides(title, rows, width):
    """Bars to the left and the right of zero. `rows`: [(label, {part: per cent})] with the parts halved and doubled."""
    frame = Rows(title, [label for label, _ in rows], width, 230, 38)
    svg = frame.svg
    values = [value for _, parts in rows for value in parts.values()]
    least, most = min([0.0, *values]), max([0.0, *values])
    if most - least < 1e-9:
        least, most = -1.0, 1.0
    begin, end = frame.begin + 60, width - 66
    place = lambda value: begin + (end - begin) * (value - least) / (most - least)
    frame.scale(least, most, place)
    for i, (label, parts) in enumerate(rows):
        y = frame.label(i, label, 20)
        for (part, value), color in zip(parts.items(), (FEWER, MORE)):
            x = place(min(0.0, value))
            svg.rect(x, y, place(max(0.0, value)) - x, 14, color, f"{label} {part}: {value:+.2f} %")
            at = (place(value) - 5, "end") if value < 0 else (place(value) + 5, "start")
            svg.text(at[0], y + 12, f"{value:+.2f} %", at[1], "value")
            y += 16
    return svg.write()
