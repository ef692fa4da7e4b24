# SPDX-FileCopyrightText: 2026 The shard8 authors
# SPDX-License-Identifier: Apache-2.0
"""Values over ranks on logarithmic axes, measured and projected ones in one picture."""
from dataclasses import dataclass

from study.errors import counted
from study.quote import html
from study.svg import Axes, Svg, number, short_number


@dataclass(frozen=True)
class Point:
    """A value of a subject; `tag` is written beside it, `name` in its tip. `projected`: a hollow circle in place of a dot."""
    tag: str
    name: str
    color: str
    ranks: int
    value: float
    low: float
    high: float
    projected: bool


def over_ranks(title, points, lines, unit, width):
    """`points`: [Point]. `lines`: [(colour or "", [Point])] joins points; without a colour the line is grey. Lines of
    projected points are dashed."""
    svg = Svg(width, 380 if width > 500 else 320, title)
    ranks = sorted({p.ranks for p in points})
    low, high = min(p.low for p in points), max(p.high for p in points)
    spare = 1.25 if high / low > 1.5 else 1.1
    axes = Axes(svg, (ranks[0] / 1.3, ranks[-1] * 1.3), (low / spare, high * spare), "ranks", unit, "xy", write=short_number)
    axes.frame(ranks)
    at = lambda p: (axes.x(p.ranks), axes.y(p.value))
    for color, line in lines:
        svg.path([at(p) for p in line], color, "curve" if color else "join", dashes="5 4" if line[0].projected and color else "")
    for p in points:
        (x, y), fill = at(p), "var(--back)" if p.projected else p.color
        extremes = "" if p.low == p.high else f", {number(p.low)} to {number(p.high)}"
        if extremes:
            svg.line(x, axes.y(p.low), x, axes.y(p.high), "whisker", p.color)
        tip = f"{p.name}, {counted(p.ranks, 'rank')}: {number(p.value)} {unit}{extremes}"
        svg.add(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{fill}" style="stroke:{p.color};stroke-width:2">'
                f'<title>{html(tip)}</title></circle>')
    for p in points:
        x, y = at(p)
        svg.text_if_free([(x + 6, y - 7, "start"), (x + 8, y + 4, "start"), (x - 8, y + 4, "end"), (x - 6, y - 7, "end"),
                          (x + 8, y + 17, "start"), (x - 8, y + 17, "end")], p.tag, "value")
    return svg.write()
