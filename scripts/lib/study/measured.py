# SPDX-FileCopyrightText: 2026 The shard8 authors
# SPDX-License-Identifier: Apache-2.0
"""Reads what a run or a study measured, for pictures: summary.json, timing.csv, metrics.jsonl, study.json."""
import csv
import json
import math
import os
import statistics

from study.errors import BAD_STUDY, StudyError, say
from study.run_folder import RESULTS
from study.summary_file import STUDY, TRAINING, is_number, read_json, read_summary, record_of, summary_path
from study.warnings import busy_warnings, missing_warnings

# What a step's time is split into, with the colour of each: computing cold, waiting for others warm, the rest grey.
KINDS = {
    "gemm": "#4477AA", "attention": "#66CCEE", "elementwise": "#228833", "rest of forward and backward": "#8899AA",
    "tensor_comm": "#EE6677", "gather_wait": "#CC7722", "reduce_wait": "#CCBB44", "optimizer": "#AA3377",
    "quantize": "#DDA0CC", "data": "#BBBBBB", "checkpoint_stall": "#777777", "other": "#999999",
}
PARTS = ("gemm", "attention", "elementwise", "tensor_comm")
COMPUTING = ("gemm", "attention", "elementwise", "rest of forward and backward", "optimizer", "quantize")
COMMUNICATION = ("tensor_comm", "gather_wait", "reduce_wait")  # what figures.exposed_communication adds up
EXPECTED = ("expected the output folder or the summary.json of a run, the folder of a study, or what shard8 project --json "
            "wrote")


class Measured:
    """One run: `summary`; `record`, {key of the deck: (value, origin)}; `steps`, {phase: [(step, mean s, max s, worst rank)]}; `losses`, [(step, loss)]; `files`: what was read of it. `every`, of
    output.timing_ranks: ([step], {column: [step][rank] in s}), or None. `path`: its summary, if not that of the record."""

    def __init__(self, folder, label="", path=""):
        whole = os.path.normpath(os.path.abspath(folder))
        named = os.path.dirname(whole) if os.path.basename(whole) == RESULTS else whole
        self.folder, self.label = folder, label or os.path.basename(named)
        self.record = record_of(folder)
        self.path = path or summary_path(folder, self.record)
        self.summary = read_summary(self.path)
        self.files = [self.path, os.path.join(folder, TRAINING)]
        self.steps = self.read("timing", "timing.csv", self.read_steps)
        self.every = self.read("timing_ranks", "", self.read_every)
        self.losses, self.validations = self.read("metrics", "metrics.jsonl", self.read_losses)

    def read(self, key, default, reader):
        """What `reader` makes of the file that output.KEY names. Throws StudyError(BAD_STUDY) if it is damaged."""
        name = self.summary["deck"].get("output", {}).get(key)
        path = os.path.join(self.folder, default if name is None else name)
        self.files.append(path)
        unwritten = self.summary.get("projected") or key == "metrics" and self.summary.get("skeleton")
        if name and not unwritten and not os.path.exists(path):
            say(f"warning: {path}: there is no such file, which output.{key} names: what it has is not drawn")
        try:
            return reader(path)
        except (OSError, ValueError, KeyError, TypeError, AttributeError, IndexError, csv.Error, RecursionError) as error:
            raise StudyError(BAD_STUDY, f"{path}: error: it is damaged or no file of a run ({type(error).__name__}: "
                                        f"{error}); run it again") from None

    def read_steps(self, path):
        steps, ranks = {}, self.summary["ranks"]
        if os.path.isfile(path):
            with open(path, newline="", encoding="utf-8-sig") as file:
                for row in table_of(file):
                    if not row["part"]:
                        worst = int(row["worst_rank"])
                        if not 0 <= worst < ranks:
                            raise ValueError(f"there is no rank {worst}")
                        steps.setdefault(row["phase"], []).append(
                            (int(row["step"]), seconds(row["mean_s"]), seconds(row["max_s"]), worst))
        numbers = [row[0] for row in steps.get("step", [])]
        for phase, rows in steps.items():
            if [row[0] for row in rows] != numbers:
                raise ValueError(f"'{phase}' has other steps than 'step'")
        return steps

    def read_every(self, path):
        if not os.path.isfile(path):
            return None
        steps, columns, ranks = [], {}, self.summary["ranks"]
        with open(path, newline="", encoding="utf-8-sig") as file:
            for row in table_of(file):
                step = int(row.pop("step"))
                if int(row.pop("rank")) == 0:
                    steps.append(step)
                    for name in row:
                        columns.setdefault(name, []).append([])
                for name, value in row.items():
                    columns[name][-1].append(seconds(value))
        if not steps and (self.summary["steps"].get("measured") or 0) > 0:
            raise ValueError("it has no steps, the summary has some")
        if any(len(values) != ranks for column in columns.values() for values in column):
            raise ValueError(f"a step has not {ranks} ranks")
        return (steps, columns) if len(steps) > 1 else None

    @staticmethod
    def read_losses(path):
        """[(step, loss)] and [(step, loss of the validation behind it)]."""
        if not os.path.isfile(path):
            return [], []
        with open(path, encoding="utf-8-sig") as file:
            rows = [json.loads(line) for line in file if line.endswith("\n")]
        for row in rows:
            if not (is_number(row["step"]) and (row["loss"] is None or is_number(row["loss"]) or math.isnan(row["loss"]))):
                raise ValueError(f"step {row['step']!r} has the loss {row['loss']!r}")
        return ([(row["step"], row["loss"]) for row in rows if is_number(row["loss"])],
                [(row["step"], row["validation_loss"]) for row in rows if is_number(row.get("validation_loss"))])

    def rows(self):
        """(phase, part, min s, mean s, max s) of every row of the phases but the step itself."""
        return [(p["phase"], p["part"].split(" ")[0], p.get("min_s") or 0, p["mean_s"], p.get("max_s") or 0)
                for p in self.summary["phases"] if p["phase"] != "step"]

    def kinds(self):
        """{kind of KINDS: ms of a step}, forward and backward together; their sum is the step."""
        out = dict.fromkeys(KINDS, 0.0)
        for phase, part, _, mean, _ in self.rows():
            if part:
                kind = part if part in PARTS else "other"
                out[kind] += 1e3 * mean
                out["rest of forward and backward"] -= 1e3 * mean
            elif phase in ("forward", "backward"):
                out["rest of forward and backward"] += 1e3 * mean
            else:
                out[phase if phase in KINDS else "other"] += 1e3 * mean
        return {kind: max(0.0, ms) for kind, ms in out.items()}

    def communication(self):
        """([(operation and group, exposed ms, ms in flight beyond)], the same of all together) of a step, most time
        first. No row is longer than a step."""
        rows, step = self.summary.get("in_flight"), self.step_s()
        if rows is None:  # an older summary: only sums over calls, which overlap each other
            sums = {}
            for row in self.summary.get("collectives") or []:
                at = sums.setdefault((row["operation"], row["group"]), [0.0, 0.0])
                at[0] += row["exposed_s_per_step"]
                at[1] += row["total_s_per_step"]
            sums["any", ""] = [sum(values) for values in zip(*sums.values())] if sums else [0.0, 0.0]
            rows = [{"operation": operation, "group": group, "exposed_s_per_step": exposed,
                     "s_per_step": min(step, total)} for (operation, group), (exposed, total) in sums.items()]
        times = {f"{row['operation']} {row['group']}".strip(): (1e3 * row["exposed_s_per_step"], 1e3 * max(
            0.0, row["s_per_step"] - row["exposed_s_per_step"])) for row in rows}
        together = times.pop("any", (0.0, 0.0))
        return sorted(((name, *both) for name, both in times.items()), key=lambda row: -row[1] - row[2]), together

    def step_s(self):
        """Mean seconds of a step."""
        return next((p["mean_s"] for p in self.summary.get("phases") or [] if p["phase"] == "step"), 0.0)

    def memory(self):
        """({kind: bytes of the arenas}, planned bytes, measured bytes)."""
        kinds = {row["kind"]: row["bytes"] for row in self.summary.get("memory_per_rank") or []}
        planned, measured = kinds.pop("planned_total", 0), kinds.pop("measured_peak_growth", 0)
        return kinds, planned, measured


class Repeats:
    """The repeats of one point, as one run: every value is the mean over them, as in points.csv."""

    def __init__(self, runs):
        self.runs, self.losses = runs, mean_losses([run.losses for run in runs])
        self.validations = mean_losses([run.validations for run in runs])

    def kinds(self):
        return mean_of([run.kinds() for run in self.runs])

    def communication(self):
        every = [run.communication() for run in self.runs]
        parts = [mean_of([{name: times[i] for name, *times in rows} for rows, _ in every]) for i in (0, 1)]
        together = tuple(statistics.fmean(times[i] for _, times in every) for i in (0, 1))
        return [(name, parts[0][name], parts[1][name]) for name in parts[0]], together

    def memory(self):
        every = [run.memory() for run in self.runs]
        return mean_of([kinds for kinds, _, _ in every]), *(statistics.fmean(m[i] for m in every) for i in (1, 2))


def mean_of(every):
    """{key: mean} over dictionaries; a key that one of them lacks is 0 there."""
    keys = dict.fromkeys(key for one in every for key in one)
    return {key: statistics.fmean(one.get(key, 0.0) for one in every) for key in keys}


def mean_losses(every):
    """[(step, mean loss)] of the steps that all have."""
    every = [dict(losses) for losses in every]
    return [(step, statistics.fmean(losses[step] for losses in every)) for step in every[0]
            if all(step in losses for losses in every)]


class MeasuredStudy:
    """A study: the object of study.json with the points that have figures, of `every` point, and its runs."""

    def __init__(self, folder):
        self.folder, self.study = folder, read_json(os.path.join(folder, "study.json"), STUDY)
        self.lacking = missing_warnings(self.study["points"])
        self.every = len(self.study["points"])
        self.study["points"] = [point for point in self.study["points"] if point.get("runs") != 0]  # the others have no figures
        self.runs = [Measured(os.path.join(folder, name, RESULTS), name) for name in self.study["runs"]]
        if not self.runs:
            raise StudyError(BAD_STUDY, f"{folder}: error: no run of this study is done: scripts/study STUDY.yaml --list")

    def check_points(self):
        """Throws StudyError(BAD_STUDY) without points, or with one that no picture of the study alone can show."""
        folder, points = self.folder, self.study["points"]
        keys = ["ranks", "tokens_per_s", "min", "max", *(["efficiency"] if self.study.get("scaling") else [])]
        if not points:
            raise StudyError(BAD_STUDY, f"{folder}: error: no run of this study has measured steps: set run.timing_skip below "
                                        "run.steps")
        for key in keys:
            if any(not (point.get(key) or 0) > 0 for point in points if key == "ranks" or not point.get("skeleton")):
                raise StudyError(BAD_STUDY, f"{folder}/study.json: error: '{key}' of a point is not above 0: collect again with "
                                            "scripts/study STUDY.yaml --collect")

    def warnings(self):
        """What the terminal warned of, and what is missing."""
        told = self.study.get("warnings")  # older ones have none
        return [*(busy_warnings(self.runs) if told is None else told), *self.lacking]

    def is_skeleton(self):
        """Whether all of its runs are skeletons, which have no tokens/s and so no points."""
        return all(run.summary.get("skeleton") for run in self.runs)

    def means(self):
        """{label of a point: the Repeats of it}, under labels without the repeat."""
        groups, repeats = {}, self.study.get("repeats") or 1
        for run in self.runs:
            head, _, tail = run.label.rpartition("_r")
            label = head if repeats > 1 and head and tail.isdigit() else run.label
            groups.setdefault(label, []).append(run)
        return {label: Repeats(runs) for label, runs in groups.items()}


def table_of(file):
    """The rows of a CSV file. Throws ValueError for a file without a head."""
    reader = csv.DictReader(file)
    if reader.fieldnames is None:
        raise ValueError("it is empty")
    return reader


def seconds(text):
    """A time of a table. Throws ValueError for one that cannot have been measured."""
    value = float(text)
    if not 0 <= value < 1e9:
        raise ValueError(f"{text} is no time in seconds")
    return value


def must_exist(path):
    """Throws StudyError(BAD_STUDY) if there is nothing under a path."""
    if not os.path.exists(path):
        raise StudyError(BAD_STUDY, f"{path}: error: there is no such file or folder; {EXPECTED}")


def read_measured(folder):
    """A Measured or a MeasuredStudy, by what the folder has. Throws StudyError(BAD_STUDY) if it has neither."""
    must_exist(folder)
    if os.path.isfile(os.path.join(folder, "study.json")):
        return MeasuredStudy(folder)
    path = summary_path(folder, record_of(folder))
    if os.path.isfile(path):
        return Measured(folder)
    raise StudyError(BAD_STUDY, f"{folder}: error: neither a run ({os.path.basename(path)}) nor a study (study.json) is in it")
