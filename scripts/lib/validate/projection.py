# SPDX-FileCopyrightText: 2026 The shard8 authors
# SPDX-License-Identifier: Apache-2.0
"""Runs shard8 project, and fits efficiencies."""

import concurrent.futures
import dataclasses
import json
import os
import pathlib
import subprocess
import tempfile

from . import Refused, stacks

LOWEST, HIGHEST = 0.65, 1.1  # efficiencies that are accepted
FARTHEST = 32
EXACT = 1e-4  # of the anchor's step time


@dataclasses.dataclass(frozen=True)
class Figures:
    low: float
    nominal: float
    high: float
    compute: float


class Projector:
    """shard8 project for rows of one file."""

    def __init__(self, program, path, all_stacks, machine_of):
        self.program, self.path, self.machine_of = program, path, machine_of
        self.stacks = all_stacks
        self.folder = tempfile.TemporaryDirectory(prefix="validate.")
        self.known = {}

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
            structure.write_text(stacks.text(stacks.structure(stack, row)), encoding="utf-8")
            deck.write_text(stacks.text(stacks.deck(stack, row, self.path)), encoding="utf-8")
        return deck, structure

    def _run(self, row, efficiency):
        deck, structure = self.files(row)
        command = [self.program, "project", str(deck), "--machine", str(self.machine_of(row)), "--stack", str(structure),
                   "--efficiency", f"{efficiency:.6f}", "--extrapolate", str(FARTHEST), "--json"]
        try:
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
            return Figures(float(step["low"]), float(step["nominal"]), float(step["high"]),
                           float(found["computing_s"]))
        except (ValueError, KeyError, TypeError) as error:
            raise Refused(f"{where}: shard8 project has printed no projection: {error}", 3) from error

    def each(self, tasks):
        """The results of (row, efficiency), as many at once as there are processors."""
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 1) as pool:
            return list(pool.map(lambda task: self(*task), tasks))


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
