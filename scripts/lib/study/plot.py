# SPDX-FileCopyrightText: 2026 The shard8 authors
# SPDX-License-Identifier: Apache-2.0
"""The command line of scripts/plot."""
import argparse
import os
import sys

from study.errors import BAD_STUDY, DONE, ENVIRONMENT, StudyError, say
from study.figures import figures_of_run, figures_of_study, roofline
from study.measured import Measured, read_json, read_measured
from study.page import page, picture
from study.svg import number


GEMMS = ["gemm.json", "overlap.json"]  # times of products, looked for in the folder


def arguments(words):
    parser = argparse.ArgumentParser(prog="scripts/plot", add_help=False)
    parser.add_argument("folder")
    parser.add_argument("-o", dest="out")
    parser.add_argument("--svg")
    parser.add_argument("--png")
    parser.add_argument("--gemms")
    parser.add_argument("--peak", type=float)
    parser.add_argument("--bandwidth", type=float)
    parser.error = lambda message: (_ for _ in ()).throw(
        StudyError(BAD_STUDY, f"scripts/plot: error: {message}; see scripts/plot --help"))
    given = parser.parse_args(words)
    for name in ("peak", "bandwidth"):
        if getattr(given, name) is not None and not getattr(given, name) > 0:
            parser.error(f"--{name} must be above 0")
    return given


def facts_of(summary):
    version, hosts, mesh = summary["version"], summary.get("hosts", []), summary["deck"]["mesh"]
    run = summary.get("run", {})
    return [("Program", f"shard8 {version.get('shard8')} ({version.get('git_hash')}, {version.get('build_type')}, "
                        f"{version.get('compiler')})"),
            ("Libraries", f"{version.get('mpi')}; HDF5 {version.get('hdf5')}; {version.get('blas')}"),
            ("Mesh", f"{summary['ranks']} ranks = replicate {mesh.get('replicate')} × shard {mesh.get('shard')} × tensor "
                     f"{mesh.get('tensor')}, {run.get('backend')}, {run.get('device')}, {run.get('threads_per_rank')} "
                     f"thread{'' if run.get('threads_per_rank') == 1 else 's'} a rank"),
            ("Hosts", ", ".join(dict.fromkeys(hosts)) or "-"),
            ("Verification", summary.get("verification", {}).get("status", "-"))]


def page_of_run(run, figures):
    s = summary = run.summary
    model, f = summary["deck"].get("model", {}), summary["figures"] or {}
    cards = [(number(f.get("tokens_per_s", 0)), "tokens/s"),
             (number(1e3 * s["steps"].get("p50_s", 0)) + " ms", "median step"),
             (f"{100 * f.get('exposed_communication', 0):.1f} %", "exposed communication"),
             (number(s["loss"].get("final") or 0), "final loss")]
    subtitle = (f"{model.get('arch')}, {model.get('layers')} layers, hidden {model.get('hidden')}, {s['ranks']} ranks, "
                f"{s['steps'].get('measured')} measured steps")
    return page(f"Run {run.label}", subtitle, cards, figures, facts_of(summary))


def page_of_study(measured, figures):
    study, points = measured.study, measured.study["points"]
    best = max(points, key=lambda p: p["tokens_per_s"])
    cards = [(str(len(points)), "points"), (str(len(measured.runs)), "runs"),
             (number(best["tokens_per_s"]), "tokens/s at best"),
             (f"{100 * best['efficiency']:.0f} %", f"efficiency on {best['ranks']} ranks") if "efficiency" in best else
             (str(best["ranks"]), "ranks of the best")]
    facts = [(name, value) for name, value in facts_of(measured.runs[0].summary) if name not in ("Mesh", "Verification")]
    return page(f"Study {study['study']}", "swept: " + ", ".join(study["swept"]), cards, figures,
                [("Folder", measured.folder), *facts])


def work(given):
    measured = read_measured(given.folder)
    one = isinstance(measured, Measured)
    figures = figures_of_run(measured) if one else figures_of_study(measured)
    found = [path for name in GEMMS if os.path.isfile(path := os.path.join(given.folder, name))]
    if gemms := given.gemms or next(iter(found), None):
        bench = read_json(gemms)
        if "rows" in bench or given.gemms:  # a run with overlap: auto keeps its choice under the same name
            figures.append(roofline(bench, given.peak, given.bandwidth))
    text = page_of_run(measured, figures) if one else page_of_study(measured, figures)
    out = given.out or os.path.join(given.folder, "report.html")
    try:
        with open(out, "w", encoding="utf-8") as file:
            file.write(text)
        say(f"{out}: {len(figures)} pictures")
        if given.svg:
            os.makedirs(given.svg, exist_ok=True)
            for figure in figures:
                with open(os.path.join(given.svg, f"{figure.key}.svg"), "w", encoding="utf-8") as file:
                    file.write(picture(figure))
        if given.png:
            from study.png import write_pngs  # matplotlib takes a second
            write_pngs(given.png, figures)
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
