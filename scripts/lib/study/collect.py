# SPDX-FileCopyrightText: 2026 The shard8 authors
# SPDX-License-Identifier: Apache-2.0
"""Collects the summaries of a study into tables: a row for each run, and for each point its repeats and scaling."""
import csv
import math
import os
import statistics

from study.errors import counted, say
from study.run_folder import write_json
from study.study_file import RANKS
from study.warnings import busy_text

# Column of runs.csv -> where it is in summary.json.
FIGURES = {
    "tokens_per_s": ("figures", "tokens_per_s"),
    "tokens_per_s_per_rank": ("figures", "tokens_per_s_per_rank"),
    "model_flops_per_s_per_rank": ("figures", "model_flops_per_s_per_rank"),
    "exposed_communication": ("figures", "exposed_communication"),
    "step_p50_s": ("steps", "p50_s"),
    "step_p95_s": ("steps", "p95_s"),
    "measured_steps": ("steps", "measured"),
    "coverage": ("coverage",),
    "final_loss": ("loss", "final"),
    "validation_loss": ("validation", "last_loss"),
    "skeleton": ("skeleton",),
    "batch": ("deck", "data", "batch"),
    "replicate": ("deck", "mesh", "replicate"),
    "shard": ("deck", "mesh", "shard"),
    "tensor": ("deck", "mesh", "tensor"),
    "threads_per_rank": ("run", "threads_per_rank"),
    "version": ("version", "git_hash"),
}
# As FIGURES, of models with experts (docs/report_reference.md, Experts).
EXPERTS = {
    "expert_tokens_mean": ("experts", "tokens", "mean"),
    "expert_tokens_most": ("experts", "tokens", "most"),
    "busiest_rank": ("experts", "busiest"),
    "expert_rounds": ("experts", "rounds", "mean"),
    "dispatched_bytes": ("experts", "dispatched_bytes", "mean"),
    "dispatch_s": ("experts", "dispatch_s", "mean"),
    "expert_products_s": ("experts", "products_s", "mean"),
    "combine_s": ("experts", "combine_s", "mean"),
}
MEMORY = {"planned_total": "planned_bytes", "measured_peak_growth": "measured_bytes"}
POINT_COLUMNS = ["runs", "tokens_per_s", "std", "min", "max", "spread", "step_p50_s", "exposed_communication",
                 "final_loss"]
EXPERT_COLUMNS = ["expert_tokens_mean", "expert_tokens_most", "busiest_rank", "dispatch_s", "expert_products_s", "combine_s"]
LACKING_COLUMNS = ["failed_runs", "missing_runs"]
SCALING_COLUMNS = ["speedup", "ideal", "efficiency"]


def find(summary, path):
    """The value at a path of a summary, or None."""
    for key in path:
        summary = summary.get(key) if isinstance(summary, dict) else None
    return summary


def phases_of(summary):
    """phase -> mean seconds of a step; parts of forward and backward are named 'forward.gemm'."""
    return {row["phase"] + ("." + row["part"] if row["part"] else ""): row["mean_s"] for row in summary["phases"]}


def processor_of(summary):
    """What the ranks had of their cores: extremes over ranks; empty for summaries without it."""
    processor = summary.get("processor")
    if not processor:
        return {}
    return {"busy": processor["busy"], "cpu_least": min(processor["cpu"]), "without_core_most": max(processor["without_core"]),
            "involuntary_switches_per_s_most": max(processor["involuntary_switches_per_s"]),
            "other_programs_most": max(processor.get("other_programs") or [0.0])}


def busy_warnings(rows):
    """A warning for each run whose ranks had to wait for cores or to share them; the runs' own stay in their logs."""
    warnings = []
    for row in rows:
        if row.get("busy"):
            warnings.append(busy_text(row["run"], row["without_core_most"], row["other_programs_most"]))
    return warnings


def row_of(study, folder):
    """The row of one run; figures only if it is done."""
    state, why = folder.state()
    row = {"run": folder.run.name, **{key: dict(folder.run.parameters).get(key, "") for key in study.swept()},
           "ranks": folder.expected.ranks, "repeat": folder.run.repeat, "state": state, "why": why}
    if state != "done":
        return row
    summary = folder.summary()
    row.update({column: find(summary, path) for column, path in FIGURES.items()})
    if row["validation_loss"] is None:
        del row["validation_loss"]
    row.update({column: next((m["bytes"] for m in summary.get("memory_per_rank", []) if m["kind"] == kind), None)
                for kind, column in MEMORY.items()})
    if summary.get("experts"):
        row.update({column: find(summary, path) for column, path in EXPERTS.items()})
    row.update(processor_of(summary))
    row.update({f"phase_{name}_s": seconds for name, seconds in phases_of(summary).items()})
    return row


def has_figures(row):
    return row["state"] == "done" and bool(row.get("tokens_per_s") or row.get("skeleton") and row.get("measured_steps"))


def why_lacking(row):
    """'RUN: why' of a run without figures."""
    if row["state"] == "done":
        return f"{row['run']}: no measured steps"
    state = "not run yet" if row["state"] == "missing" else row["state"]
    return f"{row['run']}: {state}{', ' if row['why'] else ''}{row['why']}"


def points_of(study, rows):
    """One row for each point: mean, sample standard deviation, extremes and spread (largest less smallest, by the mean) of
    tokens/s over its `runs` with figures, how many runs failed or are missing otherwise, and why. Points of skeleton runs
    have no tokens/s, points without a finished run no figures."""
    groups = {}
    for row in rows:
        groups.setdefault(tuple((key, row[key]) for key in study.swept()), []).append(row)
    points = []
    for parameters, every in groups.items():
        group = [row for row in every if has_figures(row)]
        lacking = [row for row in every if not has_figures(row)]
        failed = sum(row["state"] == "failed" for row in lacking)
        lacks = {"failed_runs": failed, "missing_runs": len(lacking) - failed, "why": "; ".join(map(why_lacking, lacking))}
        if not group:
            points.append({**dict(parameters), "ranks": every[0]["ranks"], "runs": 0,
                           **dict.fromkeys((key for key in POINT_COLUMNS if key != "runs")), "busy_runs": 0, **lacks})
            continue
        rates = [] if group[0].get("skeleton") else [row["tokens_per_s"] for row in group]
        mean = statistics.fmean(rates) if rates else None
        points.append({**dict(parameters), "ranks": group[0]["ranks"], "runs": len(group), "tokens_per_s": mean,
                       "std": statistics.stdev(rates) if len(rates) > 1 else None, "min": min(rates, default=None),
                       "max": max(rates, default=None),
                       "spread": (max(rates) - min(rates)) / mean if len(rates) > 1 else None,
                       **({"skeleton": group[0]["skeleton"]} if group[0].get("skeleton") else {}),
                       **{key: mean_of(group, key) for key in ("step_p50_s", "exposed_communication", "final_loss")},
                       **({"validation_loss": mean_of(group, "validation_loss")}
                          if mean_of(group, "validation_loss") is not None else {}),
                       **{key: mean_of(group, key) for key in group[0] if key.startswith("phase_") or key in EXPERTS},
                       "busy_runs": sum(bool(row.get("busy")) for row in group),
                       "batch": group[0]["batch"], "data_ranks": group[0]["replicate"] * group[0]["shard"], **lacks})
    return points


def mean_of(group, key):
    values = [row[key] for row in group if isinstance(row.get(key), (int, float))]
    return statistics.fmean(values) if values else None


def series_of(study, point):
    """What the points of one curve share: every swept key but the number of ranks."""
    return tuple((key, point[key]) for key in study.swept() if key != RANKS)


def add_scaling(study, points, rows):
    """Adds to each point its speedup over the point of its series with the fewest ranks, the ideal speedup (its ranks
    by theirs), and the efficiency, speedup / ideal. Tokens/s grow ideally in strong and in weak scaling alike. Returns
    warnings: series whose fewest ranks have no finished run in `rows`, or whose batch is not what the kind of scaling
    says."""
    warnings, points = [], [point for point in points if point["runs"] and not point.get("skeleton")]
    for series in dict.fromkeys(series_of(study, point) for point in points):
        group = sorted((p for p in points if series_of(study, p) == series), key=lambda p: p["ranks"])
        first = group[0]
        fewest = min(row["ranks"] for row in rows if series_of(study, row) == series)
        if fewest < first["ranks"]:
            warnings.append(f"scaling: of {dict(series) or 'the sweep'} no run on {counted(fewest, 'rank')} is done: speed-up "
                            f"and efficiency are over {counted(first['ranks'], 'rank')}")
        for point in group:
            point["speedup"] = point["tokens_per_s"] / first["tokens_per_s"]
            point["ideal"] = point["ranks"] / first["ranks"]
            point["efficiency"] = point["speedup"] / point["ideal"]
        sizes = {p["batch"] if study.scaling == "strong" else p["batch"] / p["data_ranks"] for p in group}
        if len(sizes) > 1:
            what, key = (("batch", "data.batch") if study.scaling == "strong" else
                         ("batch of a data rank", "data.batch_per_rank"))
            shown_sizes = ", ".join(f"{size:g}" for size in sorted(sizes))
            warnings.append(f"scaling: {study.scaling}, but the {what} is {shown_sizes} in "
                            f"{dict(series) or 'the sweep'}: give {key} one value")
    return warnings


def write_csv(path, rows):
    """Writes rows with the columns of all of them, in the order in which they come."""
    columns = list(dict.fromkeys(key for row in rows for key in row))
    new = f"{path}.new"
    with open(new, "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, columns, restval="")
        writer.writeheader()
        writer.writerows({k: "" if v is None else v for k, v in row.items()} for row in rows)
    os.replace(new, path)


def write_parquet(path, rows):
    """Writes rows as Parquet if pyarrow is there. Returns whether it is."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        return False
    columns = list(dict.fromkeys(key for row in rows for key in row))
    new = f"{path}.new"
    pyarrow.parquet.write_table(pyarrow.table({c: [row.get(c) for row in rows] for c in columns}), new)
    os.replace(new, path)
    return True


def shown(value):
    if value is None or value == "" or (isinstance(value, float) and math.isnan(value)):
        return "-"
    return f"{value:.5g}" if isinstance(value, float) else str(value)


def print_table(rows, columns):
    """Prints rows as a table, numbers at the right."""
    table = [columns] + [[shown(row.get(column)) for column in columns] for row in rows]
    widths = [max(len(line[i]) for line in table) for i in range(len(columns))]
    for line in table:
        print("  ".join(word.rjust(width) for word, width in zip(line, widths)).rstrip())


def collect(study, folders):
    """Writes and prints the tables of a study. Returns the number of runs that are done."""
    rows = [row_of(study, folder) for folder in folders]
    points = points_of(study, rows)
    warnings = busy_warnings(rows)
    warnings += add_scaling(study, points, rows) if study.scaling and points else []
    file = lambda name: os.path.join(study.folder, name)
    write_csv(file("runs.csv"), rows)
    write_csv(file("points.csv"), points)
    names = "runs.csv, points.csv"
    if write_parquet(file("runs.parquet"), rows) and write_parquet(file("points.parquet"), points):
        names += ", runs.parquet, points.parquet"
    write_json(file("study.json"), {"study": study.name, "scaling": study.scaling, "swept": study.swept(),
                                    "repeats": study.repeats, "points": points, "warnings": warnings,
                                    "runs": [row["run"] for row in rows if row["state"] == "done"]})
    for warning in warnings:
        say(f"warning: {warning}")
    if any(point["runs"] for point in points):
        columns = [key for key in study.swept() if key != RANKS]
        kind = ["skeleton"] if any(point.get("skeleton") for point in points) else []
        experts = EXPERT_COLUMNS if any("busiest_rank" in point for point in points) else []
        lacking = LACKING_COLUMNS if any(point[key] for point in points for key in LACKING_COLUMNS) else []
        print_table(points, [RANKS, *columns, *kind, *POINT_COLUMNS, *experts, *lacking, *(SCALING_COLUMNS if study.scaling else [])])
    say(f"{study.folder}: {names}")
    return sum(row["state"] == "done" for row in rows)
