# SPDX-FileCopyrightText: 2026 The shard8 authors
# SPDX-License-Identifier: Apache-2.0
"""The ledger of a study, FOLDER/ledger.jsonl: a line for each start, each job of Slurm and each end of a run. A start is
written before the run starts, so that every run that ever began is in the ledger."""
import json
import os
import time

from study.quote import json_text

LEDGER = "ledger.jsonl"


def note(folder, event, **more):
    """Appends a line of one run."""
    line = {"time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "run": folder.run.name, "event": event, **more}
    with open(os.path.join(folder.study_folder, LEDGER), "a", encoding="utf-8") as file:
        file.write(json_text(line) + "\n")
        file.flush()
        os.fsync(file.fileno())


def begun(study_folder):
    """The names of the runs whose last line is no end. A line that is not whole is left out."""
    last = {}
    try:
        with open(os.path.join(study_folder, LEDGER), encoding="utf-8") as file:
            for text in file:
                try:
                    line = json.loads(text)
                    last[line["run"]] = line["event"]
                except (ValueError, KeyError, TypeError):
                    continue
    except FileNotFoundError:
        pass
    return {run for run, event in last.items() if event != "end"}


def settle(folders):
    """Writes an end, with the state, for runs that began, do not run any more, and have no end: their study was killed
    before, or Slurm ran them. The caller guarantees that none of `folders` runs."""
    if folders:
        names = begun(folders[0].study_folder)
        for folder in folders:
            if folder.run.name in names:
                note(folder, "end", state=folder.state()[0])
