# SPDX-FileCopyrightText: 2026 The shard8 authors
# SPDX-License-Identifier: Apache-2.0
"""Prints results: a table, JSON, and docs/validation.md."""

import json

from . import results as of

HEAD = ("id", "GPUs", "measured s", "projected s", "low", "high", "error", "naive", "MFU", "no comm.")


def percent(value, sign=True):
    return "-" if value is None else f"{100 * value:{'+' if sign else ''}.1f} %"


def cells(result):
    row = result.row
    mark = "anchor" if row.anchor else "" if row.scored == "yes" else row.scored
    name = f"{row.id} ({mark})" if mark else row.id
    return (name, str(row.gpus), f"{row.step_time_s:.3f}", f"{result.projected:.3f}", f"{result.low:.3f}",
            f"{result.high:.3f}", percent(result.error(result.projected)), percent(result.error(result.naive_said)),
            percent(result.error(result.mfu)), percent(result.error(result.compute)))


def lines_of(summary):
    yield "rows that count", str(summary.rows)
    yield "mean error", percent(summary.mean, False)
    yield "largest error", percent(summary.largest, False)
    yield "mean over series", percent(summary.series, False)
    yield "naive, mean error", percent(summary.naive, False)
    ratio = "-" if summary.ratio is None else f"{summary.ratio:.2f}"
    yield f"error to naive's, {summary.naive_series} series on which naive errs by more than 3 %", ratio
    yield "constant MFU, mean error", percent(summary.mfu, False)
    yield "no communication, mean error", percent(summary.compute, False)
    yield "measured between low and high", percent(summary.covered, False)


def notes_of(results):
    """The notes of a series, each once: the rows before those that not all rows have."""
    noted = {}
    for result in results:
        for note in result.notes:
            noted.setdefault(note, []).append(result.row.id)
    for note, ids in noted.items():
        yield note if len(ids) == len(results) else f"{', '.join(ids)}: {note}"


def table(results, fitted, kept):
    """The text for standard output."""
    lines = ["efficiencies (compute times are divided by them):"]
    for pair in fitted:
        lines.append(f"  {pair.stack}, {pair.precision}: {pair.efficiency:.4f}, fitted on {pair.anchor}")
    used = {result.row.stack for result in results}
    for pair in kept:
        if pair.stack in used:
            lines.append(f"  {pair.stack}, {pair.precision}: {pair.efficiency:.4f}, kept from {pair.anchor}")
    rows = [cells(result) for result in results]
    widths = [max(len(line[i]) for line in [HEAD, *rows]) for i in range(len(HEAD))]

    def aligned(line):
        return "  " + "  ".join([line[0].ljust(widths[0])] + [c.rjust(w) for c, w in zip(line[1:], widths[1:])])

    for name, some in of.by_series(results).items():
        lines += ["", name, aligned(HEAD)] + [aligned(cells(result)) for result in some]
        lines += [f"  {line}" for line in notes_of(some)]
        own = [result for result in some if result.counts]
        if own:
            lines.append(f"  mean error {percent(of.mean_error(own, lambda r: r.projected), False)}, naive "
                         f"{percent(of.mean_error(own, lambda r: r.naive_said), False)}")
    lines += ["", "naive -: the series' smallest row, whose time naive is; no part of naive's mean errors. MFU -: no anchor"]
    lines += ["", "all series, without anchors and rows that are not scored:"]
    lines += [f"  {name}: {value}" for name, value in lines_of(of.summary(results))]
    return "\n".join(lines) + "\n"


def as_json(results):
    items = [{"id": r.row.id, "series": r.row.series, "measured_s": r.row.step_time_s, "projected_s": r.projected,
              "low_s": r.low, "high_s": r.high, "naive_s": r.naive, "anchor": r.row.anchor, "scored": r.row.scored,
              "efficiency": r.efficiency, "notes": list(r.notes)}
             for r in results]
    return json.dumps(items, indent=2) + "\n"


PREFACE = """# Validation of projections

<!-- Drawn by scripts/validate; to change it: scripts/validate tests/validation/scaling_rows.csv --write -->

    scripts/validate tests/validation/scaling_rows.csv [--json] [--machine FILE]

projects each row of published step times. A row's columns make a deck; a file of `inputs/stacks` has its stack's
structure, sources and approximations; the machine file is the GPU's. Times of computation are divided by one efficiency
for each pair of stack and precision, fitted on its anchor row, from 0.65 to 1.1. Nothing else is fitted. A precision
without an anchor whose name begins with float8 or fp8 takes its stack's FP8 efficiency, else its BF16 one, else 1. Rows
count that are `scored` and no anchors.

*Naive*: the time a sequence of the series' smallest row, for its other rows. *MFU*: the anchor's, constant.
"""


def page(results, fitted):
    """docs/validation.md."""
    lines = [PREFACE, "stack, precision | efficiency | anchor", "---|---|---"]
    lines += [f"{p.stack}, {p.precision} | {p.efficiency:.3f} | {p.anchor.split(',')[0]}" for p in fitted]
    lines += ["", "all series | value", "---|---"]
    lines += [f"{name} | {value}" for name, value in lines_of(of.summary(results))]
    lines += ["", "stack, model, precision, tensor | rows, GPUs | mean error | naive", "---|---|---|---"]
    for some in of.by_series(results).values():
        own = [result for result in some if result.counts]
        if not own:
            continue
        row, gpus = own[0].row, [result.row.gpus for result in some]
        lines.append(f"{row.stack}, {row.model}, {row.precision}, {row.tensor} | {len(own)}, {min(gpus)} to {max(gpus)} | "
                     f"{percent(of.mean_error(own, lambda r: r.projected), False)} | "
                     f"{percent(of.mean_error(own, lambda r: r.naive_said), False)}")
    return "\n".join(lines).rstrip() + "\n"
