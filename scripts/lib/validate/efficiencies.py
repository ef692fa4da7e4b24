# SPDX-FileCopyrightText: 2026 The shard8 authors
# SPDX-License-Identifier: Apache-2.0
"""Efficiencies of pairs of stack and precision: fitted on anchors, or kept from before."""

import concurrent.futures
import dataclasses
import json
import os

from . import Refused, projection
from .rows import is_fp8

FORMAT = 1


@dataclasses.dataclass(frozen=True)
class Efficiency:
    stack: str
    precision: str  # lower case
    efficiency: float
    flops_per_s: float  # of the anchor, a GPU: model FLOPs over the measured time
    anchor: str  # "r01, SOURCE"


def read(path):
    if not os.path.exists(path):
        return []
    try:
        with open(path, encoding="utf-8") as file:
            found = json.load(file)
        if found["format"] != FORMAT:
            raise ValueError(f"format {found['format']}, expected {FORMAT}")
        return [Efficiency(**pair) for pair in found["pairs"]]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise Refused(f"{path}: cannot read the efficiencies: {error}: remove the file and run scripts/validate with "
                      "--write") from error


def write(path, pairs):
    pairs = sorted(pairs, key=lambda pair: (pair.stack, pair.precision))
    with open(path, "w", encoding="utf-8") as file:
        json.dump({"format": FORMAT, "pairs": [dataclasses.asdict(pair) for pair in pairs]}, file, indent=2)
        file.write("\n")


def fit_all(project, rows, known):
    """Fits each pair that has an anchor among the rows. Returns these, then those known from before."""
    anchors, errors = {}, []
    for row in rows:
        if not row.anchor:
            continue
        pair = row.stack, row.precision.lower()
        if pair in anchors:
            errors.append(f"{project.path}:{row.line}: row {row.id}: column anchor: row {anchors[pair].id} is the anchor "
                          f"of {row.stack}, {row.precision}")
        anchors.setdefault(pair, row)
    if errors:
        raise Refused(errors)

    def one(item):
        (stack, precision), row = item
        try:
            found = projection.fit(project, row)
        except Refused as error:
            return error
        rate = row.flops * row.sequences_per_gpu / row.step_time_s
        return Efficiency(stack, precision, found, float(f"{rate:.6g}"), f"{row.id}, {row.source}")

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        found = list(pool.map(one, anchors.items()))
    refused = [error for error in found if isinstance(error, Refused)]
    if refused:
        raise Refused([str(error) for error in refused], max(error.code for error in refused))
    own = {(pair.stack, pair.precision) for pair in found}
    return found, [pair for pair in known if (pair.stack, pair.precision) not in own]


def of(row, pairs):
    """The efficiency of a row: (efficiency or None, what is taken in its place or an empty text)."""
    mine = [pair for pair in pairs if pair.stack == row.stack]
    for pair in mine:
        if pair.precision == row.precision.lower():
            return pair, ""
    if row.fp8:
        for pair in mine:
            if is_fp8(pair.precision):
                return pair, f"{row.precision} has no anchor: the efficiency of {pair.precision}"
    for pair in mine:
        if pair.precision == "bf16":
            return pair, f"{row.precision} has no anchor: the efficiency of bf16"
    return None, f"{row.stack} has no anchor: efficiency 1"
