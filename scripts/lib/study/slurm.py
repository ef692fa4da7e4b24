# SPDX-FileCopyrightText: 2026 The shard8 authors
# SPDX-License-Identifier: Apache-2.0
"""Runs of a study as arrays of Slurm: one array for each number of ranks, one job a run."""
import contextlib
import glob
import os
import shutil
import signal
import subprocess
import time
from collections import namedtuple

from study.errors import DONE, ENVIRONMENT, FAILED, STOPPED, StudyError, counted, say
from study.ledger import note, settle
from study.leftovers import end_leftovers
from study.quote import assignment, shell, slurm as slurm_path

LIST = "array_"  # begins the names of the lists of folders, one list an array
POLL = 5.0  # seconds between two looks at the queue

Job = namedtuple("Job", "number state")  # ARRAY_INDEX, and Slurm's word: PENDING, RUNNING, ...


def command_output(words):
    """What a command of Slurm prints. Throws StudyError(ENVIRONMENT) if it fails."""
    try:
        done = subprocess.run(words, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    except OSError as error:
        raise StudyError(ENVIRONMENT, f"cannot start {words[0]}: {error.strerror}; --slurm needs a machine on which jobs "
                                      "can be submitted") from None
    if done.returncode != 0:
        raise StudyError(ENVIRONMENT, f"{shell(words)} ended with {done.returncode}: {done.stderr.strip()}")
    return done.stdout


def jobs_of(study_folder):
    """{name of a run: its Job} of the jobs of a study that wait or run. A job is known by the list in
    its command: a study may be killed after its array was submitted and before it has the array's number."""
    lists = glob.glob(os.path.join(glob.escape(os.path.abspath(study_folder)), f"{LIST}*.txt"))
    if not lists or not shutil.which("squeue"):
        return {}
    jobs = {}
    for line in command_output(["squeue", "--noheader", "--array", "--format=%F %K %T %o"]).splitlines():
        array, index, state, command = (line.split(None, 3) + ["", "", "", ""])[:4]
        for path in lists:
            if command.endswith(f" {path}") and index.isdigit():
                with open(path, encoding="utf-8") as file:
                    names = file.read().splitlines()
                if int(index) < len(names):
                    jobs[os.path.basename(names[int(index)])] = Job(f"{array}_{index}", state)
    return jobs


class Arrays:
    """Submits arrays and looks at their jobs."""

    def __init__(self, study, program, sources):
        self.study, self.program, self.sources, self.stopped = study, program, os.path.abspath(sources), False

    def sbatch(self, ranks, count, list_file):
        """The words of sbatch for an array of `count` jobs on `ranks` ranks."""
        slurm = self.study.slurm
        tasks = min(slurm.tasks_per_node or ranks, ranks)
        if ranks % tasks != 0:
            raise StudyError(ENVIRONMENT, f"{self.study.path}: {ranks} ranks are not divisible by slurm.tasks_per_node = "
                                          f"{tasks}")
        try:
            log = os.path.join(slurm_path(os.path.abspath(self.study.folder)), "slurm-%A_%a.log")
        except ValueError as error:
            raise StudyError(ENVIRONMENT, f"{error}; set 'folder' in the study to another one") from None
        limit = f"%{slurm.at_once}" if slurm.at_once else ""
        return ["sbatch", "--parsable", f"--array=0-{count - 1}{limit}", f"--job-name={self.study.name}",
                f"--nodes={ranks // tasks}", f"--ntasks-per-node={tasks}",
                f"--output={log}", *slurm.options,
                os.path.join(self.sources, "scripts", "slurm", "array.sbatch"), slurm.template, list_file]

    def list_file(self, ranks, when):
        return os.path.join(os.path.abspath(self.study.folder), f"{LIST}{ranks}_{when}.txt")

    def dry_run(self, folders):
        """The command of each array that a call would submit now, with the folders of its jobs as comments."""
        queue, states = jobs_of(self.study.folder), {folder.run.name: folder.state() for folder in folders}
        lines = []
        for ranks, array in self.arrays(folders, queue, states):
            lines.append(shell(self.sbatch(ranks, len(array), self.list_file(ranks, "TIME"))))
            lines += [f"# job {index}: {folder.path}" for index, folder in enumerate(array)]
        return lines

    def arrays(self, folders, queue, states):
        """[(ranks, [folder])] of the runs that are neither done nor in the queue. Says how many they are."""
        missing = [folder for folder in folders if states[folder.run.name][0] != "done"]
        new = [folder for folder in missing if folder.run.name not in queue]
        say(f"{counted(len(folders), 'run')}, {len(folders) - len(missing)} done, {len(missing) - len(new)} in the queue, "
            f"{len(new)} to submit")
        return [(ranks, [folder for folder in new if folder.expected.ranks == ranks])
                for ranks in sorted({folder.expected.ranks for folder in new})]

    def submit(self, ranks, folders):
        """Submits one array. The list says which folder each of its jobs has."""
        list_file = self.list_file(ranks, time.time_ns())
        command = self.sbatch(ranks, len(folders), list_file)
        for folder in folders:
            words = self.program.arguments(folder.run, folder.results)
            folder.begin(shell(command))
            with open(folder.file("job.bash"), "w", encoding="utf-8") as file:
                file.write("# Sourced by scripts/slurm/array.sbatch.\n")
                for name, value in folder.run.environment:
                    file.write(f"export {assignment(name, value)}\n")
                file.write(f"set -- {shell(words)}\n")
        with open(list_file, "w", encoding="utf-8") as file:
            file.writelines(folder.path + "\n" for folder in folders)
        for folder in folders:
            note(folder, "start", list=os.path.basename(list_file))
        os.environ["SHARD8_SOURCES"], os.environ["SHARD8_PROGRAM"] = self.sources, self.program.path
        array = command_output(command).strip().split(";")[0]
        for index, folder in enumerate(folders):
            note(folder, "submitted", job=f"{array}_{index}")
        say(f"submitted the array {array}: {counted(len(folders), 'job')} of "
            f"{counted(ranks, 'rank')}")

    def look(self, folders):
        """The jobs in the queue, and then the state of every run: a run whose job left the queue has its last state.
        Writes the ends of such runs into the ledger."""
        queue = jobs_of(self.study.folder)
        settle([folder for folder in folders if folder.run.name not in queue])
        return queue, {folder.run.name: folder.state() for folder in folders}

    def run_all(self, folders):
        """Submits all runs that are neither done nor in the queue. Returns STOPPED as long as some are not done."""
        end_leftovers(folders)
        queue, states = self.look(folders)
        for ranks, array in self.arrays(folders, queue, states):
            self.submit(ranks, array)
        return STOPPED if any(state != "done" for state, _ in states.values()) else DONE

    def wait_all(self, folders):
        """Waits until no job of the study is in the queue. A signal ends the wait, not the jobs."""
        def stop(_number, _frame):
            self.stopped = True
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, stop)
        while not self.stopped:
            queue, states = self.look(folders)
            if not queue:
                for name, (state, why) in states.items():
                    if state != "done":
                        say(f"{name}: {state}, {why}; see slurm-*.log in {self.study.folder}")
                return DONE if all(state == "done" for state, _ in states.values()) else FAILED
            with contextlib.suppress(InterruptedError):
                time.sleep(POLL)
        return STOPPED
