# SPDX-FileCopyrightText: 2026 The shard8 authors
# SPDX-License-Identifier: Apache-2.0
"""Results of rows and what they come to."""

import dataclasses

from . import efficiencies, gpus, stacks

NAIVE_COUNTS = 0.03  # series on which naive errs by more are compared with it


@dataclasses.dataclass(frozen=True)
class Result:
    row: object
    projected: float
    low: float
    high: float
    naive: float
    mfu: float  # constant MFU: that of the pair's anchor; None without one
    compute: float  # no communication
    efficiency: float
    notes: tuple
    smallest: bool = False  # of its series: naive is this row's own time

    def error(self, seconds):
        return None if seconds is None else seconds / self.row.step_time_s - 1

    @property
    def counts(self):
        return self.row.scored == "yes" and not self.row.anchor

    @property
    def naive_said(self):
        """naive where it says something, else None."""
        return None if self.smallest else self.naive

    @property
    def covered(self):
        return self.low <= self.row.step_time_s <= self.high


def of_rows(project, rows, pairs):
    tasks, found = [], []
    for row in rows:
        pair, note = efficiencies.of(row, pairs)
        stack, named = project.stack(row)
        notes = [note, efficiencies.of_card(row, pair) if pair else "", *gpus.notes(row, project.machine_of(row))]
        notes = [note for note in notes if note]
        if not named:
            notes.append(f"{stack.path.name}: the source names no release of {row.stack}")
        notes += stacks.notes(stack, row, project.path)
        found.append((pair, tuple(notes)))
        tasks.append((row, pair.efficiency if pair else 1.0))
    figures = project.each(tasks)
    smallest = {}
    for row in rows:
        first = smallest.setdefault(row.series, row)
        if row.gpus < first.gpus:
            smallest[row.series] = row
    results = []
    for row, (pair, notes), (_, efficiency), f in zip(rows, found, tasks, figures):
        first = smallest[row.series]
        naive = first.step_time_s * row.sequences_per_gpu / first.sequences_per_gpu
        mfu = row.flops * row.sequences_per_gpu / pair.flops_per_s if pair else None
        results.append(Result(row, f.nominal, f.low, f.high, naive, mfu, f.compute, efficiency,
                              notes + f.notes, row is first))
    return results


def by_series(results):
    series = {}
    for result in results:
        series.setdefault(result.row.series, []).append(result)
    return series


def mean(values):
    values = list(values)
    return sum(values) / len(values) if values else None


def mean_error(results, seconds):
    """Mean of the absolute errors of a figure; None without rows or figures."""
    errors = [result.error(seconds(result)) for result in results]
    return mean(abs(error) for error in errors if error is not None)


@dataclasses.dataclass(frozen=True)
class Summary:
    rows: int
    mean: float
    largest: float
    series: float
    naive: float  # of rows that are not their series' smallest
    naive_series: int  # on which naive errs by more than 3 %
    ratio: float  # to naive, on these
    mfu: float
    compute: float
    covered: float


def summary(results):
    """Of the rows that count. Members are None where there is nothing to take the mean of."""
    own = [result for result in results if result.counts]
    errors = [abs(result.error(result.projected)) for result in own]
    series = by_series(own)
    ours = {name: mean_error(some, lambda r: r.projected) for name, some in series.items()}
    naive = {name: mean_error(some, lambda r: r.naive_said) for name, some in series.items()}
    beside = {name: mean_error(some, lambda r: None if r.smallest else r.projected) for name, some in series.items()}
    hard = [name for name in series if (naive[name] or 0) > NAIVE_COUNTS]
    ratio = sum(beside[name] for name in hard) / sum(naive[name] for name in hard) if hard else None
    return Summary(len(own), mean(errors), max(errors, default=None), mean(ours.values()),
                   mean_error(own, lambda r: r.naive_said), len(hard), ratio, mean_error(own, lambda r: r.mfu),
                   mean_error(own, lambda r: r.compute), mean(1.0 if result.covered else 0.0 for result in own))
