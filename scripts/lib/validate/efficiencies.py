# SPDX-FileCopyrightText: 2026 The shard8 authors
# SPDX-License-Identifier: Apache-2.0
"""Efficiencies of pairs of stack and precision: fitted on anchors, or kept from before."""

import concurrent.futures
import dataclasses
import json
import os

from study.whole_file import write_whole

from . import Refused, gpus, projection
from .rows import is_fp8

FORMAT = 1
MOST_FLOPS = 1e18  # of a GPU, a second
REMEDY = "name another file, or remove it and run scripts/validate with --write"


@dataclasses.dataclass(frozen=True)
class Efficiency:
    stack: str
    precision: str  # lower case
    efficiency: float
    flops_per_s: float  # of the anchor, a GPU: model FLOPs over the measured time
    anchor: str  # "r01, SOURCE"
    gpu: str = ""  # the anchor's card; files of before have none


def read(path, must_exist=False):
    """The pairs of a file; none without a file, unless it must exist. Refused with every error of the file."""
    if not os.path.exists(path):
        if must_exist:
            raise Refused(f"{path}: there is no such file of efficiencies: name one, or let --write make it")
        return []
    try:
        with open(path, encoding="utf-8-sig") as file:
            found = json.load(file)
    except (OSError, ValueError, RecursionError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise Refused(f"{path}: cannot read the efficiencies: {why}: {REMEDY}") from error
    if not isinstance(found, dict) or not isinstance(found.get("pairs"), list):
        raise Refused(f"{path}: it has no list 'pairs': {REMEDY}")
    if found.get("format") != FORMAT or isinstance(found["format"], bool):
        raise Refused(f"{path}: format is {json.dumps(found.get('format'))}, expected {FORMAT}: {REMEDY}")
    errors, pairs = [], {}
    for index, item in enumerate(found["pairs"]):
        if pair := _pair(f"{path}: pairs[{index}]", item, errors):
            if (pair.stack, pair.precision) in pairs:
                errors.append(f"{path}: pairs[{index}] ({pair.stack}, {pair.precision}): a pair above is the same: "
                              "leave one of them")
            pairs[pair.stack, pair.precision] = pair
    if errors:
        raise Refused(errors)
    return list(pairs.values())


def _pair(where, item, errors):
    """A pair of the file, or None with errors."""
    if not isinstance(item, dict):
        errors.append(f"{where}: {json.dumps(item)} is no object")
        return None
    before, names = len(errors), [field.name for field in dataclasses.fields(Efficiency)]
    where += f" ({item.get('stack')}, {item.get('precision')})"
    errors += [f"{where}: '{name}' is missing" for name in names if name not in item and name != "gpu"]
    errors += [f"{where}: unknown key '{name}': keys are {', '.join(names)}" for name in item if name not in names]
    for name in names:
        value = item.get(name, "-")
        if name in ("efficiency", "flops_per_s"):
            low, high = (projection.LOWEST, projection.HIGHEST) if name == "efficiency" else (0, MOST_FLOPS)
            number = isinstance(value, (int, float)) and not isinstance(value, bool)
            if name in item and not (number and low <= value <= high and value > 0):
                errors.append(f"{where}: {name} is {json.dumps(value)}, expected a number "
                              + (f"from {low} to {high}" if low else f"above 0, up to {high:g}"))
        elif name in item and not (isinstance(value, str) and value.strip()):
            errors.append(f"{where}: {name} is {json.dumps(value)}, expected a text")
    return Efficiency(**{**item, "precision": item["precision"].lower()}) if len(errors) == before else None


def write(path, pairs):
    """Writes a file of pairs, as a whole."""
    pairs = sorted(pairs, key=lambda pair: (pair.stack, pair.precision))
    items = [{key: value for key, value in dataclasses.asdict(pair).items() if value != ""} for pair in pairs]
    text = json.dumps({"format": FORMAT, "pairs": items}, indent=2)
    write_whole(path, text + "\n")


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
        return Efficiency(stack, precision, found, float(f"{rate:.6g}"), f"{row.id}, {row.source}", row.gpu)

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
    others = ", ".join(pair.precision for pair in mine)
    where = f" in {row.precision}, only in {others}" if others else ""
    return None, f"{row.stack} has no anchor{where}: efficiency 1"


def of_card(row, pair):
    """A note if the pair's efficiency is of another card than the row's, or an empty text."""
    if not pair.gpu:
        return f"the efficiency of {pair.anchor.split(',')[0]} is of a card that its file does not name"
    if pair.gpu == row.gpu:
        return ""
    return f"the efficiency is of {gpus.named(pair.gpu)}, the row of {gpus.named(row.gpu)}"
