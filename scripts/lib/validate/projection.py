# SPDX-FileCopyrightText: 2026 The shard8 authors
# SPDX-License-Identifier: Apache-2.0
"""Runs shard8 project, and fits efficiencies."""

import concurrent.futures
import dataclasses
import json
import os
import pathlib
import re
import subprocess
import tempfile

from . import Refused, gpus, stacks

LOWEST, HIGHEST = 0.65, 1.1  # efficiencies that are accepted
FARTHEST = 32  # a size may lie outside of the machine file's by this factor
REFUSED, SHARE = 4, 0.001  # project alone refuses sizes beyond this factor; the share of a step from which they are said
TOO_LARGE = re.compile(r"a rank needs (\d+) bytes, and a device of (.+) has (\d+): the deck does not fit")
EXACT = 1e-4  # of the anchor's step time


@dataclasses.dataclass(frozen=True)
class Figures:
    low: float
    nominal: float
    high: float
    compute: float
    notes: tuple = ()  # warnings of shard8 project, and sizes far outside of the machine file's


class Projector:
    """shard8 project for rows of one file."""

    def __init__(self, program, path, all_stacks, machine_of):
        self.program, self.path, self.machine_of = program, path, machine_of
        self.stacks = all_stacks
        self.folder = tempfile.TemporaryDirectory(prefix="validate.")
        self.known = {}
        self.far = set()  # rows with sizes that project alone refuses

    def stack(self, row):
        return stacks.find(self.stacks, row, self.path)

    def __call__(self, row, efficiency):
        efficiency = round(efficiency, 6)
        if (row.id, efficiency) not in self.known:
            self.known[row.id, efficiency] = self._run(row, efficiency)
        return self.known[row.id, efficiency]

    def files(self, row):
        """The row's deck and structure file."""
        folder = pathlib.Path(self.folder.name)
        stack, _ = self.stack(row)
        deck, structure = folder / f"row{row.line}.yaml", folder / f"row{row.line}_stack.yaml"
        if not deck.exists():
            slower = gpus.slower(row, self.machine_of(row))
            structure.write_text(stacks.text(stacks.structure(stack, row, slower)), encoding="utf-8")
            deck.write_text(stacks.text(stacks.deck(stack, row, self.path)), encoding="utf-8")
        return deck, structure

    def _run(self, row, efficiency):
        deck, structure = self.files(row)
        command = [self.program, "project", str(deck), "--machine", str(self.machine_of(row)), "--stack", str(structure),
                   "--efficiency", f"{efficiency:.6f}", "--json"]
        if (power := gpus.power(row, self.machine_of(row))) != 1:
            command += ["--what-if", f"device.power={power:.6g}x"]
        try:
            done = None
            if row.id not in self.far:
                done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done is None or done.returncode != 0:
                self.far.add(row.id)
                command += ["--extrapolate", str(FARTHEST)]
                done = subprocess.run(command, capture_output=True, text=True, check=False)
        except OSError as error:
            raise Refused(f"{self.program}: cannot be run: {error}", 3) from error
        where = f"{self.path}:{row.line}: row {row.id}"
        if done.returncode != 0:
            raise Refused(f"{where}: shard8 project has failed with exit code {done.returncode}:\n{done.stderr.strip()}",
                          done.returncode if done.returncode in (2, 3) else 3)
        try:
            found = json.loads(done.stdout)["projected"]
            step = found["step_s"]
            far = extrapolated(found["not_entries"], float(step["nominal"])) if row.id in self.far else []
            return Figures(float(step["low"]), float(step["nominal"]), float(step["high"]),
                           float(found["computing_s"]),
                           (*warnings(done.stderr, deck), *far))
        except (ValueError, KeyError, TypeError) as error:
            raise Refused(f"{where}: shard8 project has printed no projection: {error}", 3) from error

    def each(self, tasks):
        """The results of (row, efficiency), as many at once as there are processors."""
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 1) as pool:
            return list(pool.map(lambda task: self(*task), tasks))


def warnings(text, deck):
    """Warnings of shard8 project, short."""
    found = []
    for line in text.splitlines():
        if not (warned := re.search(r"\bwarning: (.*)", line)):
            continue
        if large := TOO_LARGE.search(line):
            found.append(f"planned memory {int(large[1]) / 1e9:.0f} GB of {int(large[3]) / 1e9:.0f} GB of {large[2]}")
        else:
            found.append(warned[1].replace(str(deck), "the deck"))
    return list(dict.fromkeys(found))


def extrapolated(operations, step_s):
    """Operations, by the first word of their names, that lie far outside of the machine file's sizes, in one note."""
    found = {}
    for operation in operations:
        if operation["factor"] > REFUSED * (1 + 1e-6):
            name = operation["operation"].split(" ")[0]
            factor, seconds = found.get(name, (0, 0))
            found[name] = max(factor, operation["factor"]), seconds + operation["s"]
    said = [f"{name} {factor:.3g} times ({100 * seconds / step_s:.1f} % of the step)"
            for name, (factor, seconds) in found.items() if seconds >= SHARE * step_s]
    return [f"outside of the machine file's sizes: {', '.join(said)}"] if said else []


def fit(project, row):
    """The efficiency with which the row's projection is its measured time: bisection, steered by the secant."""
    low, high = LOWEST, HIGHEST
    over = project(row, low).nominal / row.step_time_s - 1  # falls with the efficiency
    under = project(row, high).nominal / row.step_time_s - 1
    if over < -EXACT or under > EXACT:
        at = (LOWEST, over) if over < -EXACT else (HIGHEST, under)
        side = f"above {HIGHEST}" if under > EXACT else f"below {LOWEST}"
        raise Refused(f"{project.path}:{row.line}: row {row.id}: the efficiency of {row.stack}, {row.precision} would be "
                      f"{side}: with {at[0]} the projection is {row.step_time_s * (1 + at[1]):.4g} s, measured are "
                      f"{row.step_time_s:.4g} s. The stack file or the machine file is wrong: efficiencies lie between "
                      f"{LOWEST} and {HIGHEST}")
    for turn in range(40):
        guess = (low + high) / 2
        if turn % 3 != 2 and over > under:
            guess = min(max(low + (high - low) * over / (over - under), low), high)
        error = project(row, guess).nominal / row.step_time_s - 1
        if abs(error) < EXACT or high - low < 1e-6:
            return round(guess, 6)
        if error > 0:
            low, over = guess, error
        else:
            high, under = guess, error
    return round((low + high) / 2, 6)
