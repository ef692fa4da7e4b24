# SPDX-FileCopyrightText: 2026 The shard8 authors
# SPDX-License-Identifier: Apache-2.0
"""The kinds of pictures, each drawn for a width: bars, curves, a histogram, a heat map, scaling, a roofline."""
from study.svg import LETTER, SERIES, Axes, Svg, cut, number, ticks

NARROW, WIDE = 360, 760  # widths for which every picture is drawn
DASHES = ["", "9 6", "3 5", "14 4 3 4"]  # so that a curve shows where another lies on it


def bars(title, rows, colors, unit, width):
    """Stacked horizontal bars. `rows`: [(label, {part: value})]."""
    narrow = width < 500
    longest = max(len(label) for label, _ in rows)
    left = 0 if narrow else min(270, 14 + LETTER * longest)
    high = 42 if narrow else 30
    top = 28 if narrow else 24
    svg = Svg(width, top + high * len(rows) + 8, title)
    most = max([sum(parts.values()) for _, parts in rows] + [1e-12])
    room = width - left - 74
    for value in ticks(0, most, 3 if narrow else 6):
        x = left + room * value / most
        svg.line(x, 18, x, svg.height - 6)
        svg.text(x, 12, number(value), "middle" if value else "start")
    for i, (label, parts) in enumerate(rows):
        y = top + high * i
        if narrow:
            svg.text(0, y + 11, cut(label, int(width / LETTER)))
            y += 16
        else:
            svg.text(left - 10, y + 15, cut(label, int((left - 10) / LETTER)), "end")
        x = float(left)
        for part, value in parts.items():
            if value > 0:
                svg.rect(x, y, room * value / most, 20, colors[part], f"{label}: {part} {number(value)} {unit}")
                x += room * value / most
        svg.text(x + 6, y + 15, f"{number(sum(parts.values()))} {unit}", "start", "value")
    return svg.write()


def curves(title, series, x_name, y_name, width):
    """Curves. `series`: {label: [(x, y)]}; beyond the palette they are grey."""
    svg = Svg(width, 300 if width > 500 else 250, title)
    points = [p for line in series.values() for p in line]
    xs, ys = [p[0] for p in points], [p[1] for p in points]
    margin = 0.04 * ((max(ys) - min(ys)) or 1)
    axes = Axes(svg, (min(xs), max(xs)), (min(ys) - margin, max(ys) + margin), x_name, y_name)
    axes.frame()
    for i, (label, line) in enumerate(series.items()):
        color = SERIES[i] if i < len(SERIES) else "#999999"
        svg.path([(axes.x(x), axes.y(y)) for x, y in line], color, tip=f"{label}: {number(line[-1][1])} at the end",
                 dashes=DASHES[i % len(DASHES)])
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
    axes = Axes(svg, (low, low + size * count), (0, max(bins) * 1.15), x_name, "steps")
    axes.frame()
    for i, number_of in enumerate(bins):
        x = axes.x(low + size * i)
        svg.rect(x + 1, axes.y(number_of), axes.x(low + size * (i + 1)) - x - 2, axes.bottom - axes.y(number_of),
                 SERIES[0], f"{number_of} steps of {number(low + size * i)} to {number(low + size * (i + 1))}")
    for row, (label, value) in enumerate(marks.items()):
        x = axes.x(value)
        svg.line(x, axes.top - 4, x, axes.bottom, "mark")
        left = x > axes.left + 0.75 * (axes.right - axes.left)
        svg.text(x - 4 if left else x + 4, axes.top + 8 + 14 * row, f"{label} {number(value)}",
                 "end" if left else "start")
    return svg.write()


def heat_map(title, rows, steps, worst, ranks, width):
    """A row for each phase, a column for each step or, where they are more, for several. `rows`: {phase: [ms]}; the
    colour of a row is full at its own largest value. `worst`: the slowest rank of each step, the upper row."""
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
    for r, (phase, values) in enumerate(rows.items()):
        y, high = 40 + 24 * r, max(max(values), 1e-12)
        svg.text(left - 8, y + 14, phase, "end")
        for i, column in enumerate(columns):
            value = max(values[k] for k in column)
            svg.rect(places[i][0], y, places[i][1], 20, SERIES[0],
                     f"{phase}, {span_of('step', steps, column)}: {number(value)} ms", max(0.03, value / high))
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
        svg.text(left, y - 7, name)
        svg.text(width - right, y - 7, f"at most {number(most)} ms", "end", "value")
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
    """Speed-up over ranks with the ideal. `series`: {label: [point]} of points with ranks, tokens_per_s, min, max,
    speedup, ideal and efficiency."""
    svg = Svg(width, 330 if width > 500 else 280, title)
    ranks = sorted({p["ranks"] for line in series.values() for p in line})
    top = max(p[key] for line in series.values() for p in line for key in ("speedup", "ideal"))
    of_point = {id(p): p["speedup"] / p["tokens_per_s"] for line in series.values() for p in line}
    top = max(top, *(p["max"] * of_point[id(p)] for line in series.values() for p in line))
    low = min(0.7, *(p["min"] * of_point[id(p)] for line in series.values() for p in line))
    span = (ranks[0] * 0.85, ranks[-1] * 1.3)
    axes = Axes(svg, span, (low * 0.9, top * 1.25), "ranks", "speed-up", "xy")
    marks = [m for m in (0.25, 0.5, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024) if low * 0.9 <= m <= top * 1.25]
    axes.frame(ranks if len(ranks) <= 8 else ranks[::2], marks)
    for first in sorted({line[0]["ranks"] for line in series.values()}):
        last = max(line[-1]["ranks"] for line in series.values() if line[0]["ranks"] == first)
        svg.path([(axes.x(first), axes.y(1)), (axes.x(last), axes.y(last / first))], "", "ideal")
    for i, (label, line) in enumerate(series.items()):
        color = SERIES[i % len(SERIES)]
        svg.path([(axes.x(p["ranks"]), axes.y(p["speedup"])) for p in line], color)
        aside = 5 * (i - (len(series) - 1) / 2) if len(series) <= 5 else 0  # extremes of several curves beside each other
        for p in line:
            x, scale = axes.x(p["ranks"]), of_point[id(p)]
            svg.line(x + aside, axes.y(p["min"] * scale), x + aside, axes.y(p["max"] * scale), "whisker", color)
            svg.dot(x, axes.y(p["speedup"]), color,
                    f"{label or 'all'}: {p['ranks']} ranks, {number(p['tokens_per_s'])} tokens/s, speed-up "
                    f"{number(p['speedup'])} of {number(p['ideal'])}, efficiency {100 * p['efficiency']:.0f} %")
            if len(series) <= 3 and p["ideal"] > 1:
                svg.text(x + 8, axes.y(p["speedup"]) + 16, f"{100 * p['efficiency']:.0f} %", "start", "value")
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
    svg.text(axes.right, axes.y(roof) - 6, f"{'peak' if peak else 'best measured'} {number(roof)}", "end")
    for label, x, y in gemms:
        svg.dot(axes.x(x), axes.y(y), SERIES[0], f"{label}: {number(x)} FLOPs a byte, {number(y)} TFLOP/s")
    if width > 500:
        place_labels(svg, axes, gemms)
    return svg.write()


def place_labels(svg, axes, gemms):
    """Names beside dots, except where an earlier name is in the way: those have only a tip."""
    taken = []
    for label, x, y in sorted(gemms, key=lambda g: -g[2]):
        at = (axes.x(x) + 8, axes.y(y) + 4)
        box = (at[0] - 14, at[1] - 14, at[0] + LETTER * len(label), at[1] + 4)
        free = not any(box[0] < t[2] and t[0] < box[2] and box[1] < t[3] and t[1] < box[3] for t in taken)
        if box[2] < axes.right and free:
            taken.append(box)
            svg.text(*at, label)
