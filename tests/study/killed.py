# SPDX-FileCopyrightText: 2026 The shard8 authors
# SPDX-License-Identifier: Apache-2.0
"""Starts scripts/study with the program itself, kills it, and reads its ledger."""
import json
import os
import signal
import subprocess
import time
from collections import namedtuple

from fake import STUDY
from study.leftovers import processes_of

Folder = namedtuple("Folder", "path")


def start(path, *options):
    return subprocess.Popen([STUDY, path, *options], text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def run(path, *options, timeout=500):
    """Exit code, standard output and error of scripts/study."""
    process = start(path, *options)
    out, error = process.communicate(timeout=timeout)
    return process.returncode, out, error


def ledger(folder):
    path = os.path.join(folder, "ledger.jsonl")
    if not os.path.exists(path):
        return []
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file if line.endswith("\n")]


def starts(folder):
    """The runs in the order of their starts."""
    return [line["run"] for line in ledger(folder) if line["event"] == "start"]


def done_twice(folder):
    """The runs that began again after an end with the state done."""
    done, twice = set(), []
    for line in ledger(folder):
        if line["event"] == "start" and line["run"] in done:
            twice.append(line["run"])
        elif line["event"] == "end" and line.get("state") == "done":
            done.add(line["run"])
    return twice


def wait_for(what, seconds=120):
    end = time.monotonic() + seconds
    while not what():
        if time.monotonic() > end:
            raise AssertionError("waited in vain")
        time.sleep(0.02)


def wait_for_steps(folder, count):
    """Waits until the run that began as number `count` has made a step. Returns its name."""
    wait_for(lambda: len(starts(folder)) >= count)
    name = starts(folder)[count - 1]
    metrics = os.path.join(folder, name, "results", "metrics.jsonl")
    wait_for(lambda: os.path.exists(metrics) and os.path.getsize(metrics) > 0)
    return name


def processes(folder, name):
    """The processes of a run: {number: that of its parent}."""
    path = Folder(os.path.join(folder, name))
    return processes_of([path]).get(path, {})


def kill_with_mpiexec(study, folder, name):
    """SIGKILL of a study and of the mpiexec of the run that is under way, one right after the other."""
    every = processes(folder, name)
    mpiexec = [pid for pid, parent in every.items() if parent not in every]
    study.kill()
    for pid in mpiexec:
        os.kill(pid, signal.SIGKILL)
    study.communicate()
    return mpiexec
