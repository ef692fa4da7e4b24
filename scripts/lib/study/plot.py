# SPDX-FileCopyrightText: 2026 The shard8 authors
# SPDX-License-Identifier: Apache-2.0
"""The command line of scripts/plot."""
import argparse
import os
import sys

from study.errors import BAD_STUDY, DONE, ENVIRONMENT, StudyError, counted, say
from study.figures import MAKE_GEMMS, figures_of_run, figures_of_study, roofline
from study.measured import Measured, MeasuredStudy, read_measured
from study.outputs import refuse_inputs
from study.page import page, picture
from study.projected import Projected, facts_of_projections, figures_of_projections
from study.quote import shell
from study.side_by_side import figures_of, page_of
from study.subjects import read_all
from study.summary_file import ANY, MOST, NUMBER, TEXT, MapOf, Optional, is_sweep, read_json
from study.svg import number
from study.warnings import busy_warnings
from study.whole_file import write_whole


BENCH = {"rows": Optional([{"key": TEXT, "m": NUMBER, "n": NUMBER, "k": NUMBER, "dtype": TEXT, "out_dtype": Optional(TEXT),
                            "product_ms": Optional(NUMBER)}]),
         "bench": Optional(TEXT), "machine": Optional(TEXT), "date": Optional(TEXT), "commit": Optional(TEXT)}
NOT_MEASURED = "no measured steps: the run ended within the first steps, which figures leave out (run.timing_skip)"
SIDE_BY_SIDE = "side_by_side.html"  # the page of several, in the working directory
GEMMS = ["gemm.json", "overlap.json"]  # times of products, looked for in the folder


def arguments(words):
    parser = argparse.ArgumentParser(prog="scripts/plot", add_help=False)
    parser.add_argument("paths", nargs="+")
    parser.add_argument("-o", dest="out")
    parser.add_argument("--svg")
    parser.add_argument("--png")
    parser.add_argument("--gemms")
    parser.add_argument("--projected", action="append", default=[])
    parser.add_argument("--peak", type=float)
    parser.add_argument("--bandwidth", type=float)
    parser.error = lambda message: (_ for _ in ()).throw(
        StudyError(BAD_STUDY, f"scripts/plot: error: {message}; see scripts/plot --help"))
    given = parser.parse_args(words)
    for name in ("peak", "bandwidth"):
        if getattr(given, name) is not None and not 0 < getattr(given, name) < MOST:
            parser.error(f"--{name} is {getattr(given, name)}: it must be a finite number above 0")
    if several(given):
        for name in ("gemms", "peak", "bandwidth"):
            if getattr(given, name) is not None:
                parser.error(f"--{name} is of one run: leave it out, or draw the run alone")
    return given


def several(given):
    """Whether the page is of several side by side; the meshes of a sweep are."""
    return len(given.paths) > 1 or os.path.isfile(given.paths[0]) and is_sweep(given.paths[0])


def facts_of(summary):
    version, hosts, mesh = summary["version"], summary.get("hosts") or [], summary["deck"].get("mesh", {})
    run, gpu = summary.get("run") or {}, summary.get("gpu") or {}
    machine = [", ".join(dict.fromkeys(hosts)) or "-", *(str(gpu[key]) for key in ("name", "driver") if gpu.get(key))]
    return [("Date", summary.get("date") or "-"),
            ("Command", shell(summary.get("command") or []) or "-"),
            ("Program", f"shard8 {version.get('shard8')} ({version.get('git_hash')}, {version.get('build_type')}, "
                        f"{version.get('compiler')})"),
            ("Libraries", f"{version.get('mpi')}; HDF5 {version.get('hdf5')}; {version.get('blas')}"),
            ("Mesh", f"{counted(summary['ranks'], 'rank')} = replicate {mesh.get('replicate')} × shard {mesh.get('shard')} × tensor "
                     f"{mesh.get('tensor')}, {run.get('backend')}, {run.get('device')}, {run.get('threads_per_rank')} "
                     f"thread{'' if run.get('threads_per_rank') == 1 else 's'} a rank"),
            ("Machine", "; ".join(machine)),
            ("Verification", (summary.get("verification") or {}).get("status", "-"))]


def changed_keys(record):
    """What a run's record says of keys that are no defaults: group.key = value."""
    changed = [f"{key} = {value or repr('')}" for key, (value, origin) in record.items() if origin != "default"]
    return [("Changed keys", "; ".join(changed))] if changed else []


def beside(projections):
    """What the line below a title says of projections."""
    return f"; beside it {counted(len(projections), 'projected step')}" if projections else ""


def page_of_projection(projection, others, figures):
    p, f = projection, projection.summary.get("figures") or {}
    model, goodput = p.summary["deck"].get("model", {}), (p.projected.get("goodput") or {}).get("best")
    cards = [(number(f["tokens_per_s"]) if f.get("tokens_per_s") is not None else "-", "tokens/s, projected"),
             (f"{number(1e3 * p.nominal)} ms", f"step, projected ({p.band_text()})"),
             (f"{100 * f['exposed_communication']:.1f} %" if f.get("exposed_communication") is not None else "-",
              "exposed communication, projected"),
             (f"{100 * goodput:.1f} %" if goodput is not None else "-", "goodput, projected")]
    subtitle = (f"{p.label}, nothing was measured: {model.get('arch')}, {model.get('layers')} layers, hidden {model.get('hidden')}, "
                f"{counted(p.ranks, 'rank')}")
    facts = [(name, value) for name, value in facts_of(p.summary) if name in ("Date", "Command", "Program")]
    return page(f"Projected on {p.machine}", subtitle, cards, figures, [*facts, *facts_of_projections([p, *others])])


def skeleton_text(kind):
    return f"skeleton of the {kind}: nothing was trained"


def page_of_run(run, projections, figures):
    s = summary = run.summary
    model, f, measured = summary["deck"].get("model", {}), summary.get("figures") or {}, s["steps"].get("measured") or 0

    skeleton = s.get("skeleton")  # it trains nothing, so it has no figure of merit and no loss
    if skeleton:
        f = {**f, "tokens_per_s": None}

    def card(value, what, scale=1.0, unit=""):
        return ("-" if value is None or (what != "final loss" and not measured) else number(scale * value) + unit, what)
    cards = [card(f.get("tokens_per_s"), "tokens/s"), card(s["steps"].get("p50_s"), "median step", 1e3, " ms"),
             card(f.get("exposed_communication"), "exposed communication", 100, " %"),
             card(None if skeleton else s["loss"].get("final"), "final loss")]
    begin = f"skeleton ({skeleton}), nothing was trained: " if skeleton else ""
    subtitle = (f"{begin}{model.get('arch')}, {model.get('layers')} layers, hidden {model.get('hidden')}, {counted(s['ranks'], 'rank')}, "
                f"{counted(measured, 'measured step') if measured else NOT_MEASURED}{beside(projections)}")
    return page(f"Run {run.label}", subtitle, cards, figures,
                [*facts_of(summary), *changed_keys(run.record), *facts_of_projections(projections)], warnings=busy_warnings([run]))


def page_of_study(measured, projections, figures):
    study, points = measured.study, measured.study["points"]
    trained, runs = [p for p in points if not p.get("skeleton")], measured.runs
    if trained:
        best = max(trained, key=lambda p: p["tokens_per_s"])
        at_best = (number(best["tokens_per_s"]), "tokens/s at best")
    else:
        best = min(points, key=lambda p: p["step_p50_s"])
        at_best = (f"{number(1e3 * best['step_p50_s'])} ms", "median step at best")
    cards = [(str(len(points)) if len(points) == measured.every else f"{len(points)} of {measured.every}", "points"), (str(len(measured.runs)), "runs"),
             at_best,
             (f"{100 * best['efficiency']:.0f} %", f"efficiency on {counted(best['ranks'], 'rank')}") if best.get("efficiency") is not None else
             (str(best["ranks"]), "ranks of the best")]
    facts = [(name, value) for name, value in facts_of(runs[0].summary) if name not in ("Date", "Mesh", "Verification")]
    dates = sorted(run.summary["date"] for run in runs if run.summary.get("date"))
    facts = [("Command, first run" if name == "Command" else name, value) for name, value in facts]
    swept = {f"{key} = " for key in study["swept"]}
    changed = [(name, "; ".join(text for text in value.split("; ") if not any(map(text.startswith, swept))))
               for name, value in changed_keys(runs[0].record)]
    kinds = list(dict.fromkeys(p["skeleton"] for p in points if p.get("skeleton")))
    skeletons = "".join(f"; {skeleton_text(kind)}" + (f" ({counted(sum(p.get('skeleton') == kind for p in points), 'point')})" if trained else "")
                        for kind in kinds)
    return page(f"Study {study['study']}", "swept: " + ", ".join(study["swept"]) + beside(projections) + skeletons, cards, figures,
                [("Folder", measured.folder), ("Date", " to ".join(dict.fromkeys([dates[0], dates[-1]])) if dates else "-"),
                 *facts, *changed, *facts_of_projections(projections)], warnings=measured.warnings())


def work_of_one(given):
    """(text of the page, figures, its folder, files that were read, folders of runs and studies) of one run, study or projection."""
    path, projections = given.paths[0], [Projected(path) for path in given.projected]
    folder = path if os.path.isdir(path) else os.path.dirname(path)
    if os.path.isfile(path):
        measured = Projected(path) if read_json(path, MapOf(ANY)).get("projected") is not None else Measured(folder or ".", path=path)
    else:
        measured = read_measured(path)
    if isinstance(measured, MeasuredStudy):
        if measured.is_skeleton():
            text, figures, files, folders = work_of_several(given)
            return text, figures, folder, files, folders
        measured.check_points()
    if isinstance(measured, Measured) and measured.summary.get("projected") is not None:  # its folder is given, or it itself
        measured = Projected(measured.path)
    one = isinstance(measured, Measured)
    if isinstance(measured, Projected):
        figures = figures_of_projections([measured, *projections])
    else:
        figures = figures_of_projections(projections, measured) if projections else []
        figures += figures_of_run(measured) if one else figures_of_study(measured)
    found = [path for name in GEMMS if os.path.isfile(path := os.path.join(folder, name))] if not isinstance(measured, Projected) else []
    runs = measured.runs if isinstance(measured, MeasuredStudy) else [measured]
    files = [file for run in [*runs, *projections] for file in run.files]
    files += [] if one or isinstance(measured, Projected) else [os.path.join(folder, "study.json")]
    if gemms := given.gemms or next(iter(found), None):
        bench = read_json(gemms, BENCH)
        files.append(gemms)
        if bench.get("rows") is not None or given.gemms:  # a run with overlap: auto keeps its choice under the same name
            figures.append(roofline(bench, given.peak, given.bandwidth))
    if figures[-1:] == [] or figures[-1].key != "roofline":
        for name in ("peak", "bandwidth"):
            if getattr(given, name) is not None:
                raise StudyError(BAD_STUDY, f"scripts/plot: error: --{name} is of the roofline, and '{folder or '.'}' has no times of matrix "
                                            f"products ({' or '.join(GEMMS)}): {MAKE_GEMMS}, or name their file with --gemms")
    if isinstance(measured, Projected):
        return page_of_projection(measured, projections, figures), figures, folder, files, []
    return (page_of_run if one else page_of_study)(measured, projections, figures), figures, folder, files, [measured.folder]


def work_of_several(given):
    """(text of the page, figures, files that were read, folders of runs and studies)"""
    subjects = read_all([*given.paths, *given.projected])
    figures = figures_of(subjects)
    files = [file for one in subjects for file in one.files]
    folders = list(dict.fromkeys(one.folder for one in subjects if one.folder))
    return page_of(subjects, figures), figures, files + [os.path.join(folder, "study.json") for folder in folders], folders


def work(given):
    if several(given):
        text, figures, files, folders = work_of_several(given)
        out = given.out or SIDE_BY_SIDE
    else:
        text, figures, folder, files, folders = work_of_one(given)
        out = given.out or os.path.join(folder, "report.html")
    pictures = [figure for figure in figures if figure.draw is not None]
    named = [os.path.join(place, f"{figure.key}.{kind}") for place, kind in ((given.svg, "svg"), (given.png, "png")) if place
             for figure in pictures]
    refuse_inputs([out, *named], files, folders)
    try:
        write_whole(out, text)
        say(f"{out}: {counted(len(pictures), 'picture')}")
        if given.svg:
            os.makedirs(given.svg, exist_ok=True)
            for figure in pictures:
                write_whole(os.path.join(given.svg, f"{figure.key}.svg"), picture(figure))
        if given.png:
            from study.png import write_pngs  # matplotlib takes a second
            write_pngs(given.png, pictures)
    except OSError as error:
        raise StudyError(ENVIRONMENT, f"cannot write '{error.filename}': {error.strerror}; name another place with -o, "
                                      "--svg or --png") from None
    return DONE


def main():
    try:
        return work(arguments(sys.argv[1:]))
    except StudyError as error:
        print(error if error.code == BAD_STUDY else f"[shard8] error: {error}", file=sys.stderr)
        return error.code


if __name__ == "__main__":
    sys.exit(main())
