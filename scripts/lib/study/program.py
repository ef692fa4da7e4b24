# SPDX-FileCopyrightText: 2026 The shard8 authors
# SPDX-License-Identifier: Apache-2.0
"""The program that runs a study: its version, what it says of a run's deck, and how it is started."""
import functools
import hashlib
import itertools
import os
import re
import subprocess
import tempfile
from dataclasses import dataclass

import yaml

from study.errors import BAD_STUDY, ENVIRONMENT, StudyError, counted


@dataclass(frozen=True)
class Expected:
    """What a run's results must belong to. `deck`: digest of the deck's text. `resolved`: digest of what `check` says
    of the deck with the run's keys on its ranks. `program`: version, and a digest of the file if it has no commit.
    `summary`: the name of the summary in output.dir."""
    ranks: int
    deck: str
    resolved: str
    program: str
    summary: str


def digest_of_file(path):
    with open(path, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()


def installed(sources):
    """What the installation wrote down for its scripts: {"program": path from `sources`, "launcher": words}; for a tree
    of sources nothing."""
    path = os.path.join(sources, "scripts", "lib", "installed.txt")
    if not os.path.isfile(path):
        return {}
    with open(path, encoding="utf-8") as file:
        return dict(line.rstrip("\n").split(" ", 1) for line in file)


def default_program(sources):
    """The installed program, or build/PRESET/bin/shard8."""
    if name := installed(sources).get("program"):
        return os.path.normpath(os.path.join(sources, name))
    return os.path.join(sources, "build", os.environ.get("SHARD8_PRESET", "cpu"), "bin", "shard8")


def launcher_of(program, sources="."):
    """The words of mpiexec: SHARD8_MPIEXEC, or that of the installation or the build, or mpiexec."""
    if words := os.environ.get("SHARD8_MPIEXEC", "").split():
        return words
    if words := installed(sources).get("launcher", "").split():
        return words
    cache = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(program))), "CMakeCache.txt")
    words = []
    if os.path.isfile(cache):
        with open(cache, encoding="utf-8", errors="replace") as file:
            text = file.read()
        for name in ("MPIEXEC_EXECUTABLE", "MPIEXEC_PREFLAGS"):
            if found := re.search(rf"^{name}:[A-Z]*=(.*)$", text, re.M):
                words += [word for word in re.split(r"[ ;]", found[1]) if word]
    return words or ["mpiexec"]


class Program:
    """A program and one deck. Answers of `check` are kept: repeats of a run ask the same."""

    def __init__(self, path, deck):
        self.path, self.deck, self.answers = os.path.abspath(path), deck, {}
        if not os.access(self.path, os.X_OK):
            raise StudyError(ENVIRONMENT, f"there is no program '{path}': build it with scripts/build, or name one with "
                                          "--program or SHARD8_PROGRAM")
        code, out, error = self.ask("info")
        found = re.match(r"shard8\s+(\S+ \(\S+\))", out)
        if code != 0 or not found:
            raise StudyError(ENVIRONMENT, f"'{self.path} info' ended with {code}: {error.strip() or out[:200]}")
        self.version = found[1]
        self.identity = self.version
        if "+dirty" in self.version or "unknown" in self.version:
            self.identity += " " + digest_of_file(self.path)[:16]
        self.deck_digest = digest_of_file(deck)

    def ask(self, *arguments):
        """Exit code, standard output and error of a command of the program that starts no MPI."""
        try:
            done = subprocess.run([self.path, *arguments], capture_output=True, text=True, timeout=120, check=False,
                                  stdin=subprocess.DEVNULL)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise StudyError(ENVIRONMENT, f"'{self.path} {arguments[0]}' does not answer: {error}") from None
        return done.returncode, done.stdout, done.stderr

    @functools.cached_property
    def names_checkpoints(self):
        """Whether the deck sets checkpoint.dir. The runs of a study would go on from each other's checkpoints there."""
        code, out, _ = self.ask("convert", self.deck, "--to", "yaml")
        try:
            groups = yaml.safe_load(out) if code == 0 else None
        except yaml.YAMLError:
            groups = None
        group = groups.get("checkpoint") if isinstance(groups, dict) else None
        return bool(isinstance(group, dict) and group.get("dir"))  # `check` says what is wrong with a deck

    def check(self, run, name):
        """What the results of a run must belong to. Throws StudyError(BAD_STUDY) with the program's own words."""
        key = (run.overrides, run.ranks)
        if key not in self.answers:
            self.answers[key] = self.ask_of_run(run, name)
        return self.answers[key]

    def ask_of_run(self, run, name):
        ranks = run.ranks
        if ranks == 0:
            code, out, error = self.ask("check", "--ranks", self.deck, *run.overrides)
            if code != 0:
                open_ranks = "leaves the number of ranks to the launcher" in error
                raise StudyError(BAD_STUDY, f"{name}: the program refuses the run '{run.name}':\n{error.strip()}" +
                                 ("\nor put 'ranks' into the study's sweep" if open_ranks else ""))
            ranks = int(out)
        # In an empty folder, as the run will find its own: neither what another training left in the deck's output.dir
        # nor a run of this study that is under way counts.
        with tempfile.TemporaryDirectory(prefix="shard8_study_") as empty:
            words = [f"--ranks={ranks}", *self.arguments(run, os.path.join(empty, "results"))]
            code, out, error = self.ask("check", *words)
            if code == 0:
                _, files, error = self.ask("check", "--files", *words)
        if code != 0:
            raise StudyError(BAD_STUDY, f"{name}: the program refuses the run '{run.name}' on {counted(ranks, 'rank')}:\n"
                                        f"{error.strip()}")
        # Behind the line `output` stands how much room there is, which changes.
        resolved = "\n".join(itertools.takewhile(lambda line: not line.startswith("output "), out.splitlines()[1:]))
        resolved = resolved.replace(empty, "")
        return Expected(ranks, self.deck_digest, hashlib.sha256(resolved.encode()).hexdigest(), self.identity,
                        self.name_of_summary(files, error))

    def name_of_summary(self, files, error):
        """The name of the summary in output.dir, of what `check --files` prints."""
        found = dict(line.split(" ", 1) for line in files.splitlines() if " " in line)
        try:
            return os.path.relpath(found["output.summary"], found["output.dir"])
        except KeyError:
            raise StudyError(ENVIRONMENT, f"'{self.path} check --files' does not say where a run writes: "
                                          f"{error.strip() or files[:200]}; use the program of these scripts") from None

    def arguments(self, run, folder):
        """The arguments of `shard8 run` for a run that writes into `folder`."""
        own = [f"checkpoint.dir={folder}/checkpoints"] if self.names_checkpoints else []
        return [self.deck, *run.overrides, f"output.dir={folder}", *own]
