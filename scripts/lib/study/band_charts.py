# SPDX-FileCopyrightText: 2026 The shard8 authors
# SPDX-License-Identifier: Apache-2.0
"""Pictures of projections: bands behind points."""
from study.quote import html
from study.svg import SERIES, Axes, Svg, number

NARROW_BAND = 1.06  # a band of one number of ranks reaches from ranks / this to ranks * this


def bands(title, projected, measured, width):
    """Milliseconds of a step over ranks. `projected`: {label: [(ranks, low, nominal, high)]}, drawn as bands with a dashed
    line in them; `measured`: {label: [(ranks, ms)]}, drawn as points on top. Colours go by the order of labels."""
    svg = Svg(width, 330 if width > 500 else 280, title)
    lines = [line for series in (projected, measured) for line in series.values()]
    ranks = sorted({row[0] for line in lines for row in line})
    values = [value for line in lines for row in line for value in row[1:]]
    low, high = min(values), max(values)
    spare = 0.12 * (high - low) or 0.1 * high
    axes = Axes(svg, (ranks[0] / 1.4, ranks[-1] * 1.4), (max(0.0, low - spare), high + spare), "ranks", "ms a step", "x")
    axes.frame(ranks)
    for i, (label, line) in enumerate(projected.items()):
        color = SERIES[i % len(SERIES)]
        if len(line) == 1:
            of, *rest = line[0]
            line = [(of / NARROW_BAND, *rest), (of * NARROW_BAND, *rest)]
        edge = [(row[0], row[3]) for row in line] + [(row[0], row[1]) for row in reversed(line)]
        svg.add(f'<polygon class="band" points="{" ".join(f"{axes.x(x):.1f},{axes.y(y):.1f}" for x, y in edge)}" fill="{color}" '
                'fill-opacity="0.25"/>')
        svg.path([(axes.x(row[0]), axes.y(row[2])) for row in line], color, dashes="5 4")
        for of, least, nominal, most in projected[label]:
            svg.add(f'<circle cx="{axes.x(of):.1f}" cy="{axes.y(nominal):.1f}" r="3" fill="none" style="stroke:{color}"><title>'
                    f'{html(label)}, {of} ranks: projected {number(nominal)} ms, {number(least)} to {number(most)}</title></circle>')
    for i, (label, line) in enumerate(measured.items()):
        for of, value in line:
            svg.dot(axes.x(of), axes.y(value), SERIES[(i + len(projected)) % len(SERIES)],
                    f"{label}, {of} ranks: measured {number(value)} ms")
    return svg.write()
