# SPDX-FileCopyrightText: 2026 The shard8 authors
# SPDX-License-Identifier: Apache-2.0
"""The pictures of a report: which measured values go into which kind of picture, and what is said beside them."""
from dataclasses import dataclass, field

from study import bar_charts, charts
from study.errors import BAD_STUDY, StudyError, counted
from study.measured import KINDS, PARTS
from study.svg import SERIES, number

EXPOSED, IN_FLIGHT = "#EE6677", "#8FC7B5"
MEMORY = ["#4477AA", "#66CCEE", "#228833", "#CCBB44", "#EE6677", "#AA3377", "#8899AA", "#BBBBBB", "#DDA0CC"]
MIB = 1048576.0
MOST_CURVES = len(SERIES)


@dataclass
class Figure:
    """One picture, or without `draw` a table. `draw(width)` gives SVG; `table`: (heads, rows) of the same values; `legend`: [(name, colour)]."""
    key: str
    title: str
    note: str
    draw: object
    table: tuple = ((), ())
    legend: list = field(default_factory=list)
    bars: list = field(default_factory=list)   # [(label, {part: value})], for PNG
    curves: dict = field(default_factory=dict)  # {label: [(x, y)]}, for PNG
    axes: tuple = ("", "")
    styles: dict = field(default_factory=dict)  # {label: (colour, dashes)} of the curves, if not those of the palette


def used(rows, colors):
    """The legend: the parts that a row has."""
    return [(part, color) for part, color in colors.items() if any(parts.get(part, 0) > 0 for _, parts in rows)]


def table_of_bars(rows, what):
    parts = [part for part in dict.fromkeys(p for _, row in rows for p in row) if any(row.get(part) for _, row in rows)]
    heads = ["", *(f"{part}, {what}" for part in parts)]
    return heads, [[label, *(number(row.get(p, 0)) for p in parts)] for label, row in rows]


def bar_figure(key, title, note, rows, colors, unit):
    return Figure(key, title, note, lambda width: bar_charts.bars(title, rows, colors, unit, width),
                  table_of_bars(rows, unit), used(rows, colors), bars=rows, axes=(unit, ""))


def phases_of_run(run):
    """A bar for each phase; forward and backward are split into their parts."""
    rest, rows = "rest of forward and backward", {}
    for phase, part, _, mean, _ in run.rows():
        row = rows.setdefault(phase, {})
        if part in PARTS:
            row[part] = 1e3 * mean
        elif phase in ("forward", "backward"):
            row[rest] = 1e3 * mean
        else:
            row[phase] = 1e3 * mean
    for row in rows.values():
        if rest in row:
            row[rest] = max(0.0, row[rest] - sum(row.get(part, 0) for part in PARTS))
    shown = [(phase, {k: row[k] for k in KINDS if k in row}) for phase, row in rows.items() if any(row.values())]
    note = "Mean over ranks and measured steps, milliseconds."
    if run.summary.get("skeleton") == "communication":
        note += " A skeleton run: what computes is a wait in place of it."
    return bar_figure("phases", "Where the time of a step goes", note, shown, KINDS, "ms")


def phases_of_study(means):
    rows = [(label, run.kinds()) for label, run in means.items()]
    return bar_figure("phases", "Where the time of a step goes",
                      "Mean over the repeats of each point, over ranks and measured steps, milliseconds. Blue and "
                      "green computes, warm colours wait for other ranks.", rows, KINDS, "ms")


def communication(rows, note):
    shown = [(label, {"exposed": exposed, "in flight": beyond}) for label, exposed, beyond in rows]
    colors = {"exposed": EXPOSED, "in flight": IN_FLIGHT}
    return bar_figure("communication", "Communication: exposed and in flight", f"{note} Exposed: the rank only waits. In flight: "
                      "between the start of a collective and its noticed end the rank does something else.",
                      shown, colors, "ms")


def heat_map(run):
    steps = [row[0] for row in run.steps["step"]]
    rows = {phase: [1e3 * row[1] for row in values] for phase, values in run.steps.items()
            if phase != "step" and any(row[1] > 0 for row in values)}
    worst, ranks, title = [row[3] for row in run.steps["step"]], run.summary["ranks"], "Phases over steps"
    note = ("Mean over ranks. The colour is full at the largest value of all phases and grows with the square root; at the "
            "right is the largest value of a row, milliseconds. The upper row is the slowest rank of the step.")
    if not run.every:
        note += " With output.timing_ranks a run also records every rank's phases."
    return Figure("heat_map", title, note,
                  lambda width: charts.heat_map(title, rows, steps, worst, ranks, width),
                  (["phase", "largest, ms", "mean, ms"],
                   [[p, number(max(v)), number(sum(v) / len(v))] for p, v in rows.items()]))


COMPUTE = ("attention", "gemm", "gemm (emulated)", "elementwise")


def rank_map(run):
    """Quantities that differ between ranks, over ranks and steps."""
    steps, columns = run.every

    def total(names):
        chosen = [columns[name] for name in names if name in columns]
        return [[1e3 * sum(values) for values in zip(*ranks)] for ranks in zip(*chosen)] if chosen else None
    parts = {part: [f"{phase}.{part}" for phase in ("forward", "backward")] for part in (*COMPUTE, "tensor_comm")}
    panels = {"computing": total([name for part in COMPUTE for name in parts[part]]),
              "tensor_comm": total(parts["tensor_comm"]),
              "gather_wait and reduce_wait": total(["gather_wait", "reduce_wait"]), "whole step": total(["total"])}
    panels = {name: values for name, values in panels.items() if values and max(map(max, values)) > 0}
    title = "Ranks over steps"
    note = ("A row for each rank, a column for each step; the largest value where a cell has several. Full colour is the "
            "largest value of a picture. Computing: attention, gemm and elementwise of forward and backward; the others but the whole "
            "step wait for other ranks.")
    means = {name: [sum(column) / len(steps) for column in zip(*values)] for name, values in panels.items()}
    return Figure("rank_map", title, note, lambda width: charts.rank_map(title, panels, steps, width),
                  (["rank", *(f"{name}, mean ms" for name in panels)],
                   [[str(r), *(number(means[name][r]) for name in panels)] for r in range(run.summary["ranks"])]))


def step_times(run):
    values, s = [1e3 * row[2] for row in run.steps["step"]], run.summary["steps"]
    marks = {name: 1e3 * s[f"{name}_s"] for name in ("p50", "p95", "p99") if s.get(f"{name}_s")}
    title, note = "Step times", "Of each measured step the slowest rank, milliseconds."
    if (s.get("per_row") or 1) > 1:
        note = f"Means of {s['per_row']} consecutive steps on the slowest rank, milliseconds. The percentiles are those of steps."
    return Figure("step_times", title, note,
                  lambda width: charts.histogram(title, values, marks, "ms", width),
                  (["percentile", "ms"], [[name, number(value)] for name, value in marks.items()]))


def losses(runs):
    """Loss curves; `runs`: {label: run}. At most as many as the palette has colours."""
    every = {label: run.losses for label, run in runs.items() if len(run.losses) > 1}
    series = dict(list(every.items())[:MOST_CURVES])
    left_out = len(every) - len(series)
    note = "Mean over the tokens of the global batch, nats" + (", and over repeats." if len(runs) > 1 else ".")
    dots = {label: runs[label].validations for label in series if runs[label].validations}
    note += " Dots: losses of validations." if dots else ""
    note += f" {left_out} more runs are left out." if left_out else ""
    legend = [(label, SERIES[i]) for i, label in enumerate(series)] if len(series) > 1 else []
    return Figure("loss", "Loss", note, lambda width: charts.curves("Loss", series, "step", "loss", width, dots=dots),
                  (["run", "first", "last", *(["last validation"] if dots else [])],
                   [[k, number(v[0][1]), number(v[-1][1]), *([number(dots[k][-1][1]) if k in dots else "-"] if dots else [])]
                    for k, v in series.items()]), legend,
                  curves=series, axes=("step", "loss"))


def memory(runs):
    """Memory of a rank by kind, beside the plan and what the system counted; `runs`: {label: run}. A list of one picture,
    or of none for runs that counted nothing."""
    rows, kinds = [], {}
    for label, run in runs.items():
        by_kind, planned, measured = run.memory()
        kinds.update(dict.fromkeys(by_kind))
        head = f"{label}: " if len(runs) > 1 else ""
        rows += [(f"{head}by kind", {k: v / MIB for k, v in by_kind.items()}),
                 (f"{head}plan", {"planned": planned / MIB}), (f"{head}measured", {"measured": measured / MIB})]
    colors = {kind: MEMORY[i % len(MEMORY)] for i, kind in enumerate(kinds)}
    colors.update({"planned": "#D6B37A", "measured": "#8A6D3B"})
    note = ("MiB. By kind: high-water marks of the arenas. Plan: the total that was planned. Measured: growth of the peak "
            "resident set, on devices memory that was taken.")
    if not any(sum(parts.values()) for _, parts in rows):
        return []
    return [bar_figure("memory", "Memory of a rank", note, rows, colors, "MiB")]


def scaling(study):
    swept = [key for key in study["swept"] if key != "ranks"]
    varying = [k for k in swept if len({str(p.get(k)) for p in study["points"]}) > 1]
    series, points = {}, sorted((p for p in study["points"] if not p.get("skeleton")), key=lambda p: p["ranks"])
    for point in points:
        series.setdefault(", ".join(f"{k.split('.')[-1]} {point.get(k)}" for k in varying), []).append(point)
    title = f"{study['scaling'].capitalize()} scaling"
    note = ("Tokens/s, mean over the repeats. Speed-up and efficiency, the percentages, are over the curve's own fewest ranks. Grey "
            "dashed lines are the ideal of each curve, upright lines the extremes of the repeats.")
    heads = ["", "ranks", "tokens/s", "spread", "speed-up", "efficiency"]
    rows = [[label, str(p["ranks"]), number(p["tokens_per_s"]),
             "-" if p.get("spread") is None else f"{100 * p['spread']:.1f} %", number(p["tokens_per_s"] / line[0]["tokens_per_s"]),
             f"{100 * p['efficiency']:.1f} %"] for label, line in series.items() for p in line]
    legend = [(label, SERIES[i % len(SERIES)]) for i, label in enumerate(series)] if len(series) > 1 else []
    return Figure("scaling", title, note, lambda width: charts.scaling(title, series, width), (heads, rows), legend,
                  curves={**{label: [(p["ranks"], p["tokens_per_s"]) for p in line] for label, line in series.items()},
                          **{f"ideal{' of ' if label else ''}{label}":
                             [(p["ranks"], line[0]["tokens_per_s"] * p["ranks"] / line[0]["ranks"]) for p in line]
                             for label, line in series.items()}},
                  axes=("ranks", "tokens/s"))


def numbers_of(study, key):
    """The points whose value of a swept key is a number, by this number, which is finite."""
    numbers = []
    for point in study["points"]:
        try:
            value = float(point.get(key))
        except (TypeError, ValueError, OverflowError):
            continue
        if abs(value) < 1e300 and (point.get("step_p50_s") or 0) > 0:
            numbers.append((value, point))
    return sorted(numbers, key=lambda pair: pair[0])


def dials(study):
    """Step time over each swept key of the deck that has several numbers, but for ranks and meshes. A point without the
    key is a level line."""
    out = []
    for key in study["swept"]:
        numbers = numbers_of(study, key)
        if "." not in key or key.startswith(("mesh.", "env.")) or len({value for value, _ in numbers}) < 2:
            continue
        others = [k for k in study["swept"] if k != key and len({str(p.get(k)) for p in study["points"]}) > 1]
        name = lambda point: ", ".join(f"{k.split('.')[-1]} {point[k]}" for k in others if point.get(k) not in (None, "")) or "all"
        dots = {}
        for value, point in numbers:
            dots.setdefault(name(point), []).append((value, 1e3 * point["step_p50_s"]))
        low, high = numbers[0][0], numbers[-1][0]
        levels = {name(point): [(x, 1e3 * point["step_p50_s"]) for x in (low, high)] for point in study["points"]
                  if point.get(key) in (None, "") and (point.get("step_p50_s") or 0) > 0}
        series = {**levels, **dots}
        if len(series) > MOST_CURVES:
            continue
        out.append(dial_figure(key, series, dots, levels))
    return out


def dial_figure(key, series, dots, levels):
    title = f"Step time over {key}"
    note = "Median step, milliseconds, mean over the repeats." + (f" Level lines: points without {key}." if levels else "")
    rows = [[label, "-" if label in levels else number(x), number(y)] for label, line in series.items()
            for x, y in (line[:1] if label in levels else line)]
    return Figure("dial_" + key.replace(".", "_"), title, note,
                  lambda width: charts.curves(title, series, key, "ms", width, dots=dots, tip=f"ms at {key}"),
                  (["", key, "step, ms"], rows), [(label, SERIES[i]) for i, label in enumerate(series)] if len(series) > 1 else [],
                  curves=series, axes=(key, "ms"))


MAKE_GEMMS = "make them with shard8 bench gemm DECK --json FILE or shard8 bench overlap DECK --json FILE"
BYTES = {"fp32": 4, "bf16": 2, "e4m3": 1, "e5m2": 1, "fp8": 1}


def roofline(bench, peak, bandwidth):
    """Products of `bench gemm --json` or `bench overlap --json`: FLOPs 2mnk, bytes of both inputs in their dtype and of
    the result in its own, or where that is not known in the inputs', at least two."""
    gemms = []
    for row in bench.get("rows") or []:
        if min(row.get("product_ms") or 0, row["m"], row["n"], row["k"]) > 0:
            m, n, k, size = row["m"], row["n"], row["k"], BYTES.get(row["dtype"], 2)
            result = BYTES.get(row.get("out_dtype"), max(size, 2))
            flops, data = 2.0 * m * n * k, size * (m * k + k * n) + result * m * n
            gemms.append((row["key"], flops / data, flops / (1e9 * row["product_ms"])))
    title = "Roofline of the matrix products"
    if not gemms:
        raise StudyError(BAD_STUDY, f"the times of matrix products have no product with product_ms: {MAKE_GEMMS}")
    note = (f"Products of shard8 bench {bench.get('bench') or 'overlap'}, {bench.get('machine') or '-'}, {(bench.get('date') or '-')[:10]}, commit "
            f"{(bench.get('commit') or '-')[:12]}. Bytes: both inputs and the result, each once.")
    return Figure("roofline", title, note, lambda width: charts.roofline(title, gemms, peak, bandwidth, width),
                  (["product", "FLOPs a byte", "TFLOP/s"], [[g[0], number(g[1]), number(g[2])] for g in gemms]))


def figures_of_run(run):
    out = []
    if any(run.kinds().values()):
        out.append(phases_of_run(run))
    if rows := run.communication()[0]:
        out.append(communication(rows, "Milliseconds of a step, by operation and group, mean over ranks; rows may "
                                       "overlap each other."))
    if len(run.steps.get("step", [])) > 1:
        out += [step_times(run), heat_map(run)]
    if run.every:
        out.append(rank_map(run))
    if len(run.losses) > 1 and not run.summary.get("skeleton"):
        out.append(losses({run.label: run}))
    return out + memory({run.label: run})


def figures_of_study(measured):
    means, out = measured.means(), []
    if measured.study.get("scaling") and any(not point.get("skeleton") for point in measured.study["points"]):
        out.append(scaling(measured.study))
    out += dials(measured.study)
    if any(any(run.kinds().values()) for run in means.values()):
        out.append(phases_of_study(means))
    rows = [(label, *run.communication()[1]) for label, run in means.items()]
    if any(exposed + beyond > 0 for _, exposed, beyond in rows):
        out.append(communication(rows, "Milliseconds of a step, all groups together, mean over the repeats and over ranks."))
    if any(len(run.losses) > 1 for run in means.values()):
        out.append(losses(means))
    return out + memory(means)
