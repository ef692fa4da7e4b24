# SPDX-FileCopyrightText: 2026 The shard8 authors
# SPDX-License-Identifier: Apache-2.0
"""Runs of a study on this machine, one after another under mpiexec."""
import ctypes
import os
import signal
import subprocess
import time

from study.errors import DONE, ENVIRONMENT, FAILED, STOPPED, StudyError, counted, say
from study.ledger import note, settle
from study.leftovers import FIRST_MOMENTS, MARK, PATIENCE, end_leftovers
from study.quote import assignment, shell
from study.run_folder import write_json
from study.slurm import jobs_of

DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG of prctl(2)


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

    def environment(self, folder):
        return {"OMP_PROC_BIND": "false", **os.environ, **dict(folder.run.environment),
                MARK: os.path.realpath(folder.path)}

    def spelled(self, folder):
        """The command as a shell reads it."""
        words = [assignment(name, value) for name, value in folder.run.environment]
        return " ".join([*words, shell(self.command(folder))])

    def dry_run(self, folders):
        """The command of every run."""
        return [self.spelled(folder) for folder in folders]

    def run(self, folder):
        """Runs one run. Returns its exit code."""
        folder.begin(self.spelled(folder))
        note(folder, "start")
        libc = ctypes.CDLL(None)
        with open(folder.file("log.txt"), "wb") as log:
            try:
                self.process = subprocess.Popen(
                    self.command(folder), stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
                    env=self.environment(folder), start_new_session=True,
                    preexec_fn=lambda: libc.prctl(DEATH_SIGNAL, signal.SIGTERM))
            except OSError as error:
                raise StudyError(ENVIRONMENT, f"cannot start '{self.launcher[0]}': {error.strerror}; set SHARD8_MPIEXEC "
                                              "to the launcher of your MPI") from None
        self.started = time.monotonic()
        code = self.wait(folder)
        write_json(folder.file("end.json"), {"code": code, "seconds": round(time.monotonic() - self.started, 3)})
        note(folder, "end", code=code, state=folder.state()[0])
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
        failed, stopped, queue = 0, 0, jobs_of(folders[0].study_folder)
        for folder in folders:
            if job := queue.get(folder.run.name):
                raise StudyError(ENVIRONMENT, f"the run '{folder.run.name}' is job {job.number} of Slurm: wait for its end with "
                                              "--slurm --wait, or end it with scancel")
        end_leftovers(folders)  # before a look at states: what is left may finish its run first
        settle(folders)
        missing = [folder for folder in folders if folder.state()[0] != "done"]
        say(f"{counted(len(folders), 'run')}, {len(folders) - len(missing)} done, {len(missing)} to run")
        for number, folder in enumerate(missing, 1):
            if self.signalled:
                break
            state, why = folder.state()
            say(f"[{number}/{len(missing)}] {folder.run.name}, {counted(folder.expected.ranks, 'rank')}" +
                (f" (before: {state}, {why})" if why else ""))
            code = self.run(folder)
            state, why = folder.state()
            if state == "done" or self.signalled:
                continue
            # By its own run.stop_after or run.time_limit_min: 75 with a checkpoint of the run, 5 without one.
            if code in (STOPPED, FAILED) and state == "unfinished" and folder.summary() is not None:
                stopped += 1
                say(f"{folder.run.name}: {why}; the next call runs it from its begin, and stops there again unless "
                    "what stopped it (run.stop_after, run.time_limit_min, timeout_min) is changed")
                continue
            failed += 1
            reason = why if f"exit code {code}" in why else f"{why}, exit code {code}"
            say(f"{folder.run.name}: {state}, {reason}; see {folder.file('log.txt')}")
        if failed and not self.signalled:
            return FAILED
        return STOPPED if self.signalled or stopped else DONE
