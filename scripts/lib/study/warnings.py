# SPDX-FileCopyrightText: 2026 The shard8 authors
# SPDX-License-Identifier: Apache-2.0
"""What is to be known before figures are read: a busy machine, points without figures. Terminal and pages say the same."""
from study.errors import counted


def busy_text(name, without_core, others):
    """Of a run whose ranks had to wait for cores or to share them. Shares of time, of the worst rank."""
    return (f"{name}: the machine was busy: a rank had work and no core for {100 * without_core:.1f} % of its time"
            + (f", other programs took {100 * others:.1f} % of a rank's CPUs" if others > 0 else "")
            + ": its figures do not tell of the program")


def busy_warnings(runs):
    """A warning for each Measured whose machine was busy."""
    busy = [(run.label, run.summary["processor"]) for run in runs if (run.summary.get("processor") or {}).get("busy")]
    most = lambda processor, key: max(processor.get(key) or [0.0])
    return [busy_text(label, most(processor, "without_core"), most(processor, "other_programs")) for label, processor in busy]


def missing_warnings(points):
    """A warning for each point of study.json that lacks runs, with the state of each."""
    out = []
    for point in points:
        lacking = (point.get("failed_runs") or 0) + (point.get("missing_runs") or 0)
        if lacking and not point.get("runs"):
            out.append(f"a point has no figures: {point.get('why')}")
        elif lacking:
            out.append(f"a point lacks {lacking} of {counted(lacking + point['runs'], 'run')}: {point.get('why')}")
    return out
