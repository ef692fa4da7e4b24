# SPDX-FileCopyrightText: 2026 The shard8 authors
# SPDX-License-Identifier: Apache-2.0
"""The folder of a study and those of its runs: what is in them, and which runs are done.

    FOLDER/lock            held while a study works in the folder
    FOLDER/ledger.jsonl    one line for each start and each end of a run (ledger.py)
    FOLDER/runs.csv ...    the tables (collect.py)
    FOLDER/RUN/run.json    written before the run starts: the study's line, the deck, the program
    FOLDER/RUN/results/    output.dir of the run, with its summary under the name that the program says
    FOLDER/RUN/log.txt     what the run printed
"""
import contextlib
import fcntl
import json
import os
import shutil
import socket
from dataclasses import asdict

from study.errors import ENVIRONMENT, StudyError, counted
from study.quote import json_text

RUN_FILE, RESULTS, LOCK = "run.json", "results", "lock"
NEEDED = ("version", "deck", "ranks", "end", "steps", "phases", "figures")  # of a whole summary.json


def write_json(path, value):
    """Writes a file as a whole: by a new file and a rename."""
    new = f"{path}.new"
    with open(new, "w", encoding="utf-8") as file:
        file.write(json_text(value, indent=1))
        file.flush()
        os.fsync(file.fileno())
    os.replace(new, path)


@contextlib.contextmanager
def locked(folder):
    """Holds the lock of a study's folder. Throws StudyError(ENVIRONMENT) if another study holds it."""
    try:
        os.makedirs(folder, exist_ok=True)
        file = open(os.path.join(folder, LOCK), "a+", encoding="utf-8")
    except OSError as error:
        raise StudyError(ENVIRONMENT, f"cannot make the folder '{folder}': {error.strerror}; set 'folder' in the study "
                                      "to one that can be written to") from None
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            file.seek(0)
            raise StudyError(ENVIRONMENT, f"another study works in '{folder}': {file.read().strip() or 'unknown'}; wait "
                                          "for its end, or set 'folder' to another one") from None
        file.truncate(0)
        file.write(f"process {os.getpid()} on {socket.gethostname()}\n")
        file.flush()
        yield


class RunFolder:
    """The folder of one run. `expected` says what its results must belong to."""

    def __init__(self, study_folder, run, expected):
        self.study_folder, self.run, self.expected = study_folder, run, expected
        self.path = os.path.join(study_folder, run.name)
        self.results = os.path.join(self.path, RESULTS)

    def file(self, name):
        return os.path.join(self.path, name)

    def identity(self):
        """What run.json holds the results against."""
        return {"line": self.run.line(), "expected": asdict(self.expected)}

    def begin(self, command):
        """Empties the folder and writes run.json. Throws StudyError(ENVIRONMENT) for a folder that no study made."""
        if os.path.isdir(self.path) and os.listdir(self.path) and not os.path.isfile(self.file(RUN_FILE)):
            raise StudyError(ENVIRONMENT, f"the folder '{self.path}' is not one of a study: it has no {RUN_FILE}; move it "
                                          "away, or set 'folder' in the study to another one")
        shutil.rmtree(self.results, ignore_errors=True)
        if os.path.lexists(self.results):  # the program would refuse the files of another training
            raise StudyError(ENVIRONMENT, f"the folder '{self.results}' cannot be emptied: remove it, then run the same "
                                          "command again")
        for name in ("log.txt", "end.json"):
            with contextlib.suppress(FileNotFoundError):
                os.remove(self.file(name))
        os.makedirs(self.path, exist_ok=True)
        write_json(self.file(RUN_FILE), {**self.identity(), "command": command})

    def state(self):
        """('done', ''), ('missing', ''), or another word with the reason why the run is not done."""
        if not os.path.isdir(self.path):
            return "missing", ""
        kept, why = self.read(self.file(RUN_FILE))
        if kept is None:
            return ("missing", "") if why == "is not there" else ("refused", f"{RUN_FILE} {why}")
        mine = json.loads(json_text(self.identity()))
        if kept.get("line") != mine["line"]:
            return "refused", "belongs to another line of the study"
        before, now = kept.get("expected", {}), mine["expected"]
        for key, what in (("program", "another version of the program"), ("deck", "another text of the deck"),
                          ("resolved", "another resolved deck"), ("ranks", "another number of ranks")):
            if before.get(key) != now[key]:
                return "refused", f"belongs to {what}"
        return self.state_of_results()

    def state_of_results(self):
        end, _ = self.read(self.file("end.json"))
        name = self.expected.summary
        summary, why = self.read(os.path.join(self.results, name))
        if summary is None:
            if why != "is not there":
                return "refused", f"{name} {why}"
            if end and end.get("code") != 0:
                return "failed", f"exit code {end.get('code')}"
            return "unfinished", f"no {name}"
        needed = NEEDED if "skeleton" in summary else (*NEEDED, "loss")  # a skeleton run computes no loss
        if missing := [key for key in needed if key not in summary]:
            return "refused", f"{name} is not whole: no '{missing[0]}'"
        if not summary["end"].get("finished"):
            return "unfinished", f"stopped before step {summary['end'].get('next_step')}"
        version = f"{summary['version'].get('shard8')} ({summary['version'].get('git_hash')})"
        if not self.expected.program.startswith(version[:-1]):
            return "refused", f"{name} is of shard8 {version}"
        if summary["ranks"] != self.expected.ranks:
            return "refused", f"{name} is of {counted(summary['ranks'], 'rank')}"
        for text in self.run.overrides:
            if difference := self.differs(summary["deck"], *text.split("=", 1)):
                return "refused", f"{name} has {difference}"
        if summary.get("verification", {}).get("status") == "failed":
            return "failed", "verification failed"
        return "done", ""

    @staticmethod
    def differs(deck, path, value):
        """'group.key = value' if the deck of a summary has another value than the run was given, else nothing."""
        group, key = path.split(".", 1)
        has = deck.get(group, {}).get(key)
        if value == "auto" or path == "data.batch_per_rank" or isinstance(has, (bool, type(None))):
            return ""  # the program put another value in their place
        try:
            same = float(has) == float(value.lower().replace("d", "e"))
        except ValueError:
            same = str(has) == value or str(has).endswith("/" + value)  # a path as it was found
        return "" if same else f"{path} = {has}, not {value}"

    def summary(self):
        """The summary of a run that is done."""
        return self.read(os.path.join(self.results, self.expected.summary))[0]

    @staticmethod
    def read(path):
        """The object in a JSON file, or None and why there is none."""
        try:
            with open(path, encoding="utf-8-sig") as file:
                value = json.load(file)
        except FileNotFoundError:
            return None, "is not there"
        except OSError as error:
            return None, f"cannot be read: {error.strerror}"
        except ValueError as error:
            return None, f"is not whole: {error}"
        return (value, "") if isinstance(value, dict) else (None, "is not whole: no object")
