# SPDX-FileCopyrightText: 2026 The shard8 authors
# SPDX-License-Identifier: Apache-2.0
"""Reads what a run or a study measured, for pictures: summary.json, timing.csv, metrics.jsonl, study.json."""
import csv
import json
import os

from study.errors import BAD_STUDY, StudyError
from study.run_folder import NEEDED, RESULTS

# What a step's time is split into, with the colour of each: computing cold, waiting for others warm, the rest grey.
KINDS = {
    "gemm": "#4477AA", "attention": "#66CCEE", "elementwise": "#228833", "rest of forward and backward": "#8899AA",
    "tensor_comm": "#EE6677", "gather_wait": "#CC7722", "reduce_wait": "#CCBB44", "optimizer": "#AA3377",
    "quantize": "#DDA0CC", "data": "#BBBBBB", "checkpoint_stall": "#777777", "other": "#999999",
}
PARTS = ("gemm", "attention", "elementwise", "tensor_comm")


class Measured:
    """One run: `summary`; `steps`, {phase: [(step, mean s, max s, worst rank)]}; `losses`, [(step, loss)]; `every`, of
    output.timing_ranks: ([step], {column: [step][rank] in s}), or None."""

    def __init__(self, folder, label=""):
        whole = os.path.normpath(os.path.abspath(folder))
        named = os.path.dirname(whole) if os.path.basename(whole) == RESULTS else whole
        self.folder, self.label = folder, label or os.path.basename(named)
        self.summary = read_json(os.path.join(folder, "summary.json"))
        if missing := [key for key in NEEDED if key not in self.summary]:
            raise StudyError(BAD_STUDY, f"{folder}/summary.json: error: it has no '{missing[0]}': is it that of a run?")
        self.steps = self.read("timing", "timing.csv", self.read_steps)
        self.every = self.read("timing_ranks", "", self.read_every)
        self.losses = self.read("metrics", "metrics.jsonl", self.read_losses)

    def read(self, key, default, reader):
        """What `reader` makes of the file that output.KEY names. Throws StudyError(BAD_STUDY) if it is damaged."""
        path = os.path.join(self.folder, self.summary["deck"].get("output", {}).get(key, default))
        try:
            return reader(path)
        except (OSError, ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
            raise StudyError(BAD_STUDY, f"{path}: error: it is damaged or no file of a run ({type(error).__name__}: "
                                        f"{error}); run it again") from None

    @staticmethod
    def read_steps(path):
        steps = {}
        if os.path.isfile(path):
            with open(path, newline="", encoding="utf-8") as file:
                for row in csv.DictReader(file):
                    if not row["part"]:
                        steps.setdefault(row["phase"], []).append(
                            (int(row["step"]), float(row["mean_s"]), float(row["max_s"]), int(row["worst_rank"])))
        return steps

    @staticmethod
    def read_every(path):
        if not os.path.isfile(path):
            return None
        steps, columns = [], {}
        with open(path, newline="", encoding="utf-8") as file:
            for row in csv.DictReader(file):
                step = int(row.pop("step"))
                if int(row.pop("rank")) == 0:
                    steps.append(step)
                    for name in row:
                        columns.setdefault(name, []).append([])
                for name, value in row.items():
                    columns[name][-1].append(float(value))
        return (steps, columns) if len(steps) > 1 else None

    @staticmethod
    def read_losses(path):
        if not os.path.isfile(path):
            return []
        with open(path, encoding="utf-8") as file:
            rows = [json.loads(line) for line in file if line.endswith("\n")]
        return [(row["step"], row["loss"]) for row in rows]

    def rows(self):
        """(phase, part, min s, mean s, max s) of every row of the phases but the step itself."""
        return [(p["phase"], p["part"].split(" ")[0], p.get("min_s", 0), p["mean_s"], p.get("max_s", 0))
                for p in self.summary["phases"] if p["phase"] != "step"]

    def kinds(self):
        """{kind of KINDS: ms of a step}, forward and backward together; their sum is the step."""
        out = dict.fromkeys(KINDS, 0.0)
        for phase, part, _, mean, _ in self.rows():
            if part:
                out[part] += 1e3 * mean
                out["rest of forward and backward"] -= 1e3 * mean
            elif phase in ("forward", "backward"):
                out["rest of forward and backward"] += 1e3 * mean
            else:
                out[phase] = out.get(phase, 0.0) + 1e3 * mean
        return {kind: max(0.0, ms) for kind, ms in out.items()}

    def communication(self):
        """[(operation and group, exposed ms, hidden ms)] of a step, most time first."""
        sums = {}
        for row in self.summary.get("collectives", []):
            at = sums.setdefault(f"{row['operation']} {row['group']}", [0.0, 0.0])
            at[0] += 1e3 * row["exposed_s_per_step"]
            at[1] += 1e3 * max(0.0, row["total_s_per_step"] - row["exposed_s_per_step"])
        return sorted(((name, *times) for name, times in sums.items()), key=lambda row: -row[1] - row[2])

    def memory(self):
        """({kind: bytes of the arenas}, planned bytes, measured bytes)."""
        kinds = {row["kind"]: row["bytes"] for row in self.summary.get("memory_per_rank", [])}
        planned, measured = kinds.pop("planned_total", 0), kinds.pop("measured_peak_growth", 0)
        return kinds, planned, measured


class MeasuredStudy:
    """A study: the object of study.json, and the first run of each point."""

    def __init__(self, folder):
        self.folder, self.study = folder, read_json(os.path.join(folder, "study.json"))
        self.runs = [Measured(os.path.join(folder, name, RESULTS), name) for name in self.study["runs"]]
        if not self.runs:
            raise StudyError(BAD_STUDY, f"{folder}: error: no run of this study is done: scripts/study STUDY.yaml --list")

    def firsts(self):
        """The first repeat of every point, under a label without the repeat."""
        if self.study.get("repeats", 1) == 1:
            return {run.label: run for run in self.runs}
        out = {}
        for run in self.runs:
            head, _, tail = run.label.rpartition("_r")
            label = head if head and tail.isdigit() else run.label
            out.setdefault(label, run)
        return out


def read_json(path):
    """The object of a JSON file. Throws StudyError(BAD_STUDY)."""
    try:
        with open(path, encoding="utf-8") as file:
            return json.load(file)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else f"it is not whole: {error}"
        raise StudyError(BAD_STUDY, f"{path}: error: cannot read it: {why}") from None


def read_measured(folder):
    """A Measured or a MeasuredStudy, by what the folder has. Throws StudyError(BAD_STUDY) if it has neither."""
    if os.path.isfile(os.path.join(folder, "study.json")):
        return MeasuredStudy(folder)
    if os.path.isfile(os.path.join(folder, "summary.json")):
        return Measured(folder)
    raise StudyError(BAD_STUDY, f"{folder}: error: neither a run (summary.json) nor a study (study.json) is in it")
