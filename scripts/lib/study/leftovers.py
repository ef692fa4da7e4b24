# SPDX-FileCopyrightText: 2026 The shard8 authors
# SPDX-License-Identifier: Apache-2.0
"""Processes of a run whose study was killed."""
import contextlib
import os
import signal
import time

from study.errors import ENVIRONMENT, StudyError, say

FIRST_MOMENTS = 2.0  # seconds in which MPICH's mpiexec ignores signals
PATIENCE = 20.0  # seconds that a run has to end after SIGTERM
MARK = "_SHARD8_STUDY_RUN"  # variable of all processes of a run: the run's folder


def processes_of(folders):
    """The processes of runs on this machine: {run folder: {number: that of its parent}}."""
    marks = {f"{MARK}={os.path.realpath(folder.path)}".encode(): folder for folder in folders}
    found = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):  # it ended, or is another user's
            with open(f"/proc/{name}/environ", "rb") as file:
                mark = next((word for word in file.read().split(b"\0") if word in marks), None)
            if mark is not None:
                with open(f"/proc/{name}/stat", encoding="utf-8") as file:
                    state, parent = file.read().rsplit(")", 1)[1].split()[:2]
                if state != "Z":
                    found.setdefault(marks[mark], {})[int(name)] = int(parent)
    return found


def signal_all(pids, number):
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def end_leftovers(folders):
    """Ends what is left of runs whose study was killed: it may still write into their folders. Their mpiexec is asked
    with SIGTERM; after PATIENCE every process is killed. Throws StudyError(ENVIRONMENT) if one cannot be ended."""
    for folder, processes in processes_of(folders).items():
        say(f"{folder.run.name}: ending processes {sorted(processes)}, left by a study that was killed")
        begun, asked = time.monotonic(), False
        while processes := processes_of([folder]).get(folder):
            waited = time.monotonic() - begun
            if waited > FIRST_MOMENTS + 2 * PATIENCE:
                raise StudyError(ENVIRONMENT, f"processes {sorted(processes)} of the run '{folder.run.name}' cannot be "
                                              "ended: end them, then run the same command again")
            if waited > FIRST_MOMENTS + PATIENCE:
                signal_all(processes, signal.SIGKILL)
            elif waited > FIRST_MOMENTS and not asked:
                signal_all([pid for pid, parent in processes.items() if parent not in processes], signal.SIGTERM)
                asked = True
            time.sleep(0.1)
