# SPDX-FileCopyrightText: 2026 The shard8 authors
# SPDX-License-Identifier: Apache-2.0
"""What `shard8 project --json` projected, beside what was measured: the pictures of it and what is said beside them."""
import os

from study import band_charts, bar_charts
from study.errors import BAD_STUDY, StudyError, counted
from study.figures import Figure, bar_figure
from study.measured import KINDS, Measured, MeasuredStudy
from study.summary_file import read_summary
from study.svg import SERIES, number

MAKE = "make it with shard8 project DECK --machine FILE --json >FILE"


class Projected(Measured):
    """A projected summary: `low`, `nominal` and `high`, seconds of a step. Of Measured it has what comes from the summary."""

    def __init__(self, path):
        self.path, self.folder, self.record, self.files = path, os.path.dirname(path), {}, [path]
        self.steps, self.every, self.losses = {}, None, []
        self.summary = read_summary(path)
        self.projected = self.summary.get("projected")
        if self.projected is None:
            raise StudyError(BAD_STUDY, f"{path}: error: it is not projected, it has no 'projected': {MAKE}")
        self.low, self.nominal, self.high = (self.projected["step_s"][key] for key in ("low", "nominal", "high"))
        if not 0 < self.low <= self.nominal <= self.high:
            raise StudyError(BAD_STUDY, f"{path}: error: 'projected.step_s' does not ascend from low to high: {MAKE}")
        self.machine, self.ranks = self.projected["machine"], self.summary["ranks"]
        self.label = " ".join(filter(None, ["projected on", self.machine, self.projected.get("stack") and f"({self.projected['stack']})"]))

    def band_text(self):
        return f"{number(1e3 * self.low)} to {number(1e3 * self.high)} ms"


def kind_of(run):
    """What a line over ranks has in common: the tensor group and the FP8 recipe."""
    deck = run.summary["deck"]
    tensor, recipe = deck.get("mesh", {}).get("tensor"), deck.get("fp8", {}).get("recipe")
    return ", ".join(filter(None, [f"tensor {tensor}" if tensor is not None else "", str(recipe) if recipe not in (None, "none") else ""]))


def lines(runs, head, values):
    """{head(run) and what the run's line has in common: [(ranks, *values(run))]}, by ranks."""
    out = {}
    for run in runs:
        out.setdefault(", ".join(filter(None, [head(run), kind_of(run)])), []).append((run.summary["ranks"], *values(run)))
    return {label: sorted(line) for label, line in out.items()}


def bands(projections, measured):
    of_projections = lines(projections, lambda p: p.label, lambda p: (1e3 * p.low, 1e3 * p.nominal, 1e3 * p.high))
    points = lines([run for run in measured if run.step_s() > 0], lambda run: "measured", lambda run: (1e3 * run.step_s(),))
    title = "Step time, projected and measured" if points else "Step time, projected"
    note = ("Milliseconds of a step over ranks. A band goes from the lowest to the highest time that was projected, its dashed "
            "line is the nominal one." + (" Points were measured." if points else " Nothing in this picture was measured."))
    rows = [[label, str(of), "projected", number(nominal), number(low), number(high)]
            for label, line in of_projections.items() for of, low, nominal, high in line]
    rows += [[label, str(of), "measured", number(ms), "", ""] for label, line in points.items() for of, ms in line]
    names = [*of_projections, *points]
    return Figure("projection", title, note, lambda width: band_charts.bands(title, of_projections, points, width),
                  (["", "ranks", "", "ms a step", "low", "high"], rows), [(label, SERIES[i % len(SERIES)]) for i, label in enumerate(names)])


def phases(projections, measured):
    """Projected steps and measured ones, if these are few, bar beside bar."""
    runs = [*projections, *(measured if len(measured) <= 6 else [])]
    rows = [(f"{run.label}, {counted(run.summary['ranks'], 'rank')}" if isinstance(run, Projected) else f"measured: {run.label}", run.kinds())
            for run in runs]
    return bar_figure("phases_projected", "Where the time of a projected step goes",
                      "Milliseconds of a step, mean over ranks. Bars that say projected were simulated on a machine file.", rows, KINDS, "ms")


def sensitivities(projection, index):
    rows = [(row["property"], {"halved": 100 * (row["halved_s"] / projection.nominal - 1),
                               "doubled": 100 * (row["doubled_s"] / projection.nominal - 1)})
            for row in projection.projected.get("sensitivities") or []]
    if not rows:
        return []
    title = f"What a projected step depends on, {projection.machine}, {counted(projection.ranks, 'rank')}"
    note = (f"{projection.label[0].upper()}{projection.label[1:]}: by how many per cent a step is longer (right) or shorter (left) "
            "if a property of the machine is halved or doubled. All of it is projected.")
    return [Figure(f"sensitivities{index or ''}", title, note, lambda width: bar_charts.both_sides(title, rows, width),
                   (["property", "halved, %", "doubled, %"], [[name, *(f"{value:+.2f}" for value in parts.values())] for name, parts in rows]),
                   [("halved", bar_charts.FEWER), ("doubled", bar_charts.MORE)])]


def figures_of_projections(projections, measured=None):
    """`measured`: a Measured, a MeasuredStudy or None."""
    runs = [] if measured is None else measured.runs if isinstance(measured, MeasuredStudy) else [measured]
    return [bands(projections, runs), phases(projections, runs),
            *(figure for i, p in enumerate(projections) for figure in sensitivities(p, i))]


def facts_of_projections(projections):
    """What the end of a page says of each projection."""
    out = []
    for p in projections:
        goodput = p.projected.get("goodput") or {}
        said = [f"{p.path}: {counted(p.ranks, 'rank')}, step {number(1e3 * p.nominal)} ms, {p.band_text()}"]
        said += [f"goodput {100 * goodput['best']:.2f} % at best"] if goodput.get("best") is not None else []
        said += [f"{s['name']}: {s['kind']}: {s['text']}" for s in p.projected.get("sources") or []]
        out.append((p.label[0].upper() + p.label[1:], "; ".join(said)))
    return out
