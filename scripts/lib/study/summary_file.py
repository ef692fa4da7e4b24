# SPDX-FileCopyrightText: 2026 The shard8 authors
# SPDX-License-Identifier: Apache-2.0
"""Reads the JSON files of runs and studies for pictures: which file it is, and that each value has its type."""
import json
import os

from study.errors import BAD_STUDY, StudyError

TRAINING = "training.json"  # the program's record in output.dir, always under this name
MOST = 1e300  # a number beyond it is none that was measured


class Optional:
    """A value that may be null or left out."""

    def __init__(self, kind):
        self.kind = kind


class MapOf:
    """An object of any keys, whose values have one type."""

    def __init__(self, kind):
        self.kind = kind


NUMBER, TEXT, COUNT, FLAG, ANY = "a number", "a text", "a whole number >= 0", "true or false", "anything"
LOGICAL_OR_TEXT = "a text, a number or true or false"

PHASE = {"phase": TEXT, "part": TEXT, "mean_s": NUMBER, "min_s": Optional(NUMBER), "max_s": Optional(NUMBER)}
COLLECTIVE = {"operation": TEXT, "group": TEXT, "total_s_per_step": NUMBER, "exposed_s_per_step": NUMBER}
IN_FLIGHT = {"operation": TEXT, "group": TEXT, "s_per_step": NUMBER, "exposed_s_per_step": NUMBER}
PROJECTED = {
    "machine": TEXT, "file": Optional(TEXT), "what_if": Optional({"changes": Optional(TEXT)}), "stack": Optional(TEXT),
    "step_s": {"low": NUMBER, "nominal": NUMBER, "high": NUMBER},
    "sources": Optional([{"name": TEXT, "kind": TEXT, "text": TEXT}]), "goodput": Optional({"best": Optional(NUMBER)}),
    "sensitivities": Optional([{"property": TEXT, "halved_s": NUMBER, "doubled_s": NUMBER}]),
}
SUMMARY = {
    "version": MapOf(Optional(LOGICAL_OR_TEXT)), "ranks": COUNT,
    "deck": MapOf(MapOf(ANY)),
    "end": {"finished": Optional(FLAG), "next_step": Optional(COUNT)},
    "steps": {"measured": Optional(COUNT), "p50_s": Optional(NUMBER), "p95_s": Optional(NUMBER), "p99_s": Optional(NUMBER),
              "per_row": Optional(COUNT)},
    "phases": [PHASE], "collectives": Optional([COLLECTIVE]), "in_flight": Optional([IN_FLIGHT]), "memory_per_rank": Optional([{"kind": TEXT, "bytes": NUMBER}]),
    "figures": Optional({"tokens_per_s": Optional(NUMBER), "exposed_communication": Optional(NUMBER), "mfu": Optional(NUMBER)}),
    "skeleton": Optional(TEXT), "energy": Optional({"joules_per_token": Optional(NUMBER), "mean_watts": Optional(NUMBER)}),
    "energy_missing": Optional(ANY),
    "environment": Optional(MapOf(ANY)), "processor": Optional({"busy": Optional(FLAG), **{key: Optional([NUMBER]) for key in ("without_core", "other_programs")}}),
    "loss": Optional({"final": Optional(NUMBER)}), "hosts": Optional([TEXT]), "run": Optional(MapOf(ANY)), "date": Optional(TEXT),
    "command": Optional([TEXT]), "gpu": Optional(MapOf(Optional(LOGICAL_OR_TEXT))), "verification": Optional({"status": TEXT}),
    "projected": Optional(PROJECTED),  # nothing was run: the object of `shard8 project --json`
}
MESH = {**{key: COUNT for key in ("replicate", "shard", "tensor")}, "memory_bytes": Optional(NUMBER), "tokens_per_s": Optional(NUMBER),
        "step_s": Optional(PROJECTED["step_s"]), "exposed_communication": Optional(NUMBER)}
SWEEP = {"ranks": COUNT, "meshes": [MESH], "projected": {key: Optional(TEXT) for key in ("machine", "version", "command", "what_if")}}
OUTPUT = {key: Optional(TEXT) for key in ("timing", "timing_ranks", "metrics")}
POINT = {"ranks": COUNT, "skeleton": Optional(TEXT), "why": Optional(TEXT),
         **{key: Optional(COUNT) for key in ("runs", "failed_runs", "missing_runs")},
         **{key: Optional(NUMBER) for key in ("tokens_per_s", "min", "max", "step_p50_s", "spread", "speedup", "ideal", "efficiency")}}
STUDY = {"study": TEXT, "scaling": Optional(TEXT), "swept": [TEXT], "repeats": Optional(COUNT), "points": [POINT],
         "runs": [TEXT], "warnings": Optional([TEXT])}
RECORD = {"deck": [{"key": TEXT, "value": TEXT, "origin": TEXT}]}


def is_number(value):
    return isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < MOST


FITS = {
    NUMBER: is_number, TEXT: lambda value: isinstance(value, str), FLAG: lambda value: isinstance(value, bool),
    COUNT: lambda value: is_number(value) and isinstance(value, int) and value >= 0, ANY: lambda value: True,
    LOGICAL_OR_TEXT: lambda value: isinstance(value, (str, bool)) or is_number(value),
}


def misfit(value, kind, at=""):
    """'key: what it should be' of the first value that has another type than its kind; empty if all fit."""
    if isinstance(kind, Optional):
        return "" if value is None else misfit(value, kind.kind, at)
    if isinstance(kind, str):
        return "" if FITS[kind](value) else f"'{at}' is {short(value)}, not {kind}"
    if isinstance(kind, list):
        if not isinstance(value, list):
            return f"'{at}' is {short(value)}, not a list"
        return next(filter(None, (misfit(one, kind[0], f"{at}[{i}]") for i, one in enumerate(value))), "")
    if not isinstance(value, dict):
        return f"{repr(at) if at else 'it'} is {short(value)}, not an object"
    below = f"{at}." if at else ""
    if isinstance(kind, MapOf):
        return next(filter(None, (misfit(one, kind.kind, f"{below}{key}") for key, one in value.items())), "")
    for key, one in kind.items():
        if key not in value and not isinstance(one, Optional):
            return f"it has no '{below}{key}'"
        if text := misfit(value.get(key), one, f"{below}{key}"):
            return text
    return ""


def short(value):
    text = json.dumps(value)
    return text if len(text) <= 40 else text[:37] + "..."


def read_json(path, kind=ANY):
    """The value in a JSON file, of this kind. Throws StudyError(BAD_STUDY)."""
    try:
        with open(path, encoding="utf-8-sig") as file:
            value = json.load(file)
    except (OSError, ValueError, RecursionError) as error:
        why = error.strerror if isinstance(error, OSError) else f"it is not whole: {error}"
        raise StudyError(BAD_STUDY, f"{path}: error: cannot read it: {why}") from None
    if why := misfit(value, kind):
        raise StudyError(BAD_STUDY, f"{path}: error: {why}: it is damaged or another kind of file")
    return value


def is_sweep(path):
    """Whether a file is what `shard8 project --sweep --json` wrote. Throws StudyError(BAD_STUDY)."""
    whole = read_json(path)
    return isinstance(whole, dict) and "meshes" in whole


def record_of(folder):
    """{key: (value, origin)} of the deck of the training in an output.dir; empty if its program kept no record."""
    path = os.path.join(folder, TRAINING)
    if not os.path.isfile(path):
        return {}
    return {row["key"]: (row["value"], row["origin"]) for row in read_json(path, RECORD)["deck"]}


def summary_path(folder, record):
    """Where the summary of a run lies: its program says the name; one without a record had the default name."""
    name, _ = record.get("output.summary", ("summary.json", ""))
    return os.path.join(folder, os.path.basename(name))


def read_summary(path):
    """The summary of a run, every value of its type. Throws StudyError(BAD_STUDY)."""
    if is_sweep(path):
        raise StudyError(BAD_STUDY, f"{path}: error: it is a sweep of many meshes, not one run or projection: give one mesh, "
                                    "made with shard8 project without --sweep")
    summary = read_json(path, SUMMARY)
    if why := misfit(summary["deck"].get("output", {}), OUTPUT, "deck.output"):
        raise StudyError(BAD_STUDY, f"{path}: error: {why}: it is damaged")
    if summary.get("loss") is None and not summary.get("skeleton"):
        raise StudyError(BAD_STUDY, f"{path}: error: it has no 'loss': it is damaged or another kind of file")
    if summary["ranks"] < 1:
        raise StudyError(BAD_STUDY, f"{path}: error: 'ranks' is 0: it is damaged")
    return summary
