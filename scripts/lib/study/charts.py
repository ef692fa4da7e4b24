# SPDX-FileCopyrightText: 2026 The shard8 authors
# SPDX-License-Identifier: Apache-2.0
"""The kinds of pictures, each drawn for a width: curves, a histogram, a heat map, scaling, a roofline."""
from study.errors import counted
from study.svg import LETTER, SERIES, Axes, Svg, cut, number

NARROW, WIDE = 360, 760  # widths for which every picture is drawn
DASHES = ["", "9 6", "3 5", "14 4 3 4"]  # so that a curve shows where another lies on it


def curves(title, series, x_name, y_name, width, styles=None, tags=None, dots=None, tip="in validation behind step"):
    """Curves. `series`: {label: [(x, y)]}. `styles`: {label: (colour, dashes)}; without it the palette, beyond which curves are
    grey. `tags`: {label: text}, written where curves end. `dots`: {label: [(x, y)]}, in the colour of the curve;
    `tip` says what their x is."""
    svg = Svg(width, 300 if width > 500 else 250, title)
    points = [p for line in (*series.values(), *(dots or {}).values()) for p in line]
    xs, ys = [p[0] for p in points], [p[1] for p in points]
    margin = 0.04 * ((max(ys) - min(ys)) or 1)
    axes = Axes(svg, (min(xs), max(xs)), (min(ys) - margin, max(ys) + margin), x_name, y_name, margin=40 if tags else 14)
    axes.frame()
    for i, (label, line) in enumerate(series.items()):
        color, dashes = styles[label] if styles else (SERIES[i] if i < len(SERIES) else "#999999", DASHES[i % len(DASHES)])
        svg.path([(axes.x(x), axes.y(y)) for x, y in line], color, tip=f"{label}: {number(line[-1][1])} at the end",
                 dashes=dashes)
        for x, y in (dots or {}).get(label, []):
            svg.dot(axes.x(x), axes.y(y), color, f"{label}: {number(y)} {tip} {x}")
    for label, text in (tags or {}).items():
        x, y = axes.x(series[label][-1][0]) + 6, axes.y(series[label][-1][1]) + 4
        svg.text_if_free([(x, y, "start"), (x + 18, y, "start"), (x, y - 13, "start"), (x, y + 13, "start"), (x + 18, y - 13, "start"),
                          (x + 18, y + 13, "start")], text, "value")
    return svg.write()


def histogram(title, values, marks, x_name, width):
    """How often values occur. `marks`: {label: value}, drawn as lines."""
    svg = Svg(width, 250, title)
    low, high = min(values), max(values)
    count = max(4, min(30 if width > 500 else 16, int(2 * len(values) ** 0.5)))
    size = (high - low) / count or max(1e-9, abs(high) * 1e-3)
    bins = [0] * count
    for value in values:
        bins[min(count - 1, int((value - low) / size))] += 1
    axes = Axes(svg, (min([low, *marks.values()]), max([low + size * count, *marks.values()])), (0, max(bins) * 1.15), x_name, "steps")
    axes.frame()
    for i, number_of in enumerate(bins):
        x = axes.x(low + size * i)
        svg.rect(x + 1, axes.y(number_of), axes.x(low + size * (i + 1)) - x - 2, axes.bottom - axes.y(number_of),
                 SERIES[0], f"{number_of} steps of {number(low + size * i)} to {number(low + size * (i + 1))}")
    for row, (label, value) in enumerate(marks.items()):
        x = axes.x(value)
        svg.line(x, axes.top - 4, x, axes.bottom, "mark")
        y = axes.top + 8 + 14 * row
        sides = [(x + 4, y, "start"), (x - 4, y, "end")]
        left = x > axes.left + 0.75 * (axes.right - axes.left)
        svg.text_if_free(sides[::-1] if left else sides, f"{label} {number(value)}")
    return svg.write()


def heat_map(title, rows, steps, worst, ranks, width):
    """A row for each phase, a column for each step or, where they are more, for several. `rows`: {phase: [ms]}; the
    colour is full at the largest value of all rows and goes with the square root, so that small phases can be seen and
    are not taken for large ones. `worst`: the slowest rank of each step, the upper row."""
    narrow = width < 500
    left, right = (106, 60) if narrow else (130, 70)
    svg = Svg(width, 24 * (len(rows) + 1) + 40, title)
    columns = blocks(len(steps), int((width - left - right) / (3 if narrow else 4)))
    places = cells(left, width - right, len(columns))
    svg.text(left - 8, 30, "slowest rank", "end")
    for i, column in enumerate(columns):
        rank = worst[column[0]]
        svg.rect(places[i][0], 16, places[i][1], 20, SERIES[1], f"{span_of('step', steps, column)}: rank {rank} was slowest",
                 0.12 + 0.88 * rank / max(1, ranks - 1))
    svg.text(width - right + 6, 30, f"0–{ranks - 1}", "start", "value")
    most = max([max(values) for values in rows.values()] + [1e-12])
    for r, (phase, values) in enumerate(rows.items()):
        y, high = 40 + 24 * r, max(values)
        svg.text(left - 8, y + 14, cut(phase, int((left - 8) / LETTER)), "end")
        for i, column in enumerate(columns):
            value = max(values[k] for k in column)
            svg.rect(places[i][0], y, places[i][1], 20, SERIES[0],
                     f"{phase}, {span_of('step', steps, column)}: {number(value)} ms", max(0.01, (value / most) ** 0.5))
        svg.text(width - right + 6, y + 14, f"{number(high)}", "start", "value")
    svg.text(left, svg.height - 4, f"step {steps[0]}", "start", "name")
    svg.text(width - right, svg.height - 4, f"step {steps[-1]}", "end", "name")
    return svg.write()


def blocks(count, most):
    """0 .. count - 1 as at most `most` ranges of one length, the last one perhaps shorter."""
    each = max(1, -(-count // most))
    return [range(i, min(i + each, count)) for i in range(0, count, each)]


def cells(left, right, count):
    """(x, width) of `count` cells side by side, without seams after the rounding of svg.rect."""
    ends = [round(left + (right - left) * i / count, 1) for i in range(count + 1)]
    return [(x, after - x) for x, after in zip(ends, ends[1:])]


def span_of(word, values, block):
    """'step 3', or 'steps 3 to 5'."""
    first, last = values[block[0]], values[block[-1]]
    return f"{word} {first}" if first == last else f"{word}s {first} to {last}"


def rank_map(title, panels, steps, width):
    """A panel for each quantity, in it a row for each rank and a column for each step, or for several of them.
    `panels`: {name: [step][rank] in ms}; full colour is the panel's largest value."""
    left, right, ranks = 62, 4, len(next(iter(panels.values()))[0])
    rows, columns = blocks(ranks, 16), blocks(len(steps), 90 if width > 500 else 50)
    high = 16 if len(rows) <= 8 else 10
    places, panel = cells(left, width - right, len(columns)), 30 + high * len(rows)
    svg = Svg(width, panel * len(panels) + 24, title)
    for p, (name, values) in enumerate(panels.items()):
        y, most = panel * p + 24, max(max(map(max, values)), 1e-12)
        most_text = f"at most {number(most)} ms"
        svg.text(width - right, y - 7, most_text, "end", "value")
        svg.text(left, y - 7, cut(name, int((width - right - left) / LETTER) - len(most_text) - 1))
        for r, row in enumerate(rows):
            label = str(row[0]) if len(row) == 1 else f"{row[0]}–{row[-1]}"
            if high >= 12 or r % 2 == 0:
                svg.text(left - 8, y + high * r + high / 2 + 4, label if r or p else f"rank {label}", "end")
            for c, column in enumerate(columns):
                value = max(values[k][i] for k in column for i in row)
                svg.rect(places[c][0], y + high * r, places[c][1], high - 1, SERIES[0],
                         f"{span_of('rank', range(ranks), row)}, {span_of('step', steps, column)}: {number(value)} ms",
                         max(0.03, value / most))
    svg.text(left, svg.height - 4, f"step {steps[0]}", "start", "name")
    svg.text(width - right, svg.height - 4, f"step {steps[-1]}", "end", "name")
    return svg.write()


def scaling(title, series, width):
    """Tokens/s over ranks, with the ideal of each curve. The speed-up is over the first point of a curve; one curve alone has
    it as an axis at the right, too. `series`: {label: [point]} of points with ranks, tokens_per_s, min, max and efficiency."""
    svg = Svg(width, 340 if width > 500 else 290, title)
    points = [p for line in series.values() for p in line]
    ranks = sorted({p["ranks"] for p in points})
    ideals = [line[0]["tokens_per_s"] * line[-1]["ranks"] / line[0]["ranks"] for line in series.values()]
    low, top = min(p["min"] for p in points), max([p["max"] for p in points] + ideals)
    axes = Axes(svg, (ranks[0] * 0.85, ranks[-1] * 1.3), (low * 0.8, top * 1.25), "ranks", "tokens/s", "xy", 52 if len(series) == 1 else 14)
    base = points[0]["tokens_per_s"]
    if len(series) == 1:
        svg.text(axes.right + 48, 12, "speed-up", "end", "name")
    for value in [2.0 ** i for i in range(-20, 30)] if len(series) == 1 else ():
        if low * 0.8 <= value * base <= top * 1.25:
            y = axes.y(value * base)
            svg.line(axes.right, y, axes.right + 4, y, "axis")
            svg.text_if_free([(axes.right + 8, y + 4, "start")], number(value), "value")
    axes.frame(ranks)
    for line in series.values():
        ideal = [(axes.x(p["ranks"]), axes.y(line[0]["tokens_per_s"] * p["ranks"] / line[0]["ranks"])) for p in (line[0], line[-1])]
        svg.path(ideal, "", "ideal")
    for i, (label, line) in enumerate(series.items()):
        color = SERIES[i % len(SERIES)]
        svg.path([(axes.x(p["ranks"]), axes.y(p["tokens_per_s"])) for p in line], color, dashes=DASHES[i % len(DASHES)])
        aside = 5 * (i - (len(series) - 1) / 2) if len(series) <= 5 else 0  # extremes of several curves beside each other
        for p in line:
            x, y = axes.x(p["ranks"]), axes.y(p["tokens_per_s"])
            svg.line(x + aside, axes.y(p["min"]), x + aside, axes.y(p["max"]), "whisker", color)
            svg.dot(x, y, color,
                    f"{label or 'all'}: {counted(p['ranks'], 'rank')}, {number(p['tokens_per_s'])} tokens/s, speed-up "
                    f"{number(p['tokens_per_s'] / line[0]['tokens_per_s'])}, efficiency {100 * p['efficiency']:.0f} %")
    for line in series.values() if len(series) <= 3 else ():
        for p in line[1:]:
            x, y = axes.x(p["ranks"]), axes.y(p["tokens_per_s"])
            svg.text_if_free([(x + 8, y + 16, "start"), (x - 8, y - 8, "end"), (x + 8, y + 30, "start"), (x - 8, y - 22, "end")],
                             f"{100 * p['efficiency']:.0f} %", "value")
    return svg.write()


def roofline(title, gemms, peak, bandwidth, width):
    """Matrix products. `gemms`: [(label, FLOPs/byte, TFLOP/s)]; peak in TFLOP/s and bandwidth in GB/s, or None."""
    svg = Svg(width, 330 if width > 500 else 290, title)
    xs, ys = [g[1] for g in gemms], [g[2] for g in gemms]
    roof = peak or max(ys)
    lows = [min(ys), *( [bandwidth * 1e-3 * min(xs)] if bandwidth else [])]
    axes = Axes(svg, (min(xs) / 2, max(xs) * 2), (min(lows) / 2, roof * 2), "FLOPs a byte", "TFLOP/s", "xy")
    axes.frame()
    knee = min(max(roof / (bandwidth * 1e-3), axes.x_range[0]), axes.x_range[1]) if bandwidth else axes.x_range[0]
    line = [(axes.x(knee), axes.y(roof)), (axes.x(axes.x_range[1]), axes.y(roof))]
    if bandwidth and knee > axes.x_range[0]:
        line.insert(0, (axes.x(axes.x_range[0]), axes.y(min(roof, bandwidth * 1e-3 * axes.x_range[0]))))
    svg.path(line, "", "ideal")
    svg.text_if_free([(axes.right, axes.y(roof) - 6, "end")], f"{'peak' if peak else 'best measured'} {number(roof)}")
    for label, x, y in gemms:
        svg.dot(axes.x(x), axes.y(y), SERIES[0], f"{label}: {number(x)} FLOPs a byte, {number(y)} TFLOP/s")
    if width > 500:
        place_labels(svg, axes, gemms)
    return svg.write()


def place_labels(svg, axes, gemms):
    """Names beside dots, except where another text is in the way: those have only a tip."""
    for label, x, y in sorted(gemms, key=lambda g: -g[2]):
        at = (axes.x(x), axes.y(y))
        svg.text_if_free([(at[0] + 8, at[1] + 4, "start"), (at[0] - 8, at[1] + 4, "end")], label)
