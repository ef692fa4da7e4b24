# SPDX-FileCopyrightText: 2026 The shard8 authors
# SPDX-License-Identifier: Apache-2.0
"""The kinds of pictures that projections need: bands behind points, and bars to both sides."""
from study.quote import html
from study.svg import LETTER, SERIES, Axes, Svg, cut, number, ticks

NARROW_BAND = 1.06  # a band of one number of ranks reaches from ranks / this to ranks * this
FEWER, MORE = "#4477AA", "#EE6677"


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


def both_sides(title, rows, width):
    """Bars to the left and the right of zero. `rows`: [(label, {part: per cent})] with the parts halved and doubled."""
    narrow = width < 500
    left = 0 if narrow else min(230, 14 + LETTER * max(len(label) for label, _ in rows))
    high = 56 if narrow else 38
    top = 28 if narrow else 24
    svg = Svg(width, top + high * len(rows) + 8, title)
    values = [value for _, parts in rows for value in parts.values()]
    least, most = min([0.0, *values]), max([0.0, *values])
    if most - least < 1e-9:
        least, most = -1.0, 1.0
    begin, end = left + 60, width - 66
    place = lambda value: begin + (end - begin) * (value - least) / (most - least)
    for value in ticks(least, most, 3 if narrow else 6):
        svg.line(place(value), 18, place(value), svg.height - 6, "axis" if value == 0 else "grid")
        svg.text_if_free([(place(value), 12, "middle")], number(value))
    for i, (label, parts) in enumerate(rows):
        y = top + high * i
        if narrow:
            svg.text(0, y + 11, cut(label, int(width / LETTER)))
            y += 16
        else:
            svg.text(left - 10, y + 20, cut(label, int((left - 10) / LETTER)), "end")
        for (part, value), color in zip(parts.items(), (FEWER, MORE)):
            x = place(min(0.0, value))
            svg.rect(x, y, place(max(0.0, value)) - x, 14, color, f"{label} {part}: {value:+.2f} %")
            at = (place(value) - 5, "end") if value < 0 else (place(value) + 5, "start")
            svg.text(at[0], y + 12, f"{value:+.2f} %", at[1], "value")
            y += 16
    return svg.write()
