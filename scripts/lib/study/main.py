# SPDX-FileCopyrightText: 2026 The shard8 authors
# SPDX-License-Identifier: Apache-2.0
"""The command line of scripts/study."""
import argparse
import os
import sys

from study.collect import collect
from study.errors import BAD_STUDY, DONE, STOPPED, StudyError, counted, say
from study.expand import expand
from study.leftovers import processes_of
from study.local import Local
from study.program import Program, default_program, launcher_of
from study.run_folder import RunFolder, locked
from study.slurm import Arrays, jobs_of
from study.study_file import read_study


def arguments(words):
    parser = argparse.ArgumentParser(prog="scripts/study", add_help=False)
    parser.add_argument("study")
    what = parser.add_mutually_exclusive_group()
    for name in ("--list", "--dry-run", "--collect"):
        what.add_argument(name, action="store_true")
    parser.add_argument("--slurm", action="store_true")
    parser.add_argument("--wait", action="store_true")
    parser.add_argument("--program")
    parser.error = lambda message: (_ for _ in ()).throw(
        StudyError(BAD_STUDY, f"scripts/study: {message}; see scripts/study --help"))
    given = parser.parse_args(words)
    if given.wait and not given.slurm:
        parser.error("--wait needs --slurm")
    return given


def list_runs(study, folders):
    """Every run with its state; a run whose job of Slurm waits or runs is queued or running, one with processes on this machine
    is running."""
    counts, jobs, here = {}, jobs_of(study.folder), processes_of(folders)
    width = max(len(folder.run.name) for folder in folders)
    for folder in folders:
        state, why = folder.state()
        if (job := jobs.get(folder.run.name)) and state != "done":
            state, why = "queued" if job.state == "PENDING" else "running", f"job {job.number}"
        elif processes := here.get(folder):
            state, why = "running", f"{'process' if len(processes) == 1 else 'processes'} {', '.join(map(str, sorted(processes)))}"
        counts[state] = counts.get(state, 0) + 1
        print(f"{folder.run.name:<{width}}  {counted(folder.expected.ranks, 'rank'):>11}  {state}{': ' if why else ''}{why}")
    print(f"{counted(len(folders), 'run')}: " + ", ".join(f"{count} {state}" for state, count in sorted(counts.items())))
    return DONE


def work(given):
    sources = os.environ.get("SHARD8_SOURCES", ".")
    study = read_study(given.study)
    runs = expand(study)
    path = given.program or os.environ.get("SHARD8_PROGRAM") or default_program(sources)
    program = Program(path, study.deck)
    folders = [RunFolder(study.folder, run, program.check(run, study.path)) for run in runs]
    if given.list:
        return list_runs(study, folders)
    starter = Arrays(study, program, sources) if given.slurm else Local(program, launcher_of(path, sources), study.timeout_min)
    if given.dry_run:
        for line in starter.dry_run(folders):
            print(line)
        return DONE
    with locked(study.folder):
        code = DONE if given.collect else starter.run_all(folders)
        if given.slurm and given.wait and not given.collect:
            code = starter.wait_all(folders)
        done = collect(study, folders)
    if done < len(folders):
        say(f"{done} of {len(folders)} runs are done; run the same command again to go on")
    return code if code != DONE or done == len(folders) else STOPPED


def main():
    try:
        return work(arguments(sys.argv[1:]))
    except StudyError as error:
        print(error if error.code == BAD_STUDY else f"[shard8] error: {error}", file=sys.stderr)
        return error.code
    except BrokenPipeError:
        return DONE


if __name__ == "__main__":
    sys.exit(main())
