# SPDX-FileCopyrightText: 2026 The shard8 authors
# SPDX-License-Identifier: Apache-2.0
"""What is drawn side by side: each run, point of a study, projection and mesh of a sweep as one subject with its figures."""
import os
import re
import statistics
from dataclasses import dataclass, field

from study.charts import DASHES
from study.errors import BAD_STUDY, StudyError, counted
from study.measured import COMMUNICATION, COMPUTING, EXPECTED, KINDS, Measured, MeasuredStudy, must_exist, read_measured
from study.projected import Projected
from study.summary_file import ANY, SWEEP, MapOf, is_sweep, read_json
from study.svg import SERIES

MEASURED, SKELETON, PROJECTED = "measured", "skeleton", "projected"
WAIT, UNNAMED = "wait in place of computing", "in no phase"
REST, EXPOSED_REST = "step, not split", "exposed communication, not split"
PARTS = {WAIT: "#D2D7DE", **KINDS, UNNAMED: "#E8DCC8", REST: "#A9B3C4", EXPOSED_REST: "#EE6677"}
MARKED = (*COMMUNICATION, EXPOSED_REST)  # parts that are exposed communication: report_reference.md, `figures`
COLORS = [*SERIES, "#CC7722", "#44AA99", "#7B6FD0"]
MOST_OF_A_SWEEP = 8  # meshes of a sweep that are drawn, the fastest


@dataclass
class Subject:
    """One step with its figures. Times in milliseconds, rates in tokens/s. `parts`: {part of PARTS: ms}, which add up to
    `step`. `low`, `high`: the band of a projection, the extremes of a study's repeats, else `step` itself; so with
    `rates`, (tokens/s, lowest, highest), or None. `memory`: ({kind: bytes}, planned, measured), 0 if not known. `sources`:
    the summaries. `curve`: what the points of one curve of a study share; `line`: what runs share that a line
    over ranks joins. `tag`: its number on the page. `left_out`: meshes of its sweep that are no subjects.
    `warnings`: of its study, at one of the study's subjects. `files`, `folder`: what was read of it, and its run's or study's folder."""
    name: str
    path: str
    kind: str
    ranks: int
    step: float
    low: float
    high: float
    parts: dict
    rates: tuple
    memory: tuple
    figures: dict
    losses: list = field(default_factory=list)
    sources: list = field(default_factory=list)
    mesh: dict = field(default_factory=dict)
    skeleton: str = ""
    curve: tuple = ()
    line: tuple = ()
    tag: int = 0
    color: str = ""
    dashes: str = ""
    left_out: int = 0
    warnings: list = field(default_factory=list)
    files: list = field(default_factory=list)
    folder: str = ""

    def what(self):
        """The kind as it is written beside the name."""
        return f"{self.kind} ({self.skeleton})" if self.skeleton else self.kind

    def label(self):
        return f"{self.tag} {self.name}"

    def second(self):
        return f"{'' if self.kind == MEASURED else self.what() + ', '}{counted(self.ranks, 'rank')}"

    def tip(self):
        return f"{self.label()}, {self.what()}"

    def busy(self):
        """Whether the machine of a run did other things, too."""
        return any((source.get("processor") or {}).get("busy") for source in self.sources)

    def exposed(self):
        """Milliseconds of exposed communication."""
        return sum(self.parts.get(part, 0.0) for part in MARKED)

    def exposed_text(self):
        """As in the picture and in the table; empty without a step."""
        return f"{100 * self.exposed() / self.step:.1f} %" if self.step > 0 else ""


def parts_of(kinds, step, skeleton):
    """Parts of a step from the kinds of its phases: those that a skeleton waits in place of are one, and what no phase has
    is one."""
    parts = {kind: ms for kind, ms in kinds.items() if ms > 0}
    if skeleton == "communication":
        parts = {WAIT: sum(ms for kind, ms in parts.items() if kind in COMPUTING),
                 **{kind: ms for kind, ms in parts.items() if kind not in COMPUTING}}
    parts[UNNAMED] = step - sum(parts.values())
    return {part: parts[part] for part in PARTS if parts.get(part, 0) > 1e-9 * step}


def value_at(summary, *keys):
    """A number of a summary, or None."""
    for key in keys:
        summary = summary.get(key) if isinstance(summary, dict) else None
    return summary


def mean_or_none(values):
    known = [value for value in values if value is not None]
    return statistics.fmean(known) if known and len(known) == len(values) else None


FIGURES = {  # name: where it lies in a summary
    "mfu": ("figures", "mfu"), "loss": ("loss", "final"), "joules": ("energy", "joules_per_token"), "watts": ("energy", "mean_watts"),
}


def subject_of(name, path, runs, whole=None):
    """The subject of the repeats of one run; `whole`: what has their losses, kinds and memory, if not the run itself."""
    first, whole = runs[0], whole or runs[0]
    skeleton = first.summary.get("skeleton") or ""
    projected = isinstance(first, Projected)
    steps = [1e3 * run.step_s() for run in runs]
    step = statistics.fmean(steps)
    rates = [value_at(run.summary, "figures", "tokens_per_s") for run in runs]
    figures = {key: mean_or_none([value_at(run.summary, *at) for run in runs]) for key, at in FIGURES.items()}
    low, high, rate = min(steps), max(steps), mean_or_none(rates)
    if projected:
        step, low, high = (1e3 * value for value in (first.nominal, first.low, first.high))
        rates = [rate and rate * step / high, rate and rate * step / low]
    trained = not projected and not skeleton
    if not trained:
        figures["loss"] = None
    has_rate = rate and min(rates) > 0 and not skeleton
    return Subject(
        name, path, PROJECTED if projected else SKELETON if skeleton else MEASURED, first.summary["ranks"], step, low, high,
        parts_of(whole.kinds(), step, skeleton) if step > 0 else {}, (rate, min(rates), max(rates)) if has_rate else None,
        whole.memory(), figures, whole.losses if trained else [], [run.summary for run in runs], skeleton=skeleton, line=line_of(first),
        files=[file for run in runs for file in run.files], folder="" if projected else first.folder)


def line_of(run):
    """What runs have in common that a line over ranks joins."""
    deck = run.summary["deck"]
    p = getattr(run, "projected", {})
    rest = {**deck.get("mesh", {}), "replicate": 0, "shard": 0}
    groups = (deck.get(group) for group in ("model", "moe", "precision", "fp8", "fsdp", "overlap"))
    return tuple(map(str, (bool(p), run.summary.get("skeleton"), p.get("file"), p.get("stack"), p.get("what_if"), run.summary.get("gpu"),
                           rest, deck.get("data", {}).get("micro_batch"), *groups)))


def subjects_of_study(study, path):
    """A subject for each point; the points of a curve share all swept keys but those that say the ranks."""
    out, name = [], study.study["study"]
    swept = [key for key in study.study["swept"] if key not in ("ranks", "mesh.shard", "mesh.replicate")]
    for label, repeats in study.means().items():
        first = repeats.runs[0]
        one = subject_of(f"{name}: {label}", first.folder, repeats.runs, repeats)
        deck, environment = one.sources[0]["deck"], one.sources[0].get("environment") or {}
        of_deck = lambda key: deck.get(key.partition(".")[0], {}).get(key.partition(".")[2])
        values = [environment.get(key[4:]) if key.startswith("env.") else of_deck(key) for key in swept]
        one.curve = (path, *map(str, values))
        out.append(one)
    out[0].warnings = study.warnings()
    for one in out:
        one.folder = study.folder
    for curve in {one.curve for one in out}:
        ranks = [one.ranks for one in out if one.curve == curve]
        if len(set(ranks)) < len(ranks):  # other keys than these tell its points apart
            for i, one in enumerate(out):
                one.curve = (*one.curve, i) if one.curve == curve else one.curve
    return out


def subjects_of_sweep(path, sweep):
    """The fastest meshes of `shard8 project --sweep --json`."""
    name, out = os.path.splitext(os.path.basename(path))[0], []
    if sweep["ranks"] < 1:
        raise StudyError(BAD_STUDY, f"{path}: error: 'ranks' is 0: it is damaged")
    rows = sorted((row for row in sweep["meshes"] if row.get("step_s")), key=lambda row: row["step_s"]["nominal"])
    line = ("sweep", re.sub(r" --ranks[ =]\S+", "", sweep["projected"].get("command") or path))
    for i, row in enumerate(rows[:MOST_OF_A_SWEEP]):
        step, low, high = (1e3 * row["step_s"][key] for key in ("nominal", "low", "high"))
        if not 0 < low <= step <= high:
            raise StudyError(BAD_STUDY, f"{path}: error: 'meshes[{i}].step_s' does not ascend from low to high")
        exposed = min(max(row.get("exposed_communication") or 0.0, 0.0), 1.0) * step
        parts = {REST: step - exposed, EXPOSED_REST: exposed}
        rate = row.get("tokens_per_s") or 0
        extents = {key: row[key] for key in ("replicate", "shard", "tensor")}
        varied = {key: value for key, value in row.items() if key not in SWEEP["meshes"][0]}
        label = ", ".join(["×".join(map(str, extents.values())), *(f"{key} {value}" for key, value in varied.items())])
        said = {"machine file": sweep["projected"].get("machine"), "version": sweep["projected"].get("version"),
                "what if": sweep["projected"].get("what_if")}
        out.append(Subject(
            f"{name}: {label}", path, PROJECTED, sweep["ranks"], step, low, high, {part: ms for part, ms in parts.items() if ms > 0},
            (rate, rate * step / high, rate * step / low) if rate > 0 else None, ({}, row.get("memory_bytes") or 0, 0), {},
            mesh={**{f"mesh.{key}": size for key, size in extents.items()}, **varied, **said},
            line=line if i == 0 else (*line, i, path), files=[path]))
    if not out:
        raise StudyError(BAD_STUDY, f"{path}: error: no mesh of this sweep was projected: 'meshes' has no 'step_s'")
    out[-1].left_out = len(rows) - len(out)
    return out


def read_subjects(path):
    """The subjects of one argument. Throws StudyError(BAD_STUDY)."""
    must_exist(path)
    if not os.path.isdir(path):
        if is_sweep(path):
            return subjects_of_sweep(path, read_json(path, SWEEP))
        if read_json(path, MapOf(ANY)).get("projected") is not None:
            return [projection(path)]
        run = Measured(os.path.dirname(path) or ".", path=path)
    else:
        run = read_measured(path)
    if isinstance(run, MeasuredStudy):
        return subjects_of_study(run, path)
    if run.summary.get("projected") is not None:
        return [projection(run.path)]
    return [subject_of(run.label, path, [run])]


def projection(path):
    run = Projected(path)
    name = os.path.splitext(os.path.basename(path))[0]
    name = os.path.basename(os.path.dirname(os.path.abspath(path))) if name == "summary" else name
    return subject_of(f"{name}, {run.label.removeprefix('projected ')}", path, [run])


def read_all(paths):
    """The subjects of all arguments, with tags, names and colours. Throws StudyError(BAD_STUDY) with all errors."""
    out, errors = [], []
    for i, path in enumerate(paths):
        try:
            found = read_subjects(path)
            for one in found:
                one.curve = (i, *one.curve) if one.curve else ()
            out += found
        except StudyError as error:
            errors.append(str(error) if EXPECTED in str(error) else f"{error}\n  {EXPECTED}")
    if errors:
        raise StudyError(BAD_STUDY, "\n".join(errors))
    for i, one in enumerate(out):
        one.tag = i + 1
    tell_apart(out)
    give_colors(out)
    return out


def give_colors(subjects):
    """A colour for each run, projection and mesh, and one for all points of a curve; who shares a colour differs in dashes,
    as far as there are some, and neighbours do, so that a curve shows where another lies on it."""
    colors, uses = {}, dict.fromkeys(COLORS, 0)
    for one in subjects:
        key = one.curve or (one.tag,)
        if key not in colors:
            colors[key] = min(COLORS, key=uses.get)  # the first of those that are used least
        one.color = colors[key]
        one.dashes = DASHES[(uses[one.color] + COLORS.index(one.color)) % len(DASHES)]
        uses[one.color] += 1


def tell_apart(subjects):
    """Adds to equal names the folders that differ, or numbers where the paths are one."""
    names = [one.name for one in subjects]
    for name in {name for name in names if names.count(name) > 1}:
        same = [one for one in subjects if one.name == name]
        paths = [os.path.abspath(one.path).split(os.sep) for one in same]
        if len(set(map(tuple, paths))) == len(paths):
            most = max(map(len, paths))
            depth = next(d for d in range(1, most + 1) if len({tuple(path[-d:]) for path in paths}) == len(paths))
            for one, path in zip(same, paths):
                one.name = f"{name} ({os.sep.join(path[-depth:])})"
        else:
            for i, one in enumerate(same):
                one.name = f"{name} ({i + 1})"
