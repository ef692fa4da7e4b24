# SPDX-FileCopyrightText: 2026 The shard8 authors
# SPDX-License-Identifier: Apache-2.0
"""Several runs, studies and projections on one page: one legend, one scale, the same figures in pictures and tables."""
from study import bar_charts, charts
from study.bar_charts import Bar
from study.differences import differences
from study.errors import counted
from study.figures import MEMORY, MIB, Figure, used
from study.page import page, swatch
from study.quote import shell
from study.rank_chart import Point, over_ranks
from study.subjects import MARKED, MEASURED, PARTS, PROJECTED, SKELETON
from study.svg import number

PLANNED = "planned"


def named(subjects):
    """Subjects in a note, by their tags."""
    return ", ".join(one.label() for one in subjects)


def without(subjects, has, what):
    """A sentence about subjects that a picture leaves out."""
    missing = [one for one in subjects if not has(one)]
    return f" {what}: {named(missing)}." if missing else ""


def shown(value, scale=1.0, unit=""):
    return "-" if value is None else f"{number(scale * value)}{unit}"


def band_of(subject, low, high):
    return (low, high) if subject.kind == PROJECTED or low < high else ()


def bar_of(subject, parts, **more):
    return Bar(subject.label(), parts, second=subject.second(), swatch=(subject.color, subject.tip()),
               hatched=subject.kind == PROJECTED, **more)


def bars_figure(key, title, note, bars, colors, unit, table):
    legend = used([(bar.label, bar.parts) for bar in bars], colors)
    return Figure(key, title, note, lambda width: bar_charts.bars(title, bars, colors, unit, width), table, legend,
                  bars=[(f"{bar.label}, {bar.second}", bar.parts) for bar in bars], axes=(unit, ""))


def step_time(subjects):
    drawn = [one for one in subjects if one.step > 0]
    if not drawn:
        return []
    bars = [bar_of(one, one.parts, band=band_of(one, one.low, one.high),
                   mark=(MARKED, f"{one.exposed_text()} exposed") if one.exposed() > 0 else ()) for one in drawn]
    note = "Milliseconds of a step, mean over ranks. The line below a bar is its exposed communication."
    if any(one.kind == PROJECTED for one in drawn):
        note += (" Hatched bars are projected, nothing of them was measured: the thin line goes from the lowest to the highest "
                 "projected step.")
    if any(one.kind != PROJECTED and one.low < one.high for one in drawn):
        note += " Of repeats the bar is the mean, the thin line goes from the shortest to the longest step."
    if any(one.kind == SKELETON for one in drawn):
        note += (" Skeleton runs train nothing: communication has waits in place of computing, computation leaves the "
                 "collectives out.")
    note += without(subjects, lambda one: one.step > 0, "Without measured steps")
    off = [one for one in drawn if abs(sum(one.parts.values()) - one.step) > 0.005 * one.step]
    note += f" Phases that do not add up to the step: {named(off)}." if off else ""
    parts = [part for part in PARTS if any(one.parts.get(part) for one in drawn)]
    table = (["", "step, ms", "low", "high", "exposed", *(f"{part}, ms" for part in parts)],
             [[one.label(), number(one.step), number(one.low), number(one.high), one.exposed_text(),
               *(number(one.parts.get(part, 0)) for part in parts)] for one in drawn])
    return [bars_figure("step_time", "Step time", note, bars, PARTS, "ms", table)]


def points_of(subjects, per_rank):
    """{tag: Point} of the subjects with a rate."""
    return {one.tag: Point(str(one.tag), one.tip(), one.color, one.ranks,
                           *(value / (one.ranks if per_rank else 1) for value in one.rates), one.kind == PROJECTED)
            for one in subjects if one.rates}


def lines_over_ranks(subjects, points):
    """[(colour, [Point])]: the curves of studies in their colours, runs and projections that differ in ranks in grey."""
    groups = {}
    for one in subjects:
        if one.tag in points:
            groups.setdefault((one.color, one.curve) if one.curve else ("", one.line), []).append(points[one.tag])
    out = []
    for (color, _), line in groups.items():
        if len({p.ranks for p in line}) == len(line) > 1:
            out.append((color, sorted(line, key=lambda p: p.ranks)))
    return out


def scaling(subjects):
    if not any(one.rates for one in subjects):
        return []
    out = []
    for key, title, unit, per_rank, more in (
            ("scaling", "Tokens/s over ranks", "tokens/s", False, ""),
            ("scaling_per_rank", "Tokens/s of a rank", "tokens/s a rank", True, " Ideal scaling is level.")):
        points = points_of(subjects, per_rank)
        lines = lines_over_ranks(subjects, points)
        note = "Both axes are logarithmic. Dots were measured"
        note += ", hollow circles and dashed lines are projected" if any(p.projected for p in points.values()) else ""
        note += "." + more
        note += " Grey lines join runs of one model, recipe and tensor group." if any(not color for color, _ in lines) else ""
        if any(p.low < p.high for p in points.values()):
            note += " Upright lines: the band of a projection, the extremes of repeats."
        note += without(subjects, lambda one: one.rates or one.kind == SKELETON, "Without tokens/s")
        note += without(subjects, lambda one: one.kind != SKELETON, "Skeleton runs have none")
        out.append(scaling_figure(key, title, note, unit, [(one, points[one.tag]) for one in subjects if one.tag in points], lines))
    return out


def scaling_figure(key, title, note, unit, drawn, lines):
    """`drawn`: [(subject, Point)]."""
    points = [point for _, point in drawn]
    rows = [[one.label(), str(one.ranks), *map(number, (p.value, p.low, p.high))] for one, p in drawn]
    return Figure(key, title, note, lambda width: over_ranks(title, points, lines, unit, width),
                  (["", "ranks", unit, "low", "high"], rows), curves={one.label(): [(p.ranks, p.value)] for one, p in drawn},
                  styles={one.label(): (one.color, one.dashes) for one, _ in drawn}, axes=("ranks", unit))


def memory(subjects):
    kinds = list(dict.fromkeys(kind for one in subjects for kind in one.memory[0]))
    colors = {**{kind: MEMORY[i % len(MEMORY)] for i, kind in enumerate(kinds)}, PLANNED: "#D6B37A"}
    bars, rows = [], []
    for one in subjects:
        by_kind, planned, measured = one.memory
        parts = {kind: size / MIB for kind, size in by_kind.items() if size > 0}
        if not parts and planned > 0:
            parts = {PLANNED: planned / MIB}
        if parts:
            bars.append(bar_of(one, parts, ticks={"measured": measured / MIB} if measured > 0 else {}))
            sizes = (planned or None, measured or None, *(by_kind.get(kind) for kind in kinds))
            rows.append([one.label(), number(sum(parts.values())), *(shown(size, 1 / MIB) for size in sizes)])
    if not bars:
        return []
    have = {bar.label for bar in bars}
    note = ("MiB of a rank: high-water marks of the arenas, or where nothing was run the planned total. Upright lines: what the "
            "system counted (growth of the peak resident set, on devices memory that was taken).")
    note += without(subjects, lambda one: one.label() in have, "Not known of")
    table = (["", "bar, MiB", "planned", "measured", *kinds], rows)
    return [bars_figure("memory", "Memory of a rank", note, bars, colors, "MiB", table)]


def losses(subjects):
    drawn = {one.label(): one for one in subjects if len(one.losses) > 1}
    if not drawn:
        return []
    series = {label: one.losses for label, one in drawn.items()}
    styles = {label: (one.color, one.dashes) for label, one in drawn.items()}
    tags = {label: str(one.tag) for label, one in drawn.items()}
    note = "Mean over the tokens of the global batch, nats; of repeats their mean. Projections and skeleton runs have no loss."
    trained = [one for one in subjects if one.kind == MEASURED]
    note += without(trained, lambda one: len(one.losses) > 1, "Without losses of two steps")
    rows = [[label, number(line[0][1]), number(line[-1][1])] for label, line in series.items()]
    return [Figure("loss", "Loss", note, lambda width: charts.curves("Loss", series, "step", "loss", width, styles, tags),
                   (["", "first", "last"], rows), curves=series, styles=styles, axes=("step", "loss"))]


def figures_table(subjects):
    """Every subject with its figures; a column that nobody has is left out, but for energy."""
    heads = ["", "", "ranks", "step, ms", "low to high", "exposed", "tokens/s", "a rank", "MFU", "planned, MiB", "measured, MiB",
             "last loss", "J a token", "mean W"]
    rows = []
    for one in subjects:
        f, rate = one.figures, one.rates[0] if one.rates else None
        _, planned, measured = one.memory
        band = f"{number(one.low)} to {number(one.high)}" if band_of(one, one.low, one.high) else "-"
        rows.append([one.label(), one.kind, str(one.ranks), shown(one.step or None), band, one.exposed_text() or "-", shown(rate),
                     shown(rate and rate / one.ranks), shown(None if one.kind == SKELETON else f.get("mfu"), 100, " %"),
                     *(shown(size / MIB if size else None) for size in (planned, measured)), shown(f.get("loss")),
                     *("not read" if f.get(key) is None else number(f[key]) for key in ("joules", "watts"))])
    kept = [i for i, head in enumerate(heads) if head in ("", "J a token") or not {row[i] for row in rows} <= {"-", "not read"}]
    lacking = [one for one in subjects if one.figures.get("joules") is None]
    of = f" of {named(lacking)}" if 0 < len(lacking) < len(subjects) else ""
    note = f"Not read: nothing counted the energy{of}, which is not zero" if lacking else ""
    missing = (source.get("energy_missing") for one in subjects for source in one.sources)
    reasons = dict.fromkeys(map(str, filter(None, missing)))
    note += (f" ({'; '.join(reasons)})." if reasons else ".") if note else ""
    busy = [one for one in subjects if one.busy()]
    note += f" The machine was busy, so that the figures are worth little: {named(busy)}." if busy else ""
    return Figure("figures", "Figures", note, None, ([heads[i] for i in kept], [[row[i] for i in kept] for row in rows]))


def differences_table(subjects):
    heads, rows = differences(subjects)
    note = "Only what differs; names of output files and folders are left out."
    if any(not one.sources for one in subjects):
        note += " A sweep's file does not say the deck of its meshes."
    return Figure("differences", "What differs", note if rows else "Nothing: decks, machines and versions are equal.", None, (heads, rows))


def facts(subjects):
    """[(subject, path, date and command)]"""
    out = []
    for one in subjects:
        said = [one.path]
        if one.sources:
            said += [one.sources[0].get("date") or "", shell(one.sources[0].get("command") or [])]
            said += [counted(len(one.sources), "repeat")] if len(one.sources) > 1 else []
        out.append((one.label(), "; ".join(filter(None, said))))
    return out


def figures_of(subjects):
    return [figures_table(subjects), *step_time(subjects), *scaling(subjects), *memory(subjects), *losses(subjects),
            differences_table(subjects)]


def page_of(subjects, figures):
    count = {kind: sum(one.kind == kind for one in subjects) for kind in (MEASURED, SKELETON, PROJECTED)}
    cards = [(str(len(subjects)), "side by side"), *((str(number_of), kind) for kind, number_of in count.items())]
    kind_of = lambda one: "" if one.kind == MEASURED else one.what()
    legend = [swatch(one.color, one.dashes, one.label(), kind_of(one)) for one in subjects]
    subtitle = "Each has one number and one colour in all pictures. Parts of bars have colours of their own."
    subtitle += "".join(f" {one.left_out} slower mesh{'' if one.left_out == 1 else 'es'} of {one.path} "
                        f"{'is' if one.left_out == 1 else 'are'} not drawn." for one in subjects if one.left_out)
    return page("Side by side", subtitle, cards, figures, facts(subjects), legend,
                [f"{one.name.partition(': ')[0]}: {text}" for one in subjects for text in one.warnings])
