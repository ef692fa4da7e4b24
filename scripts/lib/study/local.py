# SPDX-FileCopyrightText: 2026 The shard8 authors
# SPDX-License-Identifier: Apache-2.0
"""Runs of a study on this machine, one after another under mpiexec."""
import ctypes
import os
import shlex
import signal
import subprocess
import time

from study.errors import DONE, ENVIRONMENT, FAILED, STOPPED, StudyError, say
from study.run_folder import write_json

DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG of prctl(2)
FIRST_MOMENTS = 2.0  # seconds in which MPICH's mpiexec ignores signals
PATIENCE = 20.0  # seconds that a run has to end after SIGTERM
REMEMBERED = "process.json"


def started_at(pid):
    """When a process was started: its number may be given to another one later. None: there is no such process."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
            fields = file.read().rsplit(")", 1)[1].split()
        return None if fields[0] == "Z" else fields[19]
    except OSError:
        return None


def end_leftover(folder):
    """Ends the mpiexec of a study that was killed: its ranks may still write into the folder of a run."""
    path = folder.file(REMEMBERED)
    old, _ = folder.read(path)
    if not old:
        return
    pid, start = old.get("pid"), old.get("start")
    for what in (signal.SIGTERM, signal.SIGKILL):
        end = time.monotonic() + PATIENCE
        if started_at(pid) == start:
            say(f"{folder.run.name}: ending process {pid}, left by a study that was killed")
            os.kill(pid, what)
        while started_at(pid) == start and time.monotonic() < end:
            time.sleep(0.05)
    if started_at(pid) == start:
        raise StudyError(ENVIRONMENT, f"process {pid} of the run '{folder.run.name}' cannot be ended")
    os.remove(path)


class Local:
    """Starts runs and passes signals on to the run that is under way."""

    def __init__(self, program, launcher, timeout_min):
        self.program, self.launcher, self.timeout_s = program, launcher, timeout_min * 60
        self.signalled, self.process, self.started = 0, None, 0.0
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, self.stop)

    def stop(self, number, _frame):
        say(f"{signal.Signals(number).name}: the study stops after the run that is under way has stopped")
        self.signalled = number

    def command(self, folder):
        return [*self.launcher, "-n", str(folder.expected.ranks), self.program.path, "run",
                *self.program.arguments(folder.run, folder.results)]

    def environment(self, run):
        return {"OMP_PROC_BIND": "false", **os.environ, **dict(run.environment)}

    def spelled(self, folder):
        """The command as a shell reads it."""
        words = [f"{name}={shlex.quote(value)}" for name, value in folder.run.environment]
        return " ".join([*words, shlex.join(self.command(folder))])

    def run(self, folder):
        """Runs one run. Returns its exit code."""
        end_leftover(folder)
        folder.begin(self.spelled(folder))
        folder.note("start")
        libc = ctypes.CDLL(None)
        with open(folder.file("log.txt"), "wb") as log:
            try:
                self.process = subprocess.Popen(
                    self.command(folder), stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
                    env=self.environment(folder.run), start_new_session=True,
                    preexec_fn=lambda: libc.prctl(DEATH_SIGNAL, signal.SIGTERM))
            except OSError as error:
                raise StudyError(ENVIRONMENT, f"cannot start '{self.launcher[0]}': {error.strerror}; set SHARD8_MPIEXEC "
                                              "to the launcher of your MPI") from None
        self.started = time.monotonic()
        write_json(folder.file(REMEMBERED), {"pid": self.process.pid, "start": started_at(self.process.pid)})
        code = self.wait(folder)
        os.remove(folder.file(REMEMBERED))
        write_json(folder.file("end.json"), {"code": code, "seconds": round(time.monotonic() - self.started, 3)})
        folder.note("end", code=code)
        return code

    def wait(self, folder):
        """Waits for the run; after a signal or its time asks it to stop, and kills it if it does not."""
        process, asked, late = self.process, None, False
        while True:
            try:
                return process.wait(0.1)
            except subprocess.TimeoutExpired:
                now = time.monotonic()
            if not late and self.timeout_s and now - self.started > self.timeout_s:
                say(f"{folder.run.name}: not over after {self.timeout_s:g} s, it is ended")
                late = True
            if asked is None and (self.signalled or late) and now - self.started > FIRST_MOMENTS:
                process.send_signal(signal.SIGTERM)
                asked = now
            elif asked is not None and now - asked > PATIENCE:
                os.killpg(process.pid, signal.SIGKILL)

    def run_all(self, folders):
        """Runs all that are not done, in order. Returns the exit code of the study."""
        failed = 0
        missing = [folder for folder in folders if folder.state()[0] != "done"]
        say(f"{len(folders)} runs, {len(folders) - len(missing)} done, {len(missing)} to run")
        for number, folder in enumerate(missing, 1):
            if self.signalled:
                break
            state, why = folder.state()
            say(f"[{number}/{len(missing)}] {folder.run.name}, {folder.expected.ranks} ranks" +
                (f" (before: {state}, {why})" if why else ""))
            code = self.run(folder)
            state, why = folder.state()
            if state != "done" and not self.signalled:
                failed += 1
                say(f"{folder.run.name}: {state}, {why}, exit code {code}; see {folder.file('log.txt')}")
        if self.signalled:
            return STOPPED
        return FAILED if failed else DONE
